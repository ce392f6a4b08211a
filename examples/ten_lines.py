"""Ten clients whose digits differ, and a server with digits of its own."""

from fedtier.experiments.config import load_config
from fedtier.experiments.progress import Progress
from fedtier.experiments.run import run_experiment

config = load_config(settings=["data.name=digits", "data.clients=10", "data.alpha=0.1", "run.rounds=60"])
result = run_experiment(config, progress=Progress())
final, personal = result.final[0], result.final[0]["personal_accuracy"]
print(f"the global model, on test rows: {final['global_accuracy']:.1%}")
print(f"the personal models, each on its client's own rows: {personal['mean']:.1%}")
print(f"the worst of them: {personal['min']:.1%}")
