"""FedMac: sparse personal models that are in correlation with a sparse global one.

Liu, Li, Wang, Zhang, Shao, Geng, "Sparse Personalized Federated Learning", IEEE TNNLS 2023, https://arxiv.org/abs/2107.05330

    theta_i <- theta_i - tilde_gamma_t (grad f1(theta_i, zeta_t) - lambda w_i + gamma tanh(theta_i/rho))     K times, same rows
    w_i <- w_i - eta (lambda (w_i - theta_i) + gamma_w tanh(w_i/rho))     then, from w_i = x, H_i times
    x <- x + (beta/|S|) sum_S (w_i - x)     over the replies that arrived

This is the loop of `pfedme` on the problem of `problem/sparse.py`: h = f1 - lambda <theta, w> + gamma phi(theta), where phi is
a smooth sum of absolute values with slope tanh. With gamma = gamma_w = 0 and ridge = lambda, which adds lambda theta_i to the
first step, it is pFedMe. Numbers come near 0, not to it: cut off those below rho to store a sparse model. Do not leave the
ridge out where the loss flattens far away, as cross entropy does: theta_i and w_i then drive each other to infinity.

A local step costs K gradients, so `solves` is K. State: one model per client.
"""

from __future__ import annotations

from jaxtyping import Array, Float

from ...problem import Bilevel, correlated
from ..averaging.fedavg import LOCAL
from ..method import Method
from ..solvers import ProjectedSgd
from .pfedme import envelope

Real = float | Float[Array, ""]


def fedmac(
    problem: Bilevel,
    *,
    proximity: Real = 1.0,
    sparsity: Real = 0.001,
    shared_sparsity: Real = 0.001,
    width: float = 0.01,
    ridge: Real = 0.0,
    inner_steps: int = 5,
    outer_lr: Real = 0.1,
    server_rate: Real = 1.0,
    local: ProjectedSgd = LOCAL,
    weighting: str = "uniform",
) -> Method:
    """FedMac on problem.f1: lambda = `proximity`, gamma = `sparsity`, gamma_w = `shared_sparsity`, rho = `width`; the loop's
    options are pFedMe's. The defaults of these numbers are ours."""
    sparse = correlated(
        problem.f1, proximity=proximity, sparsity=sparsity, shared_sparsity=shared_sparsity, width=width, ridge=ridge
    )
    return envelope("fedmac", sparse, inner_steps, outer_lr, server_rate, local, weighting)
