"""FedAsync: against an event queue in NumPy, in both forms and with all three discounts."""

import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.methods import make

from .arena import model_after, plan_of, problem, queue, same

DISCOUNTS = {
    "constant": lambda tau: 1.0,
    "polynomial": lambda tau: (tau + 1.0) ** -0.8,
    "hinge": lambda tau: 1.0 if tau <= 2 else 1.0 / (3.0 * (tau - 2) + 1.0),
}
OPTIONS = {"blending": 0.6, "anchor": 0.3, "exponent": 0.8, "hinge_slope": 3.0, "hinge_after": 2.0}


@pytest.mark.known_answer("fedasync")
@pytest.mark.parametrize("discounting", DISCOUNTS)
def test_fedasync_is_an_event_queue_that_mixes_each_model_in_as_it_comes(discounting):
    def mixed(x, came):
        for reply in came:
            share = 0.6 * DISCOUNTS[discounting](reply.age)
            x = (1 - share) * x + share * reply.y if reply.steps else x
        return x

    wanted, _, ages, _ = queue(1, mixed, rho=0.3)
    same(model_after("fedasync", OPTIONS | {"discounting": discounting}, plan_of(1)), wanted)
    assert ages.max() > 4


@pytest.mark.known_answer("fedasync")
@pytest.mark.slow
def test_the_delta_form_adds_what_the_client_has_moved():
    def moved(x, came):
        return x + sum(0.6 * DISCOUNTS["hinge"](reply.age) * (reply.y - reply.x) for reply in came)

    wanted, _, _, _ = queue(1, moved, rho=0.3)
    same(model_after("fedasync", OPTIONS | {"discounting": "hinge", "blended": "delta"}, plan_of(1)), wanted)


@pytest.mark.known_answer("fedasync")
@pytest.mark.slow
def test_without_staleness_both_forms_are_fedavg_with_one_client_a_round():
    plan = plan_of(1, 1 / 6)  # one client works at a time
    assert plan.staleness.max() == 0
    wanted = model_after("fedavg", {"weighting": "uniform"}, plan._replace(staleness=None))
    for blended in ("model", "delta"):
        same(model_after("fedasync", {"blending": 1.0, "anchor": 0.0, "blended": blended}, plan), wanted)


@pytest.mark.parametrize(
    "options",
    [
        {"blending": 0.0},
        {"anchor": -1.0},
        {"blended": "sum"},
        {"discounting": "linear"},
        {"exponent": -1.0},
        {"hinge_slope": -1.0},
    ],
)
def test_bad_options_are_refused(options):
    with pytest.raises(FedtierError, match=next(iter(options))):
        make("fedasync", problem(), options)


@pytest.mark.slow
def test_several_replies_in_a_step_are_averaged_whatever_their_order():
    plan = plan_of(3, rounds=6)
    turned = plan._replace(**{name: getattr(plan, name)[:, ::-1] for name in ("ids", "steps", "arrived", "staleness")})
    np.testing.assert_allclose(model_after("fedasync", OPTIONS, plan), model_after("fedasync", OPTIONS, turned), rtol=1e-12)
