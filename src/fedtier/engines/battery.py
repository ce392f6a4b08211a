"""The battery: what every method must do, and every problem must be. Public, so that you can test yours.

>>> check_method(my_factory)        # my_factory(problem) -> Method; raises with the list of what does not hold
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from .. import keys, trees
from ..federation import Federation, Plan, build, partition
from ..methods.method import Method
from ..problem import Bilevel, Rows, Spec, cross_entropy, softmax, supervised
from ..storage import named_arrays
from .compiled import compiled
from .engine import Engine, State
from .messages import messages

Factory = Callable[[Bilevel], Method]
ROUNDS, CLIENTS, COHORT = 3, 5, 3
TOLERANCE = 1e-5  # relative, float32, after a few rounds of the small federation below


class Claim(NamedTuple):
    claim: str
    holds: bool
    why: str = ""


def check_method(factory: Factory) -> None:
    """Raises AssertionError that lists every claim of `method_claims` that does not hold."""
    _raise(method_claims(factory))


def check_problem(problem: Bilevel, x: PyTree, rows: PyTree, spec: Any = None) -> None:
    """Raises AssertionError that lists every claim of `problem_claims` that does not hold."""
    _raise(problem_claims(problem, x, rows, spec))


def method_claims(factory: Factory) -> list[Claim]:
    """Runs the method on a small federation: 5 clients, 3 of them a round, unequal data and unequal H."""
    bench = _Bench(factory)
    return _try(
        ("states keep their shapes and types", bench.states_keep_their_shapes),
        ("messages survive the codec", bench.messages_survive_the_codec),
        ("compiled = messages", bench.engines_agree),
        ("jit = no jit", bench.plain_python_agrees),
        ("nothing is traced again when H, the seed or the rounds change", bench.nothing_is_traced_twice),
        ("the same call gives the same result", bench.is_pure),
        ("H = 0 for all is as if nobody had replied", bench.no_steps_no_change),
        ("a lost reply is ignored, whatever it holds", bench.lost_replies_are_ignored),
        ("the order of the cohort does not matter", bench.order_does_not_matter),
    )


def problem_claims(problem: Bilevel, x: PyTree, rows: PyTree, spec: Any = None) -> list[Claim]:
    """Checks the four functions at x, at a point beside it, on `rows`, for one client's `spec`."""
    spec = Spec(jnp.ones(()), jnp.ones(()), jnp.ones(())) if spec is None else spec
    y = trees.map(lambda a: a + jnp.linspace(-1.0, 1.0, a.size, dtype=a.dtype).reshape(a.shape), x)
    z = trees.map(lambda a: a - 0.3 * jnp.cos(jnp.arange(a.size, dtype=a.dtype)).reshape(a.shape), x)

    def scalar(value: Any) -> None:
        assert jnp.shape(value) == (), f"shape {jnp.shape(value)}, must be a scalar"
        assert bool(jnp.isfinite(value)), f"value {value} is not finite"

    def project(point: PyTree) -> PyTree:
        return problem.Y.project(point, x, spec)

    def gradient_fits() -> None:
        gradient = jax.grad(problem.h, argnums=1)(x, y, rows, spec)
        _same_shapes(gradient, y, "grad_y h")
        assert bool(trees.all_finite(gradient)), "grad_y h is not finite"

    def feasible() -> None:
        assert bool(problem.Y.contains(project(y), x, spec)), "a projected point is not in Y"

    def idempotent() -> None:
        _close(project(project(y)), project(y), "projecting twice")

    def non_expansive() -> None:
        before, after = trees.norm(trees.sub(y, z)), trees.norm(trees.sub(project(y), project(z)))
        assert float(after) <= float(before) * (1 + TOLERANCE), f"two points {before:.4g} apart project to {after:.4g} apart"

    return _try(
        ("f1(x, rows) is a finite scalar", lambda: scalar(problem.f1(x, rows))),
        ("f2(x, y, spec) is a finite scalar", lambda: scalar(problem.f2(x, y, spec))),
        ("h(x, y, rows, spec) is a finite scalar", lambda: scalar(problem.h(x, y, rows, spec))),
        ("h has a finite gradient in y", gradient_fits),
        ("Y.project gives a point of Y", feasible),
        ("Y.project twice is once", idempotent),
        ("Y.project moves no two points apart", non_expansive),
    )


