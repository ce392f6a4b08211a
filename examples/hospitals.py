"""Four hospitals, a method put together from parts, five seeds; then beside FedAvg."""

import optax
import patients  # made-up rows: hospital, age, sugar, pressure, outcome; examples/patients.py, so run this in examples/

import fedtier as ft

frame = patients.columns()  # or a DataFrame
data = ft.federate(frame, label="outcome", owner="hospital", server_share=0.3, seed=0)
method = ft.zo_hfl(
    estimator=ft.guided(smoothing=0.1),
    local=ft.projected_sgd(0.1, batch=32),
    server=ft.descent(optax.adam(3e-3), steps=20),
    personal=ft.fine_tune(0.3),  # the hospitals differ much
)
net = ft.mlp(hidden=64)
result = ft.train(method, data, model=net, rounds=50, participation=0.6, tau=5, seeds=5)
print(result, result.clients, sep="\n")  # in a notebook they show themselves; .to_pandas() makes a DataFrame
zurich = result.personal["zurich"]  # the parameters of its own model
print(result.predict({"age": [61.0], "sugar": [6.1], "pressure": [140.0]}, client="zurich").values)
both = {"ours": method, "FedAvg": ft.fedavg(fine_tune=0.3)}
table = ft.compare(both, data, model=net, rounds=50, seeds=10, baseline="FedAvg")
print(table, table.to_latex(), sep="\n")
result.plot(), table.plot()  # figures of matplotlib
