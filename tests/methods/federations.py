"""Small federations that the tests share."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from fedtier.federation import build, make_plan, partition
from fedtier.problem import Rows, Spec
from fedtier.problem.closed_forms import ClosedForm, QuadraticSpec


def digits(clients=10, radius=None, seed=0, dtype=np.float32, limit=600):
    """Scikit-learn's digits with unequal clients, Dirichlet(0.3)."""
    bunch = load_digits()
    inputs = ((bunch.data[:limit] - 4.9) / 6.0).astype(dtype)
    labels = bunch.target[:limit].astype(np.int32)
    rng = np.random.default_rng(seed)
    assign = partition.dirichlet(labels, clients, 0.3, least=2)
    federation = build(Rows(inputs, labels), assign, clients=clients, rng=rng, client_test_share=0.2)
    if radius is not None:
        spec = federation.spec
        federation = federation._replace(spec=spec._replace(radius=np.linspace(0.5, 1.5, clients).astype(dtype) * radius))
    return federation


def bumpy_plan(rounds, clients=10, tau=2.0, seed=49):
    """Unequal H, stragglers and drop-outs."""
    taus = np.linspace(0.5, 1.5, clients) * tau
    rng = np.random.default_rng(seed)
    plan = make_plan(rng, clients=clients, rounds=rounds, participation=0.4, tau=taus, stragglers=0.2, dropouts=0.2)
    assert (plan.steps == 0).any() and (~plan.arrived).any() and len(np.unique(plan.steps)) > 3
    return plan


def quadratic(clients=4, n=6, rows=50, noise=0.5, seed=0, penalty=1.0, proximity=1.0, dtype=np.float32):
    """A two-level quadratic with known optimum: (federation, closed form)."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((clients, n))
    owner = np.repeat(np.arange(clients), rows)
    data = (centres[owner] + noise * rng.standard_normal((len(owner), n))).astype(dtype)
    curvature = np.exp(rng.uniform(-0.7, 0.7, (clients, n))).astype(dtype)
    weight = np.linspace(0.2, 1.8, clients)  # the optimum then lies far from the server's own
    spec = QuadraticSpec(weight, np.full(clients, np.inf), np.ones(clients), curvature)
    federation = build(data, partition.natural(owner), clients=clients, rng=rng, server_share=0.3, test_share=0.0, spec=spec)
    index = np.asarray(federation.index)

    def mean(start, size):
        return data[index[int(start) : int(start) + int(size)]].astype(np.float64).mean(axis=0)

    b = np.stack([mean(s, k) for s, k in zip(federation.train.start, federation.train.size, strict=True)])
    a = mean(federation.server.start, federation.server.size)
    closed = ClosedForm(a, b, curvature.astype(np.float64), weight, penalty, proximity)
    return federation, closed


def one_client_spec(weight=1.0, radius=np.inf):
    return Spec(np.float32(weight), np.float32(radius), np.float32(1.0))
