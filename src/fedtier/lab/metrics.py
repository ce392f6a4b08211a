"""What a run is judged by, measured outside the compiled rounds.

The objective f(x) = f1(x) + mean f2(x, y_i(x)) is a function of x alone, so it is comparable across methods: y_i(x) is
solved afresh by the problem's own lower level, whatever the method. Personal accuracy is that of the method's own
personal models, each on its client's own held-back rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from .. import keys, trees
from ..engines import codec
from ..engines.compiled import each
from ..engines.devices import balance, compiler_options, dealt, everywhere, on_all
from ..engines.engine import State, round_of, turn_of
from ..federation import Federation, View, Window, mean_over_rows
from ..keys import Tag
from ..problem import Rows
from .assemble import Experiment


class Scores(NamedTuple):
    """One evaluation of one seed. NaN where there is nothing to measure."""

    f1: Any
    global_loss: Any  # on the global test rows
    global_accuracy: Any
    f2: Any  # [c] of the evaluated clients
    personal_accuracy: Any  # [c] personal model on the client's own test rows
    global_on_client: Any  # [c] global model on the same rows


def evaluated_clients(experiment: Experiment) -> np.ndarray:
    """At most run.eval_clients clients, evenly spaced."""
    count = min(experiment.clients, experiment.config.run.eval_clients)
    return np.unique(np.linspace(0, experiment.clients - 1, count).astype(np.int32))


def scorer(experiment: Experiment, devices: Sequence[Any] = ()) -> Callable[..., Scores]:
    """score(state, federation, key, round, steps) -> Scores of one seed, the clients shared among `devices`; state.clients
    and steps are those of the evaluated clients alone."""
    method, problem, chosen = experiment.method, experiment.problem, evaluated_clients(experiment)
    solves_lower_level = method.name == "zo_hfl" and not experiment.config.method.options.get("fine_tune")

    def accuracy(x: PyTree | None, view: View) -> Any:
        if experiment.model is None or x is None:
            return jnp.nan
        apply = experiment.model.apply
        return mean_over_rows(lambda rows: jnp.argmax(apply(x, rows.inputs), axis=-1) == rows.labels, view)

    def loss(x: PyTree | None, view: View) -> Any:
        if x is None:
            return jnp.nan
        return mean_over_rows(lambda rows: jax.vmap(lambda row: problem.f1(x, _one(row)))(rows), view)

    def score(state: State, federation: Federation, key: Any, number: Any, steps: Any) -> Scores:
        x = method.global_model(state.server)

        def one_client(member: tuple) -> tuple[Any, Any, Any]:
            client, state, train, held, spec, steps = member
            turn = turn_of(number, client, steps, key)
            view, own_test = federation.view(train), federation.view(held)
            y = method.personal_model(state, x, view, spec, turn)
            if x is None:
                return jnp.nan, accuracy(y, own_test), jnp.nan
            solved = y if solves_lower_level else experiment.solve(x, x, view, spec, steps, keys.at(turn.key, Tag.PERSONAL))
            return problem.f2(x, solved, spec), accuracy(y, own_test), accuracy(x, own_test)

        members = (
            jnp.asarray(chosen), state.clients, trees.take(federation.train, chosen),
            trees.take(federation.held, chosen), trees.take(federation.spec, chosen), steps,
        )  # fmt: skip
        f2, personal, shared = dealt(lambda members: each(one_client, members), members, devices)
        test = federation.view(federation.test)
        return Scores(loss(x, federation.view(federation.server)), loss(x, test), accuracy(x, test), f2, personal, shared)

    return score


def evaluator(experiment: Experiment) -> Callable[[State, int], Scores]:
    """evaluate(state, round) -> Scores with a leading axis for the seeds. Devices share the seeds or else the clients."""
    chosen, devices = evaluated_clients(experiment), jax.devices()
    by_seed = balance(experiment.config.run.seeds, devices) >= balance(len(chosen), devices)
    score = scorer(experiment, () if by_seed else devices)

    def all_seeds(state: State, federation: Federation, key: Any, number: Any, steps: Any) -> Scores:
        def one(member: tuple) -> Scores:
            state, rest, key = member
            return score(state, rest._replace(arrays=federation.arrays), key, number, steps)

        members = (state, federation._replace(arrays=()), key)
        return dealt(lambda members: each(one, members), members, devices if by_seed else ())

    @jax.jit
    def taken(state: State) -> State:
        return State(state.server, trees.map(lambda a: a[:, chosen], state.clients))

    program = jax.jit(on_all(devices, all_seeds), compiler_options=compiler_options())

    def evaluate(state: State, number: int) -> Scores:
        steps = jnp.asarray(experiment.steps[number][chosen])
        given = (taken(state), experiment.federation, experiment.key, jnp.asarray(number), steps)
        out = program(*everywhere(given, devices))
        return jax.tree.map(np.asarray, out)

    return evaluate


def _one(row: PyTree) -> PyTree:
    return jax.tree.map(lambda a: a[None], row) if isinstance(row, Rows) else row[None]


def spread(values: np.ndarray) -> dict[str, float | None]:
    """Mean, worst and 10th percentile over the clients that have a value."""
    known = values[np.isfinite(values)]
    if not len(known):
        return {"mean": None, "min": None, "p10": None}
    return {"mean": float(known.mean()), "min": float(known.min()), "p10": float(np.percentile(known, 10))}


class Traffic(NamedTuple):
    """Bytes of one encoded message, headers included; 0 when a method sends nothing."""

    down: int  # to one client, one round
    up: int  # from one client, one round


def traffic(experiment: Experiment, state: State) -> Traffic:
    """Read from the shapes of the messages; what the codec would write."""
    method = experiment.method

    def messages(state: State, federation: Federation, key: Any) -> tuple[PyTree, PyTree]:
        state, rest, key = trees.take((state, federation._replace(arrays=()), key), 0)
        federation = rest._replace(arrays=federation.arrays)
        zero = jnp.asarray(0)
        ids, arrived = jnp.zeros((1,), jnp.int32), jnp.ones((1,), bool)
        round, turn = round_of(federation, zero, ids, arrived, key), turn_of(zero, zero, zero, key)
        shared, own = method.broadcast(state.server, round), method.address(state.server, turn)
        client, spec = trees.take(state.clients, 0), trees.take(federation.spec, 0)
        view = federation.view(Window(*(a[0] for a in federation.train)))
        _, up = method.local(client, shared, own, view, spec, turn)
        return codec.Down(shared, own, turn), up

    down, up = jax.eval_shape(messages, state, experiment.federation, experiment.key)
    silent = not jax.tree.leaves((down.shared, up))
    return Traffic(0 if silent else codec.size(down), codec.size(up))