class _Bench:
    """The small federation, and the method with a counter of how often its `local` is traced."""

    def __init__(self, factory: Factory) -> None:
        rng = np.random.default_rng(0)
        inputs = rng.standard_normal((80, 4)).astype(np.float32)
        labels = (inputs[:, 0] + 0.1 * rng.standard_normal(80) > 0).astype(np.int32)
        assign = partition.dirichlet(labels, CLIENTS, 0.5, least=2)
        self.federation: Federation = build(Rows(inputs, labels), assign, clients=CLIENTS, rng=rng)  # pyright: ignore[reportArgumentType]
        model = softmax(4, 2)
        self.x = trees.map(lambda a: a + 0.1, model.init(keys.root(0)))
        self.traced = 0
        plain = factory(supervised(cross_entropy(model), penalty=1.0, proximity=0.5))
        self.method = plain._replace(local=self._counted(plain.local))
        ids = np.asarray([[0, 1, 3], [1, 2, 4], [0, 2, 3]], np.int32)
        steps = np.asarray([[2, 0, 3], [1, 4, 2], [3, 1, 2]], np.int32)
        self.plan = Plan(ids, steps, np.asarray([[True, True, True], [True, False, True], [True, True, True]]))
        self.engine = compiled(self.method, capacity=ROUNDS)

    def _counted(self, local: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            self.traced += 1
            return local(*args)

        return counted

    def play(self, engine: Engine | None = None, plan: Plan | None = None, seed: int = 0, rounds: int = ROUNDS) -> State:
        engine = engine or self.engine
        state = engine.init(self.x, self.federation)
        return engine.advance(state, self.federation, plan or self.plan, keys.root(seed), 0, rounds)[0]

    def states_keep_their_shapes(self) -> None:
        before = self.engine.init(self.x, self.federation)
        _same_shapes(self.play(), before, "state")

    def messages_survive_the_codec(self) -> None:
        state = self.play()
        _close(named_arrays.decode(named_arrays.encode(state), like=state), state, "state", exact=True)

    def engines_agree(self) -> None:
        _close(self.play(), self.play(messages(self.method)), "compiled against messages")

    def plain_python_agrees(self) -> None:
        one = Plan(*(table[:1, :1] for table in self.plan))  # plain Python is slow: one client, one round
        fast, slow = (self.play(messages(self.method, jit=jit), one, rounds=1) for jit in (True, False))
        _close(fast, slow, "compiled against plain Python")

    def nothing_is_traced_twice(self) -> None:
        self.play()
        before = self.traced
        self.play(plan=self.plan._replace(steps=self.plan.steps * 3), seed=1, rounds=2)
        assert self.traced == before, f"local was traced {self.traced - before} times more on the second call"

    def is_pure(self) -> None:
        _close(self.play(), self.play(), "second call against first", exact=True)

    def no_steps_no_change(self) -> None:
        idle = self.plan._replace(steps=np.zeros_like(self.plan.steps), arrived=np.ones_like(self.plan.arrived))
        nobody = idle._replace(arrived=np.zeros_like(idle.arrived))
        _close(self.play(plan=idle), self.play(plan=nobody), "everyone with H = 0 against nobody")

    def lost_replies_are_ignored(self) -> None:
        def poisoned(*args: Any) -> Any:
            client, up = self.method.local(*args)
            late = args[-1].client == 2
            return client, trees.map(lambda a: jnp.where(late, jnp.full_like(a, jnp.nan), a), up)

        lost = self.plan._replace(arrived=self.plan.ids != 2)
        engine = compiled(self.method._replace(local=poisoned), capacity=ROUNDS)
        _close(self.play(engine, lost), self.play(plan=lost), "NaN in a lost reply")

    def order_does_not_matter(self) -> None:
        turned = Plan(*(table[:, ::-1] for table in self.plan))
        _close(self.play(plan=turned), self.play(), "cohort in reverse order")


def _try(*claims: tuple[str, Callable[[], None]]) -> list[Claim]:
    def one(claim: str, test: Callable[[], None]) -> Claim:
        try:
            test()
        except Exception as error:  # whatever a user's function raises is the answer
            words = str(error).strip().splitlines()
            return Claim(
                claim, False, words[0] if isinstance(error, AssertionError) and words else f"{type(error).__name__}: {error}"
            )
        return Claim(claim, True)

    return [one(claim, test) for claim, test in claims]


def _raise(claims: list[Claim]) -> None:
    broken = [f"{claim.claim}: {claim.why}" for claim in claims if not claim.holds]
    if broken:
        raise AssertionError("\n".join(broken))


def _same_shapes(found: PyTree, wanted: PyTree, what: str) -> None:
    a, b = jax.eval_shape(lambda t: t, found), jax.eval_shape(lambda t: t, wanted)
    assert jax.tree.structure(a) == jax.tree.structure(b), f"{what}: another structure"
    for name, one, other in zip(trees.names(b), jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        fits = (one.shape, one.dtype) == (other.shape, other.dtype)
        assert fits, f"{what}.{name}: {one.dtype}{list(one.shape)}, must be {other.dtype}{list(other.shape)}"


def _close(found: PyTree, wanted: PyTree, what: str, *, exact: bool = False) -> None:
    _same_shapes(found, wanted, what)
    arrays, others = named_arrays.to_arrays(found), named_arrays.to_arrays(wanted)
    for name, one in arrays.items():
        other = others[name]
        scale = float(np.max(np.abs(other), initial=0.0)) or 1.0
        error = float(np.max(np.abs(one.astype(float) - other.astype(float)), initial=0.0))
        limit = 0.0 if exact else TOLERANCE * scale
        assert error <= limit, f"{what}: {name} differs by {error:.3g} (allowed: {limit:.3g})"
