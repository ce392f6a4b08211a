"""What a client's personal model is: a rule, the same for all clients.

lower_level()            y_i(x), the solution of the lower level; for methods that have one
fine_tune(step, batch)   the global model after local steps on f1, as many as the method takes in a round
global_model()           the global model as it is
chosen(rule, share)      the rule's model for clients whose own rows say that it serves them, the global model for the others;
                         with several scales of its steps each client takes the one that serves it best
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Key, PyTree

from .. import keys, trees
from ..errors import FedtierError, require
from ..errors import share as open_share
from ..federation import View, mean_over_rows
from ..keys import Tag
from ..problem import Augment, Bilevel, everywhere
from ..schedules import Size, StepSize, as_schedule, constant
from .method import ClientSpec, PersonalModel, Turn
from .solvers import LowerLevel, ProjectedSgd, projected_sgd


class PersonalRule(NamedTuple):
    """How a client's personal model is made from the global one."""

    name: str
    on: Callable[[Bilevel, LowerLevel | None, int], LowerLevel]
    """(problem, the method's lower level if it has one, solves) -> personal(x, start, view, spec, steps, key), which may take
    `solves` times `steps` local steps."""
    local: ProjectedSgd | None = None  # the solver of its own steps, where it makes some
    augmented: Callable[[Augment], PersonalRule] | None = None  # the same rule, whose own steps see other images
    scaled: Callable[[Size], PersonalRule] | None = None  # the same rule, whose own steps are so many times as long


def lower_level() -> PersonalRule:
    """y_i(x): one solve of the lower level from the final x."""

    def on(problem: Bilevel, solve: LowerLevel | None, solves: int) -> LowerLevel:
        if solve is None:
            raise FedtierError(
                "personal", "lower_level", "needs a method with a lower level", "fine_tune(0.1), or global_model()"
            )
        return solve

    return PersonalRule("lower_level", on)


def fine_tune(step: StepSize, *, batch: int = 32, augment: Augment | None = None) -> PersonalRule:
    """x after local steps on f1 and the client's own rows, inside Y where the method has a lower level: for a large
    proximity, which serves the global model and holds y_i(x) close to it. A number is a constant step; "inverse(0.1)" is
    0.1/(t + 1). Steps are `bounded`, for every method alike. `augment`: what they see in place of the stored rows."""
    local = projected_sgd(step, batch=batch, bounded=True)._replace(augment=augment)
    size = as_schedule("step", step, constant)

    def on(problem: Bilevel, solve: LowerLevel | None, solves: int) -> LowerLevel:
        tune = local.lower_level(problem._replace(h=lambda x, y, rows, spec: problem.f1(y, rows), solve=None))
        return lambda x, start, view, spec, steps, key: tune(x, start, view, spec, solves * steps, key)

    return PersonalRule(
        "fine_tune",
        on,
        local,
        lambda augment: fine_tune(step, batch=batch, augment=augment),
        lambda scale: fine_tune(lambda t: scale * size(t), batch=batch, augment=augment),
    )


def global_model() -> PersonalRule:
    """The global model itself: no personal one."""
    return PersonalRule("global_model", lambda problem, solve, solves: lambda x, start, view, spec, steps, key: x)


def chosen(rule: PersonalRule, share: float, scales: Sequence[float] = (1.0,)) -> PersonalRule:
    """The model of `rule`, or the global one, as the client's own rows decide.

    The last `share` of the client's rows is held back from a try with each of the `scales`, factors on the steps of `rule`. If
    the best try has a smaller loss on them than the global model, the client takes the model of `rule` with that scale from
    all its rows; else, and where there is no row to hold back, the global model. Training has seen the rows held back through
    x, so what doubt there is speaks for the global model. Costs a solve more for each scale.
    """
    open_share("share", share, zero=False)
    distinct = len(set(scales)) == len(scales) > 0 and all(0 < scale < float("inf") for scale in scales)
    require(distinct, "scales", [*scales], "must be numbers above 0, each once", "[0.1, 0.3, 1.0, 3.0]")
    several, scaled = tuple(scales) != (1.0,), rule.scaled
    rule_of_steps = f"are factors on the steps of fine-tuning, and the personal model is {rule.name}"
    require(not several or scaled is not None, "scales", [*scales], rule_of_steps, "set method.fine_tune, or leave them out")

    def on(problem: Bilevel, solve: LowerLevel | None, solves: int) -> LowerLevel:
        def personal_at(scale: Size) -> LowerLevel:
            return (scaled(scale) if several and scaled is not None else rule).on(problem, solve, solves)

        def choose(x: PyTree, start: PyTree, view: View, spec: ClientSpec, steps: ArrayLike, key: Key[Array, ""]) -> PyTree:
            fit, check = held_back(view, share)

            def loss(y: PyTree) -> Float[Array, ""]:
                return mean_over_rows(lambda rows: jax.vmap(lambda row: problem.f1(y, trees.alone(row)))(rows), check)

            def tried(scale: Size) -> Float[Array, ""]:
                return loss(personal_at(scale)(x, start, fit, spec, steps, key))

            if not several:
                serves = tried(1.0) < loss(x)  # False where there is no row
                return trees.where(serves, personal_at(1.0)(x, start, view, spec, steps, key), x)
            tries = jnp.asarray(scales, jnp.float32)
            losses = jax.lax.map(tried, tries)
            losses = jnp.where(jnp.isnan(losses), jnp.inf, losses)  # NaN where there is no row, too
            best = jnp.argmin(losses)
            return trees.where(losses[best] < loss(x), personal_at(tries[best])(x, start, view, spec, steps, key), x)

        return choose

    augmented = rule.augmented
    with_augment = None if augmented is None else lambda augment: chosen(augmented(augment), share, scales)
    return PersonalRule(f"chosen {rule.name}", on, rule.local, with_augment)


def held_back(view: View, share: float) -> tuple[View, View]:
    """(the first rows of `view`, its last `share`, rounded down)."""
    kept = jnp.floor(share * view.size).astype(view.size.dtype)
    return view._replace(size=view.size - kept), view._replace(start=view.start + view.size - kept, size=kept)


def without_lower_level(rule: PersonalRule, problem: Bilevel, solves: int = 1) -> PersonalModel:
    """personal_model(client, x, view, spec, turn) of a method that knows neither a lower level nor Y."""
    return _from_x(rule.on(problem._replace(Y=everywhere()), None, solves))


def with_lower_level(rule: PersonalRule, problem: Bilevel, solve: LowerLevel) -> PersonalModel:
    """personal_model(client, x, view, spec, turn) of a method that solves the lower level from x by `solve`."""
    return _from_x(rule.on(problem, solve, 1))


def _from_x(tune: LowerLevel) -> PersonalModel:
    def personal_model(client: PyTree, x: PyTree, view: View, spec: ClientSpec, turn: Turn) -> PyTree:
        return tune(x, x, view, spec, turn.steps, keys.at(turn.key, Tag.PERSONAL))

    return personal_model
