"""PyTorch batched over the cohort by hand: one bmm for the logits of all clients, one for their gradients, no autograd for
softmax regression; the net of W5 by torch.func (vmap over grad of functional_call)."""

import torch
from stored import Clock, finish, task
from torch.func import functional_call, grad, vmap
from torch.nn import functional
from torch_net import accuracy, net, tensors, use_fastest_threads
from workloads import ZO_HFL

clock = Clock()
stored = task()
work = stored.work
torch.manual_seed(1)
torch.set_grad_enabled(False)
model = net(stored)
inputs, labels = tensors(stored)
index, start, size = (torch.from_numpy(a).long() for a in (stored.index, stored.start, stored.size))
all_ids, weight = torch.from_numpy(stored.ids).long(), size / size.double().mean()
if work.model == "softmax":
    inputs = inputs.flatten(1)
    one_hot = functional.one_hot(labels).float()


def draws(ids, steps):
    """Rows of all minibatches of a round: [H, S, B]."""
    position = (torch.rand(steps, len(ids), work.batch, dtype=torch.float64) * size[ids, None]).long()
    return index[start[ids, None] + position]


def gradient(y, rows, a=None):
    """Of the mean cross entropy at y [S, C, n] on rows [S, B]."""
    a = inputs[rows] if a is None else a
    p = torch.softmax(torch.bmm(a, y.transpose(1, 2)), dim=2).sub_(one_hot[rows])
    return torch.bmm(p.transpose(1, 2), a).div_(rows.shape[1])


def solve(x, ids, steps, shift=None):
    y = x.expand(len(ids), *x.shape).clone()
    for rows in draws(ids, steps):
        g = gradient(y, rows)
        y.sub_(g if shift is None else g.add_(shift), alpha=work.lr)
    return y


def average(ids, ys):
    return torch.tensordot((weight[ids] / weight[ids].sum()).to(ys.dtype), ys, 1)


x = model[1].weight if work.model == "softmax" else None
c = torch.zeros_like(x) if work.method == "scaffold" else None
controls = torch.zeros(work.clients, *x.shape) if work.method == "scaffold" else None


def fedavg(x, number):
    return average(all_ids[number], solve(x, all_ids[number], work.steps))


def scaffold(x, number):
    ids = all_ids[number]
    y = solve(x, ids, work.steps, c - controls[ids])
    delta = (x - y) / (work.steps * work.lr) - c  # c_i+ - c_i, option II
    controls[ids] += delta
    c.add_(delta.sum(0) / work.clients)
    return y.mean(0)


def zo_hfl(x, number):
    """Algorithm 1 with coupled solves, both of all clients in one product: [S, 2 C, n]."""
    ids, steps, (classes, n) = all_ids[number], int(stored.steps[number].max()), x.shape
    cohort = len(ids)
    v = torch.randn(cohort, classes, n)
    v /= v.flatten(1).norm(dim=1)[:, None, None]
    points = torch.stack([x + ZO_HFL.smoothing * v, x - ZO_HFL.smoothing * v], 1)
    y = points.clone()
    for t, rows in enumerate(draws(ids, steps)):
        a = inputs[rows]
        z = torch.bmm(a, y.flatten(1, 2).transpose(1, 2)).view(cohort, work.batch, 2, classes)
        p = torch.softmax(z, 3).sub_(one_hot[rows][:, :, None])
        g = torch.bmm(p.flatten(2).transpose(1, 2), a).view_as(y).div_(work.batch)
        y.sub_(g.add_(y - points, alpha=ZO_HFL.proximity), alpha=work.lr / (t + 1))
    f2 = 0.5 * ZO_HFL.penalty * weight[ids].float() * (points - y).pow(2).sum((2, 3)).T
    slope = x.numel() / (2 * ZO_HFL.smoothing) * (f2[0] - f2[1])
    rows = torch.from_numpy(stored.server)[torch.randint(len(stored.server), (1, ZO_HFL.server_batch))]
    step = ZO_HFL.server_lr / (number + 1) ** 0.5
    return x - step * (gradient(x[None], rows)[0] + torch.tensordot(slope, v, 1) / cohort)


def loss(parameters, rows, targets):
    return functional.cross_entropy(functional_call(model, parameters, (rows,)), targets)


def solve_net(ids, steps):
    ys = {name: p.expand(len(ids), *p.shape).clone() for name, p in model.named_parameters()}
    for rows in draws(ids, steps):
        for name, g in gradients(ys, inputs[rows], labels[rows]).items():
            ys[name].sub_(g, alpha=work.lr)
    return ys


def fedavg_net(x, number):
    """x lives in `model`."""
    ids = all_ids[number]
    model.load_state_dict({name: average(ids, y) for name, y in solve_net(ids, work.steps).items()})


gradients = vmap(grad(loss))
play = fedavg_net if work.model == "cnn" else {"fedavg": fedavg, "scaffold": scaffold, "zo_hfl": zo_hfl}[work.method]
use_fastest_threads(lambda: solve_net(all_ids[0], 2) if work.model == "cnn" else solve(x, all_ids[0], 20))
for number in range(work.rounds):
    x = play(x, number)
    clock.lap(number + 1)
if work.model == "softmax":
    model[1].weight.copy_(x)
finish(clock, accuracy(stored, model), "torch", threads=torch.get_num_threads())
