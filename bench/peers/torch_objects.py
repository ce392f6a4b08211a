"""PyTorch in the style of PFLlib: every client an object with its own copy of the model, its optimizer and its DataLoader;
the server copies its parameters into theirs before a round and adds up theirs after it. A client walks through its own
shuffled rows, epoch after epoch, full batches where it has enough rows."""

import copy

import torch
from stored import Clock, finish, task
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch_net import accuracy, net, tensors

clock = Clock()
stored = task()
work = stored.work
torch.set_num_threads(1)
torch.manual_seed(1)
inputs, labels = tensors(stored)


class Client:
    def __init__(self, model, number):
        rows = stored.rows(number)
        self.rows = len(rows)
        self.model = copy.deepcopy(model)
        self.loss = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=work.lr)
        data = TensorDataset(inputs[rows], labels[rows])
        self.loader = DataLoader(data, work.batch, shuffle=True, drop_last=len(rows) >= work.batch)

    def set_parameters(self, model):
        for mine, new in zip(self.model.parameters(), model.parameters(), strict=True):
            mine.data = new.data.clone()

    def train(self, steps):
        self.model.train()
        done = 0
        while done < steps:
            for x, y in self.loader:
                self.optimizer.zero_grad()
                self.loss(self.model(x), y).backward()
                self.optimizer.step()
                done += 1
                if done == steps:
                    break


class Server:
    def __init__(self):
        self.model = net(stored)
        self.clients = [Client(self.model, number) for number in range(work.clients)]

    def play(self, number):
        chosen = [self.clients[i] for i in stored.ids[number]]
        for client, steps in zip(chosen, stored.steps[number], strict=True):
            client.set_parameters(self.model)
            client.train(steps)
        rows = sum(client.rows for client in chosen)
        for parameter in self.model.parameters():
            parameter.data.zero_()
        for client in chosen:
            for parameter, theirs in zip(self.model.parameters(), client.model.parameters(), strict=True):
                parameter.data += theirs.data * (client.rows / rows)


server = Server()
for number in range(work.rounds):
    server.play(number)
    clock.lap(number + 1)
finish(clock, accuracy(stored, server.model), "torch")
