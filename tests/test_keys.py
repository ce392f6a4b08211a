"""Keys are addresses: the same address, the same draw; another address, another draw."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from fedtier import keys
from fedtier.keys import Tag


def words(key) -> tuple[int, ...]:
    return tuple(np.asarray(jax.random.key_data(key)).tolist())


def test_an_address_is_a_fold_of_its_parts():
    expected = jax.random.fold_in(jax.random.fold_in(jax.random.key(3, impl="threefry2x32"), 5), 2)
    assert words(keys.at(keys.root(3), 5, Tag.SOLVE)) == words(expected)


def test_different_addresses_give_different_keys():
    at = jax.jit(jax.vmap(lambda r, i, tag: keys.at(keys.root(0), r, i, tag)))
    grid = np.array(list(itertools.product(range(20), range(10), sorted(Tag))))
    data = np.asarray(jax.random.key_data(at(*jnp.asarray(grid).T)))
    assert len({tuple(row) for row in data.tolist()}) == len(grid)


def test_traced_and_plain_addresses_agree():
    traced = jax.jit(lambda r: keys.at(keys.root(0), r, 4))(jnp.asarray(9))
    assert words(traced) == words(keys.at(keys.root(0), 9, 4))


def test_tags_keep_their_numbers_because_results_depend_on_them():
    published = {"DIRECTION": 1, "SOLVE": 2, "SERVER": 3, "PERSONAL": 4, "INIT": 5, "PRETRAIN": 6, "HESSIAN": 7, "ATTACK": 8}
    assert {tag.name: int(tag) for tag in Tag}.items() >= published.items()


def test_a_published_draw_stays_what_it_was():
    """threefry2x32 at seed 0, folded with 1, written down once: every stored result depends on it."""
    assert words(keys.at(keys.root(0), 1)) == (928981903, 3453687069)


def test_normal_numbers_of_a_tree_are_those_of_its_leaves_each_at_its_own_address():
    """Leaves drawn together, of sizes far apart, of two kinds and of none, are those that were drawn one by one."""
    shapes = [(), (3,), (70, 60), (0, 7), (65, 64), (3,)]
    like = [jnp.zeros(shape) for shape in shapes] + [jnp.zeros((5, 4), jnp.bfloat16)]
    key = keys.at(keys.root(2), 7)
    drawn = jax.jit(lambda key: keys.normal(key, like))(key)
    for k, (leaf, own) in enumerate(zip(like, drawn, strict=True)):
        alone = jax.random.normal(keys.at(key, k), leaf.shape, leaf.dtype)
        np.testing.assert_array_equal(np.asarray(own, np.float32), np.asarray(alone, np.float32))
        assert own.dtype == leaf.dtype


def test_normal_numbers_of_many_keys_at_once_are_those_of_each():
    like = {"a": jnp.zeros((6, 5)), "b": jnp.zeros(4)}
    many = jax.vmap(lambda k: keys.at(keys.root(0), k))(jnp.arange(3))
    together = jax.vmap(lambda key: keys.normal(key, like))(many)
    for k in range(3):
        jax.tree.map(np.testing.assert_array_equal, jax.tree.map(lambda a, k=k: a[k], together), keys.normal(many[k], like))
