"""A client chooses between what the others know and what it has learnt alone, by rows that neither has seen."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys
from fedtier.errors import FedtierError
from fedtier.experiments import config as configuration
from fedtier.experiments.assemble import assemble
from fedtier.federation import Shown, View
from fedtier.methods.method import Turn
from fedtier.methods.predictions.choice import Evidence, dealt, decided
from fedtier.methods.predictions.codistil import codistil
from fedtier.methods.predictions.guard import Guarded
from fedtier.methods.predictions.learners import Learner, Said
from fedtier.methods.predictions.mixture import Mixed
from fedtier.methods.predictions.rules import Shared
from fedtier.own_code.own_models.kept import Kept, name_of
from fedtier.own_code.own_models.learner import learner_of
from fedtier.problem import Model, Rows, Spec, cross_entropy, supervised

CLASSES, P, N = 3, 2, 8
NET = Model("bias", lambda key: jnp.zeros(CLASSES), lambda x, inputs: jnp.tile(x[:CLASSES], (inputs.shape[0], 1)))
PROBLEM = supervised(cross_entropy(NET))._replace(model=NET, outputs=CLASSES)
SPEC = Spec(jnp.ones(()), jnp.ones(()), jnp.ones(()))
WISE = np.asarray([5.0, 5.0, 0.0], np.float32)  # a teacher who holds classes 0 and 1 for alike
TURN = Turn(jnp.asarray(3), jnp.asarray(0), jnp.asarray(1), keys.root(0))


def view_of(labels, size=N):
    rows, shown = Rows(jnp.zeros((N, 1)), jnp.asarray(labels, jnp.int32)), Shown(jnp.zeros((P, 1)), jnp.ones(P, bool))
    return View(rows, jnp.arange(N), jnp.asarray(0), jnp.asarray(size, jnp.int32), shown)


def counting(state, lesson, view, spec, turn, key):
    """What it is taught, or, told nothing, how often its rows have each class; and how many rows it has seen."""
    inside = (jnp.arange(N) >= view.start) & (jnp.arange(N) < view.start + view.size)
    own = jnp.log(jnp.sum(inside[:, None] * jax.nn.one_hot(view.arrays.labels[view.index], CLASSES), axis=0) + 0.1)
    y = jnp.append(jnp.where(lesson.weight > 0, lesson.outputs[0], own), jnp.sum(inside))
    return y, Said(jnp.zeros((P, CLASSES)), jnp.ones(P, bool))


def init(x, spec):
    return jnp.zeros(CLASSES + 1)


METHOD = codistil(PROBLEM, learner=Learner(init, counting), public_rows=P, check=0.25)


@pytest.fixture(scope="module")
def both():
    """(the personal model, the state after a round) of a client with the first `size` of these rows, compiled once."""

    @jax.jit
    def one(view, z):
        state = METHOD.client_init(z, SPEC)
        after, _ = METHOD.local(state, Shared(jnp.tile(z, (P, 1))), (), view, SPEC, TURN)
        return METHOD.personal_model(state, z, view, SPEC, TURN), after

    return lambda labels, z, size=N: one(view_of(labels, size), jnp.asarray(z, jnp.float32))


# Row k is in part k mod 4, so both rows of a part have one class here, of which the other parts have fewer rows than of the
# other: alone, the client is wrong on every row that it has not seen.
TURNS = [0, 1, 0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize(("z", "wanted"), [(WISE, WISE), (WISE[::-1], np.log([4.1, 4.1, 0.1]))])
def test_rows_that_were_not_seen_decide_and_the_model_that_is_taken_has_learnt_from_all(both, z, wanted):
    """A teacher who is in doubt between the two classes is better than the client alone, one who knows one of them is not."""
    np.testing.assert_allclose(np.asarray(both(TURNS, z)[0]), [*wanted, 8], rtol=1e-5)


def test_with_a_single_row_a_client_learns_alone(both):
    np.testing.assert_allclose(np.asarray(both([0] * 8, WISE, size=1)[0]), [*np.log([1.1, 0.1, 0.1]), 1], rtol=1e-5)


def test_in_a_round_both_learn_from_all_rows_and_each_trial_from_those_of_the_other_parts(both):
    state = both(TURNS, WISE)[1]
    assert isinstance(state, Guarded) and METHOD.solves == 5 + 5
    np.testing.assert_allclose(np.asarray(state.client.y), [*WISE, 8], rtol=1e-5)
    np.testing.assert_allclose(np.asarray(state.alone), [*np.log([4.1, 4.1, 0.1]), 8], rtol=1e-5)
    np.testing.assert_allclose(np.asarray(state.trials.alone[0]), [*np.log([2.1, 4.1, 0.1]), 6], rtol=1e-5)
    np.testing.assert_allclose(np.asarray(state.trials.client.y[1]), [*WISE, 6], rtol=1e-5)


def test_every_row_is_kept_back_once():
    view = view_of(TURNS)._replace(index=jnp.asarray([5, 1, 2, 0, 7, 6, 3, 4]), start=jnp.asarray(2), size=jnp.asarray(5))
    rows = []
    for part in range(3):
        rest, kept = dealt(view, jnp.asarray(part), 3)
        one, other = (v.index[int(v.start) : int(v.start + v.size)].tolist() for v in (rest, kept))
        assert sorted(one + other) == [0, 2, 3, 6, 7] and len(other) == (2, 2, 1)[part]
        rows += other
    assert sorted(rows) == [0, 2, 3, 6, 7]


def evidence(differences):
    """Of rows whose losses under the second choice differ so from those under the first, in two parts."""
    parts = [np.asarray(differences[::2]), np.asarray(differences[1::2])]
    squares = [[0.0, (part**2).sum()] for part in parts]
    counts, totals = [len(part) for part in parts], [[0.0, part.sum()] for part in parts]
    return Evidence(jnp.asarray(counts), jnp.asarray(totals), jnp.asarray(squares))


@pytest.mark.parametrize(("better", "worse", "taken"), [(6, 1, 1), (6, 2, 0), (3, 3, 0), (1, 6, 0), (1, 0, 0)])
def test_in_doubt_of_two_standard_errors_the_first_choice_is_taken(better, worse, taken):
    """20 rows: 6 - 1 = 5 of them more is 0.25 +- 0.124 a row, 6 - 2 = 4 is 0.20 +- 0.138."""
    found = evidence(np.asarray([-1.0] * better + [1.0] * worse + [0.0] * (20 - better - worse)))
    assert int(decided(found)) == taken


class Memory:
    """A model of a client's own that remembers every fit, and thinks the class likely that most of its rows have."""

    def __init__(self):
        self.fits, self.shares = [], np.ones(CLASSES) / CLASSES

    def fit(self, rows, guidance):
        self.fits.append((guidance.seed, guidance.weight, np.asarray(rows.inputs).tobytes(), np.asarray(rows.labels).tolist()))
        self.shares = (np.bincount(rows.labels, minlength=CLASSES) + 0.1) / (len(rows.labels) + 0.1 * CLASSES)

    def predict_proba(self, inputs):
        return np.tile(self.shares, (len(inputs), 1))


