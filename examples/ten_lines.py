"""Ten clients whose digits differ, and a server with digits of its own."""

import fedtier as ft

data = ft.federate("digits", clients=10, alpha=0.1, server_share=0.3, seed=0)  # or a DataFrame, arrays, a file
net = ft.mlp(hidden=32)
result = ft.train(ft.zo_hfl(), data, model=net, rounds=60)  # the recommended method
print(result)  # the global model, the personal ones, the worst client
mine = result.personal["3"]  # client 3's own model, a tree of arrays; result.model is the global one
digits = ft.datasets.load("digits").inputs[:5]
print(result.predict(digits, client="3").values, result.predict(digits).values)
table = ft.compare({"ours": ft.zo_hfl(), "FedAvg": ft.fedavg()}, data, model=net, rounds=60, seeds=3, baseline="FedAvg")
print(table.finding)
