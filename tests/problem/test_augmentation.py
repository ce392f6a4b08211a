"""Random crops and mirror images: against NumPy, at their addresses, and nothing where they are not asked for."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys
from fedtier.errors import FedtierError
from fedtier.experiments import config as configuration
from fedtier.experiments.assemble import assemble
from fedtier.experiments.label_counts import count_labels
from fedtier.federation import View, sample
from fedtier.keys import Tag
from fedtier.methods import descent, fedavg, projected_sgd, registry
from fedtier.methods.method import turn_of
from fedtier.methods.personal import chosen, fine_tune
from fedtier.methods.solvers import sgd
from fedtier.problem import Bilevel, Rows, crop_and_flip, cross_entropy, softmax, supervised

SHAPE = (2, 12, 13)
IMAGES = np.random.default_rng(0).integers(0, 256, (50, *SHAPE)).astype(np.uint8)


def windows(image):
    """All crops of an image that is continued by 4 mirrored pixels, and their mirror images."""
    wide = np.pad(image, ((0, 0), (4, 4), (4, 4)), "reflect")
    plain = [wide[:, i : i + 12, j : j + 13] for i in range(9) for j in range(9)]
    return plain + [one[:, :, ::-1] for one in plain]


@pytest.mark.parametrize("flat", [False, True])
def test_every_image_is_a_window_of_itself_or_its_mirror_image(flat):
    stored = IMAGES.reshape(50, -1) if flat else IMAGES
    rows = Rows(jnp.asarray(stored), jnp.arange(50))
    made = jax.jit(crop_and_flip(SHAPE))(rows, keys.root(1))
    assert made.inputs.shape == stored.shape and made.inputs.dtype == np.uint8
    np.testing.assert_array_equal(made.labels, rows.labels)
    places = []
    for image, new in zip(IMAGES, np.asarray(made.inputs).reshape(IMAGES.shape), strict=True):
        places.append(next(k for k, one in enumerate(windows(image)) if (one == new).all()))
    places = np.asarray(places)
    assert 0.2 < np.mean(places >= 81) < 0.8 and len(np.unique(places % 9)) > 5 and len(np.unique(places % 81 // 9)) > 5


@pytest.mark.slow
def test_a_local_step_sees_the_minibatch_changed_at_its_own_address():
    """One step of SGD on a loss that is linear in the inputs: its gradient is the mean of what it saw."""
    with jax.enable_x64(True):
        data = Rows(jnp.asarray(IMAGES, jnp.float64), jnp.zeros(50, jnp.int32))
        view, key, augment = View(data, jnp.arange(50), jnp.asarray(0), jnp.asarray(50)), keys.root(2), crop_and_flip(SHAPE)
        gradient = lambda y, rows: jnp.mean(rows.inputs, axis=0)  # noqa: E731
        how = {"lr": lambda t: 1.0, "batch": 5}
        plain, changed = (sgd(gradient, jnp.zeros(SHAPE), view, 1, key, augment=one, **how) for one in (None, augment))
        numbers = keys.below(keys.at(key, 0), 50, 5)
        drawn = Rows(data.inputs[numbers], data.labels[numbers])
        np.testing.assert_allclose(plain, -np.mean(drawn.inputs, axis=0), rtol=1e-12)
        wanted = augment(drawn, keys.at(key, 0, Tag.AUGMENT)).inputs
        np.testing.assert_allclose(changed, -np.mean(wanted, axis=0), rtol=1e-12)
        assert np.abs(changed - plain).max() > 1


@pytest.mark.slow
def test_a_methods_local_part_augments_and_without_it_nothing_changes():
    data = Rows(jnp.asarray(IMAGES, jnp.float32), jnp.arange(50, dtype=jnp.int32) % 2)
    view = View(data, jnp.arange(50), jnp.asarray(0), jnp.asarray(50))
    model, spec = softmax(312, 2), type("Spec", (), {"step_scale": 1.0, "weight": 1.0})()
    problem, turn, local = supervised(cross_entropy(model)), turn_of(0, 0, 3, keys.root(0)), projected_sgd(1e-5, batch=4)
    ends = []
    for part in (local, local._replace(augment=crop_and_flip(SHAPE))):
        method = fedavg(problem, local=part)
        shared = method.broadcast(method.server_init(model.init(keys.root(0))), None)
        ends.append(method.local((), shared, (), view, spec, turn)[1].delta.weight)
    assert np.abs(ends[0] - ends[1]).max() > 1e-4


LINEAR = Bilevel(  # losses that are linear in the inputs: a gradient is the mean of what it saw
    f1=lambda x, rows: jnp.vdot(x, jnp.mean(rows.inputs, axis=0)),
    f2=lambda x, y, spec: jnp.zeros(()),
    h=lambda x, y, rows, spec: jnp.vdot(y, jnp.mean(rows.inputs, axis=0)),
)


def test_a_step_of_the_server_sees_the_minibatch_changed_at_its_own_address():
    data = Rows(jnp.asarray(IMAGES, jnp.float32), jnp.zeros(50, jnp.int32))
    view, key, augment = View(data, jnp.arange(50), jnp.asarray(0), jnp.asarray(50)), keys.root(2), crop_and_flip(SHAPE)
    part = descent(1.0, steps=2, batch=5)

    def end(part):
        moved = part.step(LINEAR.f1, part.init(jnp.zeros(SHAPE)), jnp.zeros_like, view, 0, key)
        return moved.x

    wanted = {None: jnp.zeros(SHAPE), augment: jnp.zeros(SHAPE)}
    for k in range(2):
        address = keys.at(key, Tag.SERVER, k)
        drawn = sample(view, address, 5)
        wanted[None] -= jnp.mean(drawn.inputs, axis=0)
        wanted[augment] -= jnp.mean(augment(drawn, keys.at(address, Tag.AUGMENT)).inputs, axis=0)
    for one, x in wanted.items():
        np.testing.assert_allclose(end(part._replace(augment=one)), x, rtol=1e-5)
    assert np.abs(wanted[None] - wanted[augment]).max() > 1


@pytest.mark.parametrize("wrapped", [lambda rule: rule, lambda rule: chosen(rule, 0.2)])
def test_fine_tuning_sees_other_images_too(wrapped):
    data = Rows(jnp.asarray(IMAGES / 255, jnp.float32), jnp.ones(50, jnp.int32))  # one label: a try serves
    view = View(data, jnp.arange(50), jnp.asarray(0), jnp.asarray(50))
    model = softmax(312, 2)
    x, spec = model.init(keys.root(0)), type("Spec", (), {"step_scale": 1.0, "weight": 1.0})()
    rule = wrapped(fine_tune(0.1, batch=4))
    ends = [
        one.on(supervised(cross_entropy(model)), None, 1)(x, x, view, spec, 3, keys.root(1)).weight
        for one in (rule, rule.augmented(crop_and_flip(SHAPE)), rule.augmented(lambda rows, key: rows))
    ]
    assert np.abs(ends[0] - ends[1]).max() > 1e-4
    np.testing.assert_array_equal(ends[0], ends[2])


@pytest.mark.parametrize("name", ["zo_hfl", "server_only", "fedavg", "codistil", "feddf"])
def test_all_steps_of_a_method_get_the_same_images(name):
    """In every part that makes steps; a method where one of them was left out would compare unfairly."""
    seen, row = {}, registry.entry(name)
    spied = row._replace(factory=functools.wraps(row.factory)(lambda problem, **parts: seen.update(parts) or fedavg(problem)))
    augment, given = crop_and_flip(SHAPE), {"fine_tune": 0.1} if "personal" in registry.part_names(name) else {}
    registry.make(spied, LINEAR, given, augment=augment)
    parts = [seen[part] for part in ("local", "server") if part in seen]
    parts += [seen["personal"].local] if "personal" in seen else []
    assert parts and all(part.augment is augment for part in parts)


def test_the_border_must_fit_into_the_image():
    for shape in ((1, 4, 9), (12,)):
        with pytest.raises(FedtierError, match="shape"):
            crop_and_flip(shape)


@pytest.mark.parametrize(
    ("settings", "words"), [(["method.name=mocha"], "no steps that could see"), (["data.augment=4"], "must be true or false")]
)
def test_a_method_without_steps_and_a_value_that_is_none_are_refused_before_any_row_is_read(settings, words):
    """Seen: a comparison that trained two methods and then refused the third."""
    with pytest.raises(FedtierError, match=words):
        configuration.load_config(None, ["data.augment=true", *settings])


def test_rows_that_are_no_images_are_refused_and_small_ones_are_told(tmp_path):
    def config_of(shape, kind=np.uint8):
        rng = np.random.default_rng(0)
        np.savez(tmp_path / "own.npz", x=rng.integers(0, 255, (300, *shape)).astype(kind), y=np.arange(300) % 3)
        file = [f"data.file={tmp_path / 'own.npz'}", "data.alpha=10", "data.clients=3"]
        return configuration.load_config(None, [*file, "data.augment=true"])

    for shape, words in (((12,), "is for images"), ((1, 4, 9), r"data.augment = True: shifts images by up to 4 pixels")):
        for reader in (assemble, count_labels):
            with pytest.raises(FedtierError, match=words):
                reader(config_of(shape))
    small, large = (count_labels(config_of(shape)).said[-1] for shape in ((1, 8, 8), (1, 28, 28)))
    floats = count_labels(config_of((1, 28, 28), np.float32)).said[-1]  # which have no inputs before they are prepared
    assert floats == large
    assert "4 of 8 pixels is much" in small and large == "training sees images shifted by up to 4 pixels, half of them mirrored"


def test_the_key_changes_the_digest_only_where_it_is_used():
    plain, off, on = (configuration.load_config(None, s) for s in ([], ["data.augment=false"], ["data.augment=true"]))
    assert plain.digest() == off.digest() != on.digest()
