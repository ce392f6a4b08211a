"""A federation without rounds on a clock that passes only when somebody waits: sites answer after as long as the test says."""

import functools
import heapq
import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedtier import keys, trees
from fedtier.engines import Engine, compiled, messages
from fedtier.engines.engine import initial_state
from fedtier.methods import make
from fedtier.methods.method import Method
from fedtier.protocol import Arrivals, AsyncDriver, Job, Ledger, Memory, Player, Rules, Site, drive, loopback, message_shapes
from fedtier.protocol.letters import Scores

from ..methods.asynchronous.arena import KEYS, points, problem
from ..methods.asynchronous.reference import CLIENTS, START

ROUNDS = 14


class Killed(Exception):
    """As a process that dies."""


class Clock:
    now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class Post:
    """Answers are due `takes(site, now)` seconds after their letter, or never where that is None."""

    def __init__(self, answers, takes, clock, alive=lambda: True):
        self.answers, self.takes, self.clock, self.alive = answers, takes, clock, alive
        self.due, self.order, self.sent = [], itertools.count(), []

    def send(self, site, letters, seconds):
        takes = self.takes(site, self.clock.now)
        late = takes is None or takes > seconds
        reply = None if takes is None else self.answers[site](letters.whole(site))
        self.sent.append((site, letters.whole(site)))
        entry = (self.clock.now + (seconds if late else takes), next(self.order), site, None if late else reply)
        heapq.heappush(self.due, entry)

    def wait(self, seconds):
        if not self.alive():
            raise Killed
        assert self.clock.now < 1000, "nobody answers any more"
        if not self.due or self.due[0][0] > self.clock.now + seconds:
            self.clock.now += seconds
            return None
        self.clock.now, _, site, reply = heapq.heappop(self.due)
        return site, reply


def slowness(site):
    return (1.0, 1.3, 3.1, 0.7, 2.2, 7.9)[int(site[5:])]


class Kept(NamedTuple):
    """What is compiled once for all tests of a method."""

    method: Method
    local: Any
    engines: dict[str, Engine]


@functools.cache
def kept(name, **options):
    method = make(name, problem(), KEYS | ({"buffer": 3} | options if name == "fedbuff" else options))
    return Kept(method, jax.jit(method.local), {e.__name__: e(method, history=ROUNDS) for e in (compiled, messages)})


class House:
    """A run of `name` between the clients of the arena, in `folder`; each life of the server starts from the last save."""

    def __init__(self, folder, clock, name="fedbuff", seals=None, **options):
        self.folder, self.clock, self.seals = folder, clock, seals
        self.federation = points()[0]
        self.kept = kept(name, **options)
        self.method = self.kept.method
        self.x = jnp.asarray(START, jnp.float32)
        state = initial_state(self.method, self.x, self.federation)
        one = trees.take(state.clients, 0), self.federation.view(self.federation.server), trees.take(self.federation.spec, 0)
        self.shapes = message_shapes(self.method, state.server, *one, CLIENTS)
        names = tuple(f"site-{i}" for i in range(CLIENTS))
        spec = self.federation.spec
        view = self.federation.view(self.federation.server)
        self.job = Job(b"r" * 16, names, self.method, None, keys.root(0), view, lambda rows: spec, self.shapes.up, "b", self.x)  # pyright: ignore[reportArgumentType]
        self.steps = np.tile(np.asarray([2, 1, 3, 2, 4, 1], np.int32), (ROUNDS + 1, 1))
        arrivals = Arrivals.none(CLIENTS, ROUNDS, self.method.buffer, self.shapes.up)
        self.saved = [(Ledger.first(state.server, CLIENTS)._replace(arrivals=arrivals), 0)]
        self.plays, self.lines = [], []

    def player(self, i):
        view, spec = self.federation.view(trees.take(self.federation.train, i)), trees.take(self.federation.spec, i)

        def play(state, shared, own, turn, weight):
            self.plays.append((i, int(turn.round), int(turn.steps)))
            return self.kept.local(state, shared, own, view, spec, turn)

        shape = jax.eval_shape(lambda: self.x)
        score = lambda state, x, turn, weight: (Scores(1.0, 0.5, 0.5), x)  # noqa: E731
        return Player(shape, self.shapes.shared, self.shapes.own, int(view.size), 0, lambda x: (), play, score, stale=True)

    def site(self, i, **more):
        seal = {} if self.seals is None else {"seal": self.seals.site(i)}
        return Site(f"site-{i}", lambda brief, client: self.player(client), Memory(self.folder / f"site-{i}"), **seal, **more)

    def live(
        self, takes=lambda site, now: slowness(site), *, waits=None, saves=None, change=lambda site, reply: reply,
        scores=False, **rules,
    ):  # fmt: skip
        """One life of server and sites: to the end, or until so many waits or saves are over."""
        sites = {f"site-{i}": self.site(i) for i in range(CLIENTS)}
        answers = {name: lambda letter, name=name: change(name, sites[name].answer(letter)) for name in sites}
        left = itertools.count()
        post = Post(answers, takes, self.clock, lambda: waits is None or next(left) < waits)

        def save(ledger, number):
            self.saved.append((ledger.copied(), number))
            if saves is not None and len(self.saved) > saves:
                raise Killed

        sealed = {} if self.seals is None else {"seal": self.seals.server()}
        rules = {"start": CLIENTS, "deadline": 20.0} | rules
        driver = AsyncDriver(
            self.job, loopback(answers), Rules(**rules), self.steps, post=post, clock=self.clock.monotonic,
            note=self.lines.append, **sealed,
        )  # fmt: skip
        self.post = post
        try:
            evaluate = lambda ledger, number: driver.score(ledger, number, range(CLIENTS), self.steps[number])[0]  # noqa: E731
            more = {"evaluate": evaluate} if scores else {}
            return drive(driver, *self.saved[-1], ROUNDS, save=save, **more)
        finally:
            for site in sites.values():
                site.close()

    def replayed(self, order, engine):
        """The model of a simulation that plays the recorded order."""
        runs = self.kept.engines[engine]
        state = runs.init(self.x, self.federation)
        state, _ = runs.advance(state, self.federation, order, keys.root(0), 0, order.rounds)
        return np.asarray(self.method.global_model(state.server))

    def model(self, ledger):
        return np.asarray(self.method.global_model(ledger.server))
