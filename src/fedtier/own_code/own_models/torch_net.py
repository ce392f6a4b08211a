"""A PyTorch module at one client: any module, any optimiser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...problem import Rows
from .contract import Guidance


class TorchNet:
    """`make(shape, classes)` gives an nn.Module over a batch [B, *shape] with a logit per class; `optimiser(parameters)` one of
    torch.optim's, Adam by default. It goes on from the weights that it had; the optimiser starts afresh in every fit."""

    def __init__(
        self, make: Callable[[tuple[int, ...], int], Any], optimiser: Callable[..., Any] | None = None, *,
        batch: int = 64, epochs: int = 4,
    ) -> None:  # fmt: skip
        self.make, self.optimiser, self.batch, self.epochs = make, optimiser, batch, epochs
        self.weights: dict[str, np.ndarray] = {}
        self.sizes: tuple[tuple[int, ...], int] = ((), 0)

    def fit(self, rows: Rows, guidance: Guidance) -> None:
        import torch  # pyright: ignore[reportMissingImports]
        from torch.nn.functional import cross_entropy  # pyright: ignore[reportMissingImports]

        torch.manual_seed(guidance.seed)
        self.sizes = (rows.inputs.shape[1:], guidance.classes)
        net = self._net().train()
        step = torch.optim.Adam(net.parameters()) if self.optimiser is None else self.optimiser(net.parameters())
        own, labels, shown, shares = (
            torch.from_numpy(np.array(a))
            for a in (rows.inputs, np.asarray(rows.labels, np.int64), guidance.inputs, guidance.shares)
        )
        rng = np.random.default_rng(guidance.seed)
        for _ in range(self.epochs * max(1, len(labels) // self.batch)):
            k, p = rng.integers(0, len(labels), self.batch), rng.integers(0, len(shown), self.batch)
            loss = cross_entropy(net(own[k]), labels[k])
            if guidance.weight > 0:
                loss = loss + guidance.weight * cross_entropy(net(shown[p]), shares[p])
            step.zero_grad()
            loss.backward()
            step.step()
        self.weights = {name: value.detach().numpy().copy() for name, value in net.state_dict().items()}

    def predict_proba(self, inputs: np.ndarray) -> np.ndarray:
        import torch  # pyright: ignore[reportMissingImports]

        with torch.no_grad():
            return torch.softmax(self._net().eval()(torch.from_numpy(np.array(inputs, np.float32))), 1).numpy()

    def _net(self) -> Any:
        import torch  # pyright: ignore[reportMissingImports]

        net = self.make(*self.sizes)
        if self.weights:
            net.load_state_dict({name: torch.from_numpy(value) for name, value in self.weights.items()})
        return net


def cnn(shape: tuple[int, ...], classes: int) -> Any:
    """A small convolutional net for images [channels, height, width]."""
    from torch import nn  # pyright: ignore[reportMissingImports]

    channels, height, width = shape
    return nn.Sequential(
        nn.Conv2d(channels, 8, 5, stride=2, padding=2), nn.ReLU(), nn.Conv2d(8, 16, 5, stride=2, padding=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(16 * -(-height // 4) * -(-width // 4), classes),
    )  # fmt: skip
