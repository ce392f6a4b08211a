"""What the PyTorch contestants share: the model with the stored first weights, tensors, and the test."""

import os
import time
from collections.abc import Callable

import torch
from stored import Task
from torch import nn


class ChannelsLast(nn.Module):
    """Rows of the dense layer count places first, then channels, as fedtier's do."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.permute(0, 2, 3, 1)


def net(stored: Task) -> nn.Module:
    classes, features = len(stored.x0[str(len(stored.x0) - 1)]), stored.inputs[0].size
    if stored.work.model == "cnn":
        return small_net(stored)
    model = nn.Sequential(nn.Flatten(), nn.Linear(features, classes, bias=False))
    with torch.no_grad():
        model[1].weight.copy_(torch.from_numpy(stored.x0["0"]))
    return model


def small_net(stored: Task) -> nn.Module:
    """Three convolutions of patches and a dense layer; the stored order is kernels, biases, weight, bias."""
    leaves = [torch.from_numpy(stored.x0[str(k)]) for k in range(len(stored.x0))]
    kernels, biases, weight, bias = leaves[:3], leaves[3:6], leaves[6], leaves[7]
    layers: list[nn.Module] = []
    with torch.no_grad():
        for kernel, offset in zip(kernels, biases, strict=True):
            channels, out = kernel.shape[0] // 9, kernel.shape[1]
            conv = nn.Conv2d(channels, out, 3, padding=1)
            conv.weight.copy_(kernel.reshape(3, 3, channels, out).permute(3, 2, 0, 1))
            conv.bias.copy_(offset)
            layers += [conv, nn.ReLU(), nn.MaxPool2d(2)]
        dense = nn.Linear(weight.shape[1], weight.shape[0])
        dense.weight.copy_(weight)
        dense.bias.copy_(bias)
    return nn.Sequential(*layers, ChannelsLast(), nn.Flatten(), dense)


def tensors(stored: Task) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(stored.inputs), torch.from_numpy(stored.labels)


@torch.no_grad()
def accuracy(stored: Task, model: nn.Module) -> float:
    model.eval()
    return stored.accuracy(lambda inputs: model(torch.from_numpy(inputs)).argmax(1).numpy())


def use_fastest_threads(trial: Callable[[], object]) -> None:
    """One thread or all of them, whichever finishes `trial` sooner: small products are better off with one."""
    seconds = {}
    for count in (1, len(os.sched_getaffinity(0))):
        torch.set_num_threads(count)
        trial()
        start = time.perf_counter()
        trial()
        seconds[count] = time.perf_counter() - start
    torch.set_num_threads(min(seconds, key=seconds.__getitem__))
