"""What the PyTorch contestants share: the model with the stored first weights, tensors, and the test."""

import os
import time
from collections.abc import Callable

import torch
from stored import Task
from torch import nn


def net(stored: Task) -> nn.Module:
    classes, features = len(stored.x0[str(len(stored.x0) - 1)]), stored.inputs[0].size
    if stored.work.model == "cnn":
        channels, side, _ = stored.inputs.shape[1:]
        model = nn.Sequential(
            nn.Conv2d(channels, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(64 * (side // 4) ** 2, 128), nn.ReLU(), nn.Linear(128, classes),
        )  # fmt: skip
    else:
        model = nn.Sequential(nn.Flatten(), nn.Linear(features, classes, bias=False))
    with torch.no_grad():
        for k, parameter in enumerate(model.parameters()):
            parameter.copy_(torch.from_numpy(stored.x0[str(k)]).reshape(parameter.shape))
    return model


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
