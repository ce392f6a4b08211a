"""A client whose local solver is PyTorch: softmax regression by autograd, held near the server's model.

In the site's file:    solver = "torch_client:make"

    h(x, y) = cross entropy of y + proximity/2 |y - x|^2        y <- y - 0.1/(t + 1) grad h, from y = x
"""

import torch


class Softmax:
    def __init__(self, inputs, labels, settings):
        self.inputs = torch.from_numpy(inputs.reshape(len(inputs), -1))
        self.labels = torch.from_numpy(labels).long()
        self.batch = settings.get("batch", 32)
        self.proximity = settings["proximity"]

    def solve(self, x, steps, seed):
        draws = torch.Generator().manual_seed(seed)
        center = {name: torch.from_numpy(value) for name, value in x.items()}
        y = {name: value.clone().requires_grad_() for name, value in center.items()}
        for t in range(steps):
            rows = torch.randint(len(self.labels), (self.batch,), generator=draws)
            logits = torch.nn.functional.linear(self.inputs[rows], y["weight"], y.get("bias"))
            distance = sum(((y[name] - center[name]) ** 2).sum() for name in y)
            h = torch.nn.functional.cross_entropy(logits, self.labels[rows]) + 0.5 * self.proximity * distance
            gradients = torch.autograd.grad(h, list(y.values()))
            with torch.no_grad():
                for value, gradient in zip(y.values(), gradients, strict=True):
                    value.sub_(0.1 / (t + 1) * gradient)
        return {name: value.detach().numpy() for name, value in y.items()}


def make(inputs, labels, settings):
    """inputs [N, ...] float32, already scaled; labels [N] from 0; settings: the run's [method], and `classes`."""
    return Softmax(inputs, labels, settings)
