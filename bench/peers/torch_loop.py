"""Plain PyTorch, the typical loop: nn.Module, DataLoader, optimizer, one client after another."""

import copy

import torch
from stored import Clock, finish, task
from torch.nn import functional
from torch.utils.data import DataLoader, RandomSampler, TensorDataset
from torch_net import accuracy, net, tensors, use_fastest_threads

clock = Clock()
stored = task()
work = stored.work
torch.manual_seed(1)
inputs, labels = tensors(stored)
sets = [TensorDataset(inputs[rows], labels[rows]) for rows in map(stored.rows, range(work.clients))]
server = net(stored)
model = copy.deepcopy(server)


def batches(client, steps):
    """`steps` minibatches drawn with replacement, as everyone draws them."""
    sampler = RandomSampler(sets[client], replacement=True, num_samples=int(steps) * work.batch)
    return DataLoader(sets[client], batch_size=work.batch, sampler=sampler)


def local(client, steps, shift=None):
    model.load_state_dict(server.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=work.lr)
    for rows, targets in batches(client, steps):
        optimizer.zero_grad()
        functional.cross_entropy(model(rows), targets).backward()
        for parameter, extra in zip(model.parameters(), shift or (), strict=False):
            parameter.grad += extra
        optimizer.step()
    return [parameter.detach().clone() for parameter in model.parameters()]


@torch.no_grad()
def assign(values):
    for parameter, value in zip(server.parameters(), values, strict=True):
        parameter.copy_(value)


def fedavg(number):
    ids = stored.ids[number]
    replies = [local(i, h) for i, h in zip(ids, stored.steps[number], strict=True)]
    weights = stored.size[ids] / stored.size[ids].sum()
    assign([sum(float(w) * y for w, y in zip(weights, ys, strict=True)) for ys in zip(*replies, strict=True)])


c = [torch.zeros_like(p) for p in server.parameters()]
controls = [[torch.zeros_like(p) for p in server.parameters()] for _ in range(work.clients if work.method == "scaffold" else 0)]


@torch.no_grad()
def scaffold(number):
    ids, before = stored.ids[number], [p.clone() for p in server.parameters()]
    after, moved = [torch.zeros_like(p) for p in before], [torch.zeros_like(p) for p in before]
    for i, h in zip(ids, stored.steps[number], strict=True):
        with torch.enable_grad():
            ys = local(i, h, [a - b for a, b in zip(c, controls[i], strict=True)])
        for k, y in enumerate(ys):
            delta = (before[k] - y) / (float(h) * work.lr) - c[k]  # c_i+ - c_i, option II
            controls[i][k] += delta
            moved[k] += delta / work.clients
            after[k] += y / len(ids)
    assign(after)
    for k, change in enumerate(moved):
        c[k] += change


play = {"fedavg": fedavg, "scaffold": scaffold}[work.method]
use_fastest_threads(lambda: local(stored.ids[0, 0], 5))
for number in range(work.rounds):
    play(number)
    clock.lap(number + 1)
finish(clock, accuracy(stored, server), "torch", threads=torch.get_num_threads())
