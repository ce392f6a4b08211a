"""From a configuration to everything an engine needs. Each seed has its own split, partition, plan, x_0 and draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from .. import datasets as data_sets
from .. import keys
from ..datasets import Dataset
from ..errors import called, require
from ..federation import Federation, Plan, count_of, with_seat
from ..keys import Tag
from ..methods import Method, pretrain
from ..methods.attacked import AttackSpec
from ..methods.predictions.learners import Learner
from ..methods.solvers import LowerLevel
from ..own_code.own_models.kept import Kept
from ..privacy.mechanism import private
from ..problem import Bilevel, Model, Spec
from ..problem.closed_forms import QuadraticSpec
from .budgets import budgeted, finds_noise, promised_sizes
from .data import Newcomers, client_names, clients_of, load_data, new_names, seeds_of, split_all
from .own_models import start_of
from .planning import local_steps_of, plan_of, steps_of
from .privacy_rules import mechanism_of, row_noise_of
from .solving import check_own_models, lower_level_of, made, method_of, own_learner, problem_of
from .tables import Config, keys_of


class Experiment(NamedTuple):
    """All leaves of federation (but its arrays), plan, x and key have a leading axis: one row per seed."""

    config: Config
    dataset: Dataset
    model: Model | None  # None where there is nothing to classify
    problem: Bilevel
    method: Method
    solve: LowerLevel  # y_i(x), for the objective of the two-level problem
    federation: Federation
    plan: Plan
    x: PyTree
    key: Key[Array, "seeds"]
    steps: np.ndarray  # [R + 1, m] H_{i,r} before stragglers; row R for the final personal models
    new: Newcomers | None = None  # the clients that never train; windows with a leading axis for the seeds
    sizes: np.ndarray | None = None  # [seeds, m] the clients' training rows, where privacy counts them; or `promised_sizes`
    own: Kept | None = None  # where clients have models of their own: what they keep between two rounds

    @property
    def clients(self) -> int:
        """m, a seat for the server's data not counted."""
        return self.steps.shape[1]

    @property
    def compiles(self) -> bool:
        """Whether it can be one program: not with a black box at the clients, nor with models of their own."""
        return self.config.method.solver is None and self.own is None

    @property
    def attackers(self) -> dict[int, list[str]]:
        """The names of the clients that attack, for each seed; empty without an attack."""
        spec = self.federation.spec
        if not isinstance(spec, AttackSpec):
            return {}
        rows = zip(seeds_of(self.config), np.asarray(spec.attacks), strict=True)
        return {seed: [self.client_names[i] for i in np.flatnonzero(row)] for seed, row in rows}

    @property
    def client_names(self) -> tuple[str, ...]:
        """[m] the owners' names where clients are natural, else their numbers."""
        return client_names(self.config, self.dataset, self.clients)

    @property
    def new_names(self) -> tuple[str, ...]:
        """The names of the clients that never train."""
        return new_names(self.config, self.dataset) if self.new is not None else ()

    def unit(self, s: int) -> float | None:
        """The deviation of the label for seed number s, in which a regression is computed; None for classes."""
        prepared = self.dataset.task == "regression" and self.dataset.preparations
        return self.dataset.preparations[s].label.unit if prepared else None


class Algorithm(NamedTuple):
    """The part of an experiment that is the same for all parties; fields as there."""

    config: Config
    dataset: Dataset
    model: Model | None
    problem: Bilevel
    method: Method
    solve: LowerLevel


def assemble(config: Config, dataset: Dataset | None = None, parties: Federation | None = None) -> Experiment:
    """Loads the data (unless given) and draws everything that is drawn before round 0.

    `parties` says who has which rows instead of a draw: on the wire the server sees its own rows alone.
    """
    hint = "set run.local_steps"
    require(
        parties is None or config.run.epochs is None, "run.epochs", config.run.epochs, "sites count steps, not epochs", hint
    )
    dataset = dataset or load_data(config)
    own = Kept() if config.clients.models else None
    clients = clients_of(config, dataset) if parties is None else parties.clients
    check_own_models(config, clients)
    seeds = seeds_of(config)
    sizes = None
    if config.privacy.kind == "rows":
        sizes = _train_sizes(config, dataset, seeds) if parties is None else promised_sizes(config)
    if parties is None or not finds_noise(config):
        config = budgeted(config, clients, sizes)
    model, problem, arrays, method, solve = _algorithm(config, dataset, clients, sizes if parties is None else None, own)

    def one(seed: int) -> tuple[Federation, Plan, Newcomers | None]:
        rng = np.random.default_rng([seed, 0])
        drawn = (
            _federation(config, dataset, dataset.labels[: dataset.rows], clients, rng) if parties is None else (parties, None)
        )
        federation, new = _with_attackers(config, dataset, drawn[0], clients, seed), drawn[1]
        if dataset.blocks > 1:  # each seed has prepared rows of its own, one block after the other
            federation = federation._replace(index=federation.index + dataset.rows * (seed - config.run.seed))
        plan = plan_of(config, method, steps_of(config, federation, clients), clients, seed)
        return federation._replace(arrays=()), plan, new

    with called(keys_of("data", "run") | {"buffer": "method.buffer"}):
        federations, plans, newcomers = zip(*(one(seed) for seed in seeds), strict=True)
    federation = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *federations)
    federation = federation._replace(arrays=jax.tree.map(jnp.asarray, arrays))
    if config.run.order == "poisson":
        plans = [plan.padded(max(plan.cohort for plan in plans)) for plan in plans]
    plan = jax.tree.map(lambda *tables: np.stack(tables), *plans)
    key = jnp.stack([keys.root(seed) for seed in seeds])
    steps = np.broadcast_to(local_steps_of(config, federation, clients), (config.run.rounds + 1, clients))
    x = _first_model(config, dataset, model, problem, federation, key)
    new = None if newcomers[0] is None else jax.tree.map(lambda *leaves: jnp.stack(leaves), *newcomers)
    return Experiment(config, dataset, model, problem, method, solve, federation, plan, x, key, steps, new, sizes, own)


