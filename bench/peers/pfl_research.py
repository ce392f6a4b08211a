"""Apple's pfl-research: FederatedAveraging on its simulated backend, in-memory tensors as users' data.

A user's data of a round are its minibatches, drawn with replacement and gathered at once, which is its fastest way: batches
are then slices. Users' metrics are never asked for: evaluation_frequency is above the number of rounds. It runs as one
process per core, its distributed simulation (torch.distributed.run)."""

import os

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightingStrategy
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from stored import Clock, finish, task
from torch.nn import functional
from torch_net import accuracy, net, tensors

clock = Clock()
stored = task()
work = stored.work
torch.set_num_threads(1)
torch.manual_seed(1)
rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
rng = np.random.default_rng([1, rank])
inputs, labels = tensors(stored)


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net(stored)

    def forward(self, x):
        return self.net(x)

    def loss(self, x, y):
        self.train()
        return functional.cross_entropy(self(x), y)

    def metrics(self, x, y):
        return {}


def user(number):
    own = stored.rows(number)
    rows = torch.from_numpy(own[rng.integers(0, len(own), work.steps * work.batch)])
    return PyTorchTensorDataset((inputs[rows], labels[rows]), user_id=str(number))


class ByRows(WeightingStrategy):
    """FedAvg's weights: the rows a client owns, of which its data of a round are a draw."""

    def postprocess_one_user(self, *, stats, user_context):
        stats.reweight(float(stored.size[int(user_context.user_id)]))
        return stats, Metrics()


class Laps(TrainingProcessCallback):
    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        clock.lap(central_iteration + 1)
        return False, Metrics()


def planned():
    """The stored cohorts as its sampler asks for them: of every `world` users drawn, a process takes the one of its rank."""
    turns = len(range(rank, work.cohort, world))
    for ids in stored.ids.tolist():
        yield from (ids + ids[:world])[: turns * world]


classifier = Classifier()
model = PyTorchModel(classifier, torch.optim.SGD, torch.optim.SGD(classifier.parameters(), lr=1.0))
plan = planned()
users = FederatedDataset(user, lambda: next(plan))
backend = SimulatedBackend(users, None, postprocessors=[ByRows()])
params = NNAlgorithmParams(
    central_num_iterations=work.rounds, evaluation_frequency=work.rounds + 1, train_cohort_size=work.cohort, val_cohort_size=0
)
train = NNTrainHyperParams(local_num_epochs=1, local_learning_rate=work.lr, local_batch_size=work.batch)
FederatedAveraging().run(params, backend, model, train, callbacks=[Laps()], send_metrics_to_platform=False)
if rank == 0:
    finish(clock, accuracy(stored, classifier.net), "pfl", "torch")
