"""What every method must do, on a small federation whose lower level has an active constraint."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ... import keys, trees
from ...errors import choice
from ...federation import Federation, Plan, build, partition
from ...methods.method import Method, Opening, Round, turn_of, turns_of
from ...methods.summed import by_sums
from ...problem import Bilevel, Rows, box, cross_entropy, softmax, supervised
from ...protocol import message_shapes
from ...storage import named_arrays
from ..compiled import compiled
from ..engine import Engine, State
from ..messages import messages
from .claims import Claim, close, raise_broken, same_shapes, tried

Factory = Callable[[Bilevel], Method]
ROUNDS, CLIENTS = 3, 5


def check_method(factory: Factory) -> None:
    """Raises AssertionError that lists every claim of `method_claims` that does not hold."""
    raise_broken(method_claims(factory))


def method_claims(factory: Factory, only: Sequence[str] = ()) -> list[Claim]:
    """Runs the method on a small federation: 5 clients, 3 of them a round, unequal data and unequal H. `only` names the
    claims to try, to look at one of them again; by default all."""
    bench = _Bench(factory)
    claims = (
        ("states keep their shapes and types", bench.states_keep_their_shapes),
        ("messages survive the codec", bench.messages_survive_the_codec),
        ("compiled = messages", bench.engines_agree),
        ("jit = no jit", bench.plain_python_agrees),
        ("nothing is traced again when H, the seed or the rounds change", bench.nothing_is_traced_twice),
        ("the same call gives the same result", bench.is_pure),
        ("H = 0 for all is as if nobody had replied", bench.no_steps_no_change),
        ("a lost reply is ignored, whatever it holds", bench.lost_replies_are_ignored),
        ("the order of the cohort does not matter", bench.order_does_not_matter),
        *([("a round depends on sums alone, as the method says", bench.sums_suffice)] if bench.method.sums else []),
    )
    for name in only:
        choice("only", name, [claim for claim, _ in claims])
    return tried(*(pair for pair in claims if not only or pair[0] in only))


class _Bench:
    """The small federation, and the method with a counter of how often its `local` is traced.

    Every second coordinate of y has an upper limit below x: y is not x even after 0 steps, and f2(x, y) is not 0.
    """

    def __init__(self, factory: Factory) -> None:
        rng = np.random.default_rng(0)
        inputs = rng.standard_normal((80, 4)).astype(np.float32)
        labels = (inputs[:, 0] + 0.1 * rng.standard_normal(80) > 0).astype(np.int32)
        assign = partition.dirichlet(labels, CLIENTS, 0.5, least=2)
        self.federation: Federation = build(Rows(inputs, labels), assign, clients=CLIENTS, rng=rng)  # pyright: ignore[reportArgumentType]
        model = softmax(4, 2)
        self.x = trees.map(lambda a: a + 0.1, model.init(keys.root(0)))
        upper = trees.map(lambda a: np.where(np.arange(a.size).reshape(a.shape) % 2, np.inf, 0.05).astype(a.dtype), self.x)
        limits = box(trees.map(lambda a: np.full_like(a, -np.inf), upper), upper)
        self.traced = 0
        featured = model._replace(features=model.apply)  # for methods that ask for features
        problem = supervised(cross_entropy(model), penalty=1.0, proximity=0.5, Y=limits)
        plain = factory(problem._replace(model=featured, outputs=2))
        self.method = plain._replace(local=self._counted(plain.local))
        ids = np.asarray([[0, 1, 3], [1, 2, 4], [0, 2, 3]], np.int32)
        steps = np.asarray([[2, 0, 3], [1, 4, 2], [3, 1, 2]], np.int32)
        arrived = np.asarray([[True, True, True], [True, False, True], [True, True, True]])
        ages = np.asarray([[0, 0, 0], [0, 1, 1], [1, 0, 1]], np.int32)  # nobody began before its own reply of earlier counted
        self.plan = Plan(ids, steps, arrived, ages if plain.buffer else None)
        self.engine = compiled(self.method, capacity=ROUNDS, history=self.plan.history)

    def _counted(self, local: Callable[..., tuple[PyTree, PyTree]]) -> Callable[..., tuple[PyTree, PyTree]]:
        def counted(*args: PyTree) -> tuple[PyTree, PyTree]:
            self.traced += 1
            return local(*args)

        return counted

    def play(self, engine: Engine | None = None, plan: Plan | None = None, seed: int = 0, rounds: int = ROUNDS) -> State:
        return self.play_with_info(engine, plan, seed, rounds)[0]

    def play_with_info(
        self, engine: Engine | None = None, plan: Plan | None = None, seed: int = 0, rounds: int = ROUNDS
    ) -> tuple[State, PyTree]:
        """The method's states after some rounds, without the engine's record of replies, and its infos."""
        engine = engine or self.engine
        state = engine.init(self.x, self.federation)
        state, infos = engine.advance(state, self.federation, plan or self.plan, keys.root(seed), 0, rounds)
        return state._replace(replies=()), infos

    def states_keep_their_shapes(self) -> None:
        before = self.engine.init(self.x, self.federation)
        same_shapes(self.play(), before._replace(replies=()), "state")

    def messages_survive_the_codec(self) -> None:
        state, federation, method = self.play(), self.federation, self.method

        def of_client_0(state: State) -> dict[str, PyTree]:
            opening = Opening(
                jnp.asarray(ROUNDS), CLIENTS, federation.view(federation.server), keys.at(keys.root(0), ROUNDS, 0)
            )
            turn = turn_of(jnp.asarray(ROUNDS), jnp.asarray(0), jnp.asarray(2), keys.root(0))
            shared, own = method.broadcast(state.server, opening), method.address(state.server, turn)
            client, train, spec = (trees.take(part, 0) for part in (state.clients, federation.train, federation.spec))
            seen = federation.view(train)._replace(shown=federation.shown(method.shows))
            _, up = method.local(client, shared, own, seen, spec, turn)
            return {"the shared message": shared, "a client's own message": own, "a reply": up}

        for what, message in jax.jit(of_client_0)(state).items():
            if jax.tree.leaves(message):
                close(named_arrays.decode(named_arrays.encode(message), message, what), message, what, exact=True)

    def engines_agree(self) -> None:
        close(self.play(), self.play(messages(self.method, history=self.plan.history)), "compiled against messages")

    def plain_python_agrees(self) -> None:
        one = trees.map(lambda table: table[:1, :1], self.plan)  # plain Python is slow: one client, one round
        fast, slow = (
            self.play(messages(self.method, jit=jit, history=self.plan.history), one, rounds=1) for jit in (True, False)
        )
        close(fast, slow, "compiled against plain Python")

    def nothing_is_traced_twice(self) -> None:
        self.play()
        before = self.traced
        self.play(plan=self.plan._replace(steps=self.plan.steps * 3), seed=1, rounds=2)
        assert self.traced == before, f"local was traced {self.traced - before} times more on the second call"

    def is_pure(self) -> None:
        close(self.play(), self.play(), "second call against first", exact=True)

    def no_steps_no_change(self) -> None:
        idle = self.plan._replace(steps=np.zeros_like(self.plan.steps), arrived=np.ones_like(self.plan.arrived))
        nobody = idle._replace(arrived=np.zeros_like(idle.arrived))
        close(self.play(plan=idle), self.play(plan=nobody), "everyone with H = 0 against nobody")

    def lost_replies_are_ignored(self) -> None:
        """Client 2 replies NaN and infinity, and would remember them; once it alone is lost, once everyone is."""

        def poisoned(*args: PyTree) -> tuple[PyTree, PyTree]:
            late = args[-1].client == 2
            return trees.map(lambda a: jnp.where(late, _poison(a), a), self.method.local(*args))

        engine = compiled(self.method._replace(local=poisoned), capacity=ROUNDS, history=self.plan.history)
        for arrived in (self.plan.ids != 2, np.zeros_like(self.plan.arrived)):
            lost = self.plan._replace(arrived=arrived)
            found = self.play_with_info(engine, lost)
            assert bool(trees.all_finite(found)), "NaN in a lost reply makes a state or an info that is not finite"
            close(found, self.play_with_info(plan=lost), "NaN in a lost reply")

    def order_does_not_matter(self) -> None:
        turned = trees.map(lambda table: table[:, ::-1], self.plan)
        close(self.play(plan=turned), self.play(), "cohort in reverse order")

    def sums_suffice(self) -> None:
        """On drawn replies, with one lost and with all lost. No local step is compiled for it."""
        state, federation, method = self.play(), self.federation, self.method
        view, number, ids = federation.view(federation.server), jnp.asarray(ROUNDS), jnp.asarray(self.plan.ids[1])
        one = trees.take(state.clients, 0), view, trees.take(federation.spec, 0)
        shapes, rng = message_shapes(method, state.server, *one, CLIENTS), np.random.default_rng(0)

        def drawn(a: jax.ShapeDtypeStruct) -> np.ndarray:
            shape = (ids.size, *a.shape)
            return (rng.standard_normal(shape) if jnp.issubdtype(a.dtype, jnp.inexact) else rng.integers(0, 2, shape)).astype(
                a.dtype
            )

        def both(ups: PyTree, arrived: Array) -> tuple[PyTree, PyTree]:
            round = Round(number, ids, arrived, CLIENTS, view, keys.at(keys.root(0), number, 0))
            turns = turns_of(number, ids, jnp.ones_like(ids), keys.root(0), None)
            owns = jax.vmap(method.address, in_axes=(None, 0))(state.server, turns)
            given = (state.server, owns, ups, trees.take(federation.spec, ids), round)
            return by_sums(method).aggregate(*given), method.aggregate(*given)

        ups, compare = trees.map(drawn, shapes.up), jax.jit(both)
        for arrived in (self.plan.arrived[1], np.zeros(ids.size, bool)):
            by_total, by_replies = compare(ups, jnp.asarray(arrived))
            close(by_total, by_replies, "the sums against the replies")


def _poison(a: Array) -> Array:
    """NaN and infinity in turn; for whole numbers, ones."""
    if not jnp.issubdtype(a.dtype, jnp.inexact):
        return jnp.ones_like(a)
    return jnp.where(jnp.arange(a.size).reshape(a.shape) % 2 == 0, jnp.nan, jnp.inf).astype(a.dtype)
