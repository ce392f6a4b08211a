"""With everything off nothing changes: the numbers are those from before there was any privacy, by the same program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys
from fedtier.engines import compiled
from fedtier.experiments.assemble import Experiment, assemble
from fedtier.experiments.config import validate
from fedtier.methods import registry
from fedtier.methods.method import Method, Opening, Round, Turn

from ..small_runs import first_slow, mostly_slow

DATA = {"name": "synthetic", "clients": 4, "rows": 12, "features": 3, "classes": 2, "server_share": 0.2, "partition": "iid"}
RUN = {"rounds": 3, "participation": 0.5, "local_steps": 2, "seed": 3}
BEFORE = {  # the models of commit b2bb19d, which knew nothing of privacy
    "fedavg": [
        -0.07001511752605438, 0.17777350544929504, -0.11949074268341064, 0.07001511752605438, -0.17777349054813385,
        0.11949074268341064, -0.022329436615109444, 0.022329434752464294,
    ],
    "zo_hfl": [
        -0.0028734130319207907, 0.009238588623702526, -0.008327418938279152, 0.0027156160213053226, -0.008753091096878052,
        0.0075039989314973354, -0.0036712544970214367, 0.004007560200989246,
    ],
    "decomfl": [
        -0.0057405224069952965, 0.054735030978918076, -0.07274885475635529, 0.039194852113723755, -0.09498142451047897,
        0.03270668536424637, -0.015085123479366302, 0.004435053560882807,
    ],
}  # fmt: skip


def experiment(name: str, **tables) -> Experiment:
    method = {"name": name} | ({"preset": "paper"} if name == "zo_hfl" else {}) | tables.pop("method", {})
    return assemble(validate({"data": DATA, "method": method, "run": RUN} | tables))


def first(made: Experiment):
    """(federation, plan, x) of the only seed."""
    federation, plan, x = jax.tree.map(lambda a: a[0], (made.federation._replace(arrays=()), made.plan, made.x))
    return federation._replace(arrays=made.federation.arrays), plan, x


def program(made: Experiment, method: Method) -> str:
    """One client's round, operation by operation: what it is told, what it does, what the server makes of it."""
    federation, _, x = first(made)
    window, spec = jax.tree.map(lambda a: a[0], (federation.train, federation.spec))

    def play(x, view, own, spec, key):
        number = jnp.asarray(0)
        server, turn = method.server_init(x), Turn(number, number, jnp.asarray(2), keys.at(key, 0, 1))
        shared = method.broadcast(server, Opening(number, 4, own, keys.at(key, 0, 0)))
        _, up = method.local(method.client_init(x, spec), shared, method.address(server, turn), view, spec, turn)
        owns, ups, specs = jax.tree.map(lambda a: a[None], (method.address(server, turn), up, spec))
        close = Round(number, jnp.zeros(1, int), jnp.ones(1, bool), 4, own, keys.at(key, 0, 0))
        return method.aggregate(server, owns, ups, specs, close)

    return str(jax.make_jaxpr(play)(x, federation.view(window), federation.view(federation.server), spec, keys.root(0)))


@pytest.mark.parametrize("name", first_slow([*BEFORE]))
def test_without_privacy_a_run_gives_the_numbers_from_before_there_was_any(name):
    made = experiment(name)
    federation, plan, x = first(made)
    engine = compiled(made.method, capacity=3)
    state, _ = engine.advance(engine.init(x, federation), federation, plan, made.key[0], 0, 3)
    found = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(made.method.global_model(state.server))])
    np.testing.assert_allclose(found, BEFORE[name], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", mostly_slow([*BEFORE], "fedavg"))
def test_without_privacy_a_round_has_no_operation_and_no_draw_more_than_its_method_alone(name):
    made = experiment(name)
    alone = program(made, registry.make(name, made.problem, made.config.method.options))
    assert program(made, made.method) == alone
    noisy = {"clients": {"kind": "clients", "noise": 1.0, "delta": 0.1}, "rows": {"kind": "rows", "noise": 1.0}}
    guarded = {"zo_hfl": {"shared_directions": True, "coupled": False}}.get(name, {})
    for privacy in noisy.values():
        private = experiment(name, privacy=privacy, method=guarded)
        plain = registry.make(name, private.problem, private.config.method.options)
        assert program(private, private.method) != program(private, plain), "the comparison sees noise"
