"""FedLab: its serial trainers and handlers in its standalone loop. The handler takes the cohort from the stored plan."""

import hollow_torchvision  # noqa: F401
import torch
from fedlab.contrib.algorithm.fedavg import FedAvgSerialClientTrainer, FedAvgServerHandler
from fedlab.contrib.algorithm.scaffold import ScaffoldSerialClientTrainer, ScaffoldServerHandler
from fedlab.contrib.dataset.basic_dataset import FedDataset
from fedlab.core.standalone import StandalonePipeline
from fedlab.utils import Aggregators, SerializationTool
from stored import Clock, finish, task
from torch.utils.data import DataLoader, RandomSampler, TensorDataset
from torch_net import accuracy, net, tensors

clock = Clock()
stored = task()
work = stored.work
torch.set_num_threads(1)
torch.manual_seed(1)
inputs, labels = tensors(stored)


class Partitioned(FedDataset):
    def __init__(self):
        super().__init__()
        self.num = work.clients
        self.sets = [TensorDataset(inputs[rows], labels[rows]) for rows in map(stored.rows, range(work.clients))]

    def get_dataset(self, id, type="train"):
        return self.sets[id]

    def get_dataloader(self, id, batch_size, type="train"):
        sampler = RandomSampler(self.sets[id], replacement=True, num_samples=work.steps * batch_size)
        return DataLoader(self.sets[id], batch_size=batch_size, sampler=sampler)


class Planned:
    def sample_clients(self):
        return stored.ids[self.round].tolist()


class FedAvgHandler(Planned, FedAvgServerHandler):
    def global_update(self, buffer):
        """By rows, as published and as everyone here; FedLab's own counts clients alike."""
        weights = torch.from_numpy(stored.size[stored.ids[self.round]]).float()
        parameters = Aggregators.fedavg_aggregate([reply[0] for reply in buffer], weights)
        SerializationTool.deserialize_model(self._model, parameters)


class ScaffoldHandler(Planned, ScaffoldServerHandler):
    pass


class Pipeline(StandalonePipeline):
    def evaluate(self):
        clock.lap(self.handler.round)


model = net(stored)
if work.method == "scaffold":
    handler = ScaffoldHandler(model, work.rounds, work.cohort / work.clients)
    handler.setup_optim(lr=1.0)
    trainer = ScaffoldSerialClientTrainer(model, work.clients)
else:
    handler = FedAvgHandler(model, work.rounds, work.cohort / work.clients)
    trainer = FedAvgSerialClientTrainer(model, work.clients)
trainer.setup_dataset(Partitioned())
trainer.setup_optim(epochs=1, batch_size=work.batch, lr=work.lr)
Pipeline(handler, trainer).main()
finish(clock, accuracy(stored, handler.model), "fedlab", "torch")