def personal(view, z, **options):
    """(the personal model after two rounds, the state then, what is kept, the method) of a client with a model of its own."""
    kept = Kept()
    method = codistil(PROBLEM, learner=learner_of([Memory], kept, lambda a: a, CLASSES), public_rows=P, **options)
    z = jnp.asarray(z, jnp.float32)
    state = method.client_init(z, SPEC)
    for number in range(2):
        turn = TURN._replace(round=jnp.asarray(number), key=keys.at(TURN.key, number))
        state, _ = method.local(state, Shared(jnp.tile(z, (P, 1))), (), view, SPEC, turn)
    return method.personal_model(state, z, view, SPEC, TURN), state, kept, method


def test_what_a_client_has_learnt_alone_is_what_it_would_have_without_the_others_to_the_bit():
    view = view_of([1, 1, 1, 0, 1, 1, 1, 2])
    without, _, before, _ = personal(view, WISE, guidance=0.0)
    chosen, state, after, method = personal(view, WISE, guidance=0.5, check=0.25)
    assert isinstance(chosen, Mixed) and float(chosen.share) == 0
    alone = after.get(name_of(np.asarray(chosen.own)))
    assert pickle.dumps(alone) == pickle.dumps(before.get(name_of(np.asarray(without)))) and len(alone.fits) == 3
    taught = after.get(name_of(np.asarray(state.client.y)))  # has the same draws, and is another model
    assert [(fit[0], fit[1]) for fit in taught.fits] == [(fit[0], 0.5) for fit in alone.fits[:2]]
    outputs = method.predict(chosen, view)(jnp.zeros((2, 1)))
    np.testing.assert_array_equal(np.asarray(outputs), np.log(np.float32(alone.predict_proba([0, 0]))))