def federate(config: Config, dataset: Dataset, seed: int) -> Federation:
    """Who has which rows for this seed, as `assemble` draws it, without the rows themselves."""
    rng = np.random.default_rng([seed, 0])
    alone = config.model_copy(update={"method": config.method.model_copy(update={"server_seat": False})})
    return _federation(alone, dataset, dataset.labels[: dataset.rows], clients_of(config, dataset), rng)[0]


def algorithm(
    config: Config,
    dataset: Dataset,
    adopt: Callable[[Bilevel], Bilevel] = lambda problem: problem,
    learner: Learner | None = None,
    sizes: np.ndarray | None = None,
) -> Algorithm:
    """What a single party needs; `adopt` may change the problem, for example give it a solver of the party's own; `learner` is
    a model of its own; `sizes` is its number of rows, [1, 1], under privacy of rows."""
    model, problem, _, _, _ = _algorithm(config, dataset)
    problem = adopt(problem)
    method = made(config, dataset, problem, None if sizes is None else row_noise_of(config, sizes), learner)
    return Algorithm(config, dataset, model, problem, method, lower_level_of(problem, config.method.options))


def with_options(experiment: Experiment, options: Mapping[str, object]) -> Experiment:
    """The same experiment with other values in [method]; they may be traced, so nothing is checked."""
    method_table = experiment.config.method.model_copy(update=options)
    config = experiment.config.model_copy(update={"method": method_table})
    model, problem, _, method, solve = _algorithm(config, experiment.dataset, experiment.clients, experiment.sizes)
    return experiment._replace(config=config, model=model, problem=problem, method=method, solve=solve)


def _algorithm(
    config: Config, dataset: Dataset, clients: int = 0, sizes: np.ndarray | None = None, own: Kept | None = None
) -> tuple[Model | None, Bilevel, PyTree, Method, LowerLevel]:
    """`clients` and `sizes` are read under privacy alone."""
    model, problem, arrays = problem_of(config, dataset)
    noise = None if sizes is None else row_noise_of(config, sizes)
    learner = None if own is None else own_learner(config.clients.models, dataset, own)
    method = method_of(config, dataset, problem, noise, learner)
    if config.privacy.kind == "clients":
        method = private(method, mechanism_of(config, clients))
    return model, problem, arrays, method, lower_level_of(problem, config.method.options)


def _train_sizes(config: Config, dataset: Dataset, seeds: list[int]) -> np.ndarray:
    """[seeds, m] how many training rows each client has."""
    return np.stack([np.asarray(federate(config, dataset, seed).train.size) for seed in seeds])


def _with_attackers(config: Config, dataset: Dataset, federation: Federation, clients: int, seed: int) -> Federation:
    """The federation with this seed's attackers marked in its spec, where there are some; the server's seat is none of them."""
    share = config.attack.share
    if config.attack.kind == "none":
        return federation
    count = count_of(share, clients)
    require(count or not share, "attack.share", share, f"is none of {clients} clients", "raise it, or data.clients")
    attacks = np.zeros(federation.clients, bool)
    attacks[np.random.default_rng([seed, 5]).choice(clients, count, replace=False)] = True
    return federation._replace(spec=AttackSpec(*federation.spec, attacks=jnp.asarray(attacks)))


def _federation(
    config: Config, dataset: Dataset, arrays: PyTree, clients: int, rng: np.random.Generator
) -> tuple[Federation, Newcomers | None]:
    federation, new = split_all(config, dataset, arrays, rng)
    if config.privacy.kind != "none" and not config.privacy.public_sizes:  # how many rows it has is not told: all count alike
        federation = federation._replace(spec=federation.spec._replace(weight=jnp.ones_like(federation.spec.weight)))
    federation = federation._replace(spec=_spec(config, dataset, federation.spec, clients))
    return with_seat(federation) if config.method.server_seat else federation, new


def _spec(config: Config, dataset: Dataset, spec: Spec, clients: int) -> Spec | QuadraticSpec:
    radius = config.method.radius
    if radius is not None:
        fits = np.ndim(radius) == 0 or np.shape(radius) == (clients,)
        require(fits, "method.radius", radius, f"must be one number or one for each of the {clients} clients")
        spec = spec._replace(radius=jnp.broadcast_to(jnp.asarray(radius, jnp.float32), (clients,)))
    if dataset.task == "two_level":
        return QuadraticSpec(*spec, curvature=jnp.asarray(data_sets.curvatures(clients, dataset.shape[0])))
    return spec


def _first_model(
    config: Config, dataset: Dataset, model: Model | None, problem: Bilevel, federation: Federation, key: Key[Array, "seeds"]
) -> PyTree:
    def init(key: Key[Array, ""]) -> PyTree:
        if model is None:
            return start_of(config.model, jnp.zeros(dataset.shape))
        return model.init(keys.at(key, keys.BEFORE_ROUND_0, Tag.INIT))

    x = jax.jit(jax.vmap(init))(key)
    method = config.method
    if not method.pretrain:
        return x
    batch = method.options.get("server_batch", 128)

    def warm_up(args: tuple) -> PyTree:
        x, rest, key = args
        view = rest._replace(arrays=federation.arrays)
        return pretrain(problem.f1, x, view.view(view.server), key, steps=method.pretrain, lr=method.pretrain_lr, batch=batch)

    return jax.jit(lambda *args: jax.lax.map(warm_up, args))(x, federation._replace(arrays=()), key)
