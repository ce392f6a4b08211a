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
        center = torch.from_numpy(x["weight"])
        y = center.clone().requires_grad_()
        for t in range(steps):
            rows = torch.randint(len(self.labels), (self.batch,), generator=draws)
            loss = torch.nn.functional.cross_entropy(self.inputs[rows] @ y.T, self.labels[rows])
            (gradient,) = torch.autograd.grad(loss + 0.5 * self.proximity * ((y - center) ** 2).sum(), y)
            with torch.no_grad():
                y -= 0.1 / (t + 1) * gradient
        return {"weight": y.detach().numpy()}


def make(inputs, labels, settings):
    """inputs [N, ...] float32, already scaled; labels [N] from 0; settings: the run's [method], and `classes`."""
    return Softmax(inputs, labels, settings)
