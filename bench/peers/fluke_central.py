"""fluke: its Client and Server (or SCAFFOLD's) with its FastDataLoader, which skips PyTorch's DataLoader.

The loader draws the minibatches of a round with replacement; the server takes the cohort from the stored plan."""

import hollow_torchvision  # noqa: F401
import torch
from fluke import FlukeENV
from fluke.algorithms import CentralizedFL
from fluke.algorithms.scaffold import SCAFFOLDClient, SCAFFOLDServer
from fluke.client import Client
from fluke.config import OptimizerConfigurator
from fluke.data import FastDataLoader
from fluke.server import Server
from fluke.utils import FederationObserver
from stored import Clock, finish, task
from torch_net import accuracy, net, tensors

clock = Clock()
stored = task()
work = stored.work
torch.set_num_threads(1)
torch.manual_seed(1)
inputs, labels = tensors(stored)
FlukeENV().set_device("cpu")


class Draws(FastDataLoader):
    def __iter__(self):
        for rows in torch.randint(self.size, (work.steps, work.batch)):
            yield tuple(tensor[rows] for tensor in self.tensors)

    def __len__(self):
        return work.steps


def loader(client):
    rows = stored.rows(client)
    return Draws(inputs[rows], labels[rows], num_labels=10, batch_size=work.batch, shuffle=True)


scaffold = work.method == "scaffold"
client_class, server_class = (SCAFFOLDClient, SCAFFOLDServer) if scaffold else (Client, Server)


class Planned(server_class):
    plan = iter(stored.ids)

    def get_eligible_clients(self, eligible_perc):
        return [self.clients[i] for i in next(self.plan)]


class Laps(FederationObserver):
    def end_round(self, round):
        clock.lap(round)


optimizer = OptimizerConfigurator({"name": "SGD", "lr": work.lr}, {"name": "StepLR", "step_size": 1, "gamma": 1.0})
clients = [
    client_class(i, loader(i), None, optimizer, torch.nn.CrossEntropyLoss(), local_epochs=1) for i in range(work.clients)
]
server = Planned(net(stored), None, clients, weighted=not scaffold)
algorithm = CentralizedFL(work.clients, None, None, clients=clients, server=server)
algorithm.set_callbacks(Laps())
algorithm.run(work.rounds, work.cohort / work.clients)
finish(clock, accuracy(stored, server.model), "fluke-fl", "torch")
