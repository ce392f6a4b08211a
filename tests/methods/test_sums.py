"""Methods whose rounds depend on sums of their replies alone."""

import jax
import numpy as np
import pytest

from fedtier import keys, trees
from fedtier.engines import compiled
from fedtier.engines.battery import check_method
from fedtier.errors import FedtierError
from fedtier.federation import Plan
from fedtier.methods import METHODS, make, registry
from fedtier.methods.summed import by_sums
from fedtier.problem.closed_forms import two_level_quadratic
from fedtier.protocol import message_shapes

from .federations import quadratic


def played(method, federation, *plans, rounds=3):
    engine = compiled(method, capacity=rounds)
    state = engine.init(np.zeros(3, np.float32), federation)
    ends = (engine.advance(state, federation, plan, keys.root(0), 0, rounds)[0] for plan in plans)
    return [np.asarray(end.server.descent.x) for end in ends]


@pytest.mark.slow
def test_along_all_n_orthogonal_directions_it_does_not_matter_whose_they_are():
    """Then g_i is the gradient of a quadratic f2, whichever orthonormal basis it was measured in."""
    federation, _ = quadratic(n=3)
    ids, steps = np.asarray([[0, 1, 3], [0, 2, 3], [1, 2, 3]]), np.asarray([[5, 0, 9], [6, 7, 8], [9, 5, 6]])
    plan = Plan(ids, steps, np.asarray([[True, True, True], [True, False, True], [True, True, True]]))
    problem = two_level_quadratic(penalty=1.0, proximity=1.0)
    options = {"estimator": "orthogonal", "directions": 3, "server_lr": 0.1, "batch": 4}
    own, shared = (make("zo_hfl", problem, options | {"shared_directions": who}) for who in (False, True))
    wanted, alone = played(own, federation, plan, plan._replace(arrived=np.zeros_like(plan.arrived)))
    np.testing.assert_allclose(played(shared, federation, plan)[0], wanted, rtol=2e-4, atol=2e-5)
    assert np.linalg.norm(wanted - alone) > 0.3 * np.linalg.norm(wanted)


def test_with_shared_directions_a_client_sends_its_slopes_and_nothing_else():
    federation, _ = quadratic()
    method = make("zo_hfl", two_level_quadratic(), {"directions": 3, "shared_directions": True})
    state = compiled(method).init(np.zeros(6, np.float32), federation)
    one = trees.take(state.clients, 0), federation.view(federation.server), trees.take(federation.spec, 0)
    up = message_shapes(method, state.server, *one, 4).up
    assert [leaf.shape for leaf in jax.tree.leaves(up)] == [(3,)]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"estimator": "guided"}, "directions of each client's own"),
        ({"control": True}, "directions of each client's own"),
        ({"uplink": "models"}, "sends its slopes"),
        ({"remembered": 3}, "no reply is known alone"),
        ({"fading": True}, "needs values of f2"),
    ],
)
def test_what_needs_more_than_slopes_is_refused_with_shared_directions(options, word):
    with pytest.raises(FedtierError, match=word):
        registry.sketch("zo_hfl", {"shared_directions": True} | options)


def test_methods_that_look_at_single_replies_do_not_claim_sums():
    claims = {name: registry.sketch(name, {}).sums is not None for name in METHODS}
    assert not any(claims[name] for name in ("rfa", "trimmed_mean", "coordinate_median", "cfl", "ifca", "fedexp", "zo_hfl"))
    assert all(claims[name] for name in ("fedavg", "fedprox", "scaffold", "fedavgm", "fedadam", "decomfl", "fedper", "pfedme"))
    with pytest.raises(FedtierError, match="sums of its replies alone"):
        by_sums(registry.sketch("rfa", {}))


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"estimator": "guided", "guide": "server", "directions": 2}])
@pytest.mark.checked
def test_shared_directions_pass_the_battery(options):
    check_method(lambda problem: make("zo_hfl", problem, {"shared_directions": True} | options))