class Told(Memory):
    """Remembers what it was told as well."""

    def fit(self, rows, guidance):
        super().fit(rows, guidance)
        self.told = guidance.shares


def test_of_several_solves_with_the_same_draws_a_client_keeps_the_model_that_was_told_the_servers_word():
    """Seen: the probes of the guided estimator took the name, and so the file, of the model that the state names."""
    kept, z = Kept(), jnp.tile(jnp.asarray(WISE, jnp.float32), (P, 1))
    method = codistil(PROBLEM, learner=learner_of([Told], kept, lambda a: a, CLASSES), public_rows=P, estimator="guided")
    state, _ = method.local(method.client_init(z[0], SPEC), Shared(z), (), view_of([1, 1, 1, 0, 1, 1, 1, 2]), SPEC, TURN)
    model = kept.get(name_of(np.asarray(state.y)))
    np.testing.assert_allclose(model.told, np.asarray(jax.nn.softmax(z)), rtol=1e-6)
    assert len(model.fits) == 1


def pooled(own, x, share):
    """The same by NumPy, row by row."""
    own, x = 0.98 * own + 0.02 / CLASSES, 0.98 * x + 0.02 / CLASSES
    p = own ** (1 - share) * x**share
    return p / p.sum()


@pytest.mark.parametrize(("x", "share"), [([5.0, 5.0, 0.0], 1.0), ([2.0, 2.0, 2.0], 0.8), ([0.0, 0.0, 5.0], 0.3)])
def test_a_client_lets_the_global_model_count_as_much_as_serves_it(x, share):
    """The parts of `TURNS` are alike: of each kept row's class the client has seen 2 rows, 4 of the other class and none of the
    third, so that the Brier score of each share can be computed by hand, and its difference has no standard error."""
    own, said, label = np.asarray([2.1, 4.1, 0.1]) / 6.3, np.exp(x) / np.exp(x).sum(), np.asarray([1, 0, 0])
    scores = [np.sum((pooled(own, said, a) - label) ** 2) for a in np.arange(1, 11) / 10]
    scores = [np.sum((own - label) ** 2), *scores]
    assert np.argmin(scores) / 10 == share
    chosen, _, kept, method = personal(view_of(TURNS), x, check=0.25)
    assert isinstance(chosen, Mixed) and float(chosen.share) == pytest.approx(share)
    model = kept.get(name_of(np.asarray(chosen.own))).predict_proba([0])[0]
    wanted = pooled(model, said, share)
    found = method.predict(chosen, view_of(TURNS))(jnp.zeros((1, 1)))
    np.testing.assert_allclose(np.asarray(jax.nn.softmax(found))[0], wanted, rtol=1e-4)


def test_a_share_that_is_none_and_a_method_without_a_choice_are_refused():
    with pytest.raises(FedtierError, match="check"):
        codistil(PROBLEM, check=1.5)
    settings = [
        "data.name=synthetic",
        "data.partition=iid",
        "method.name=feddf",
        "method.fusion=predictions",
        "run.personal_check=0.2",
    ]
    with pytest.raises(FedtierError, match="has no others to choose from"):
        assemble(configuration.load_config(None, settings))
