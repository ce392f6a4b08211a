"""Programs that several processes compile but once."""

from __future__ import annotations

import hashlib
import threading
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from fedtier import compilation
from fedtier.storage.files import Lock


class Told:
    """A program that says what is asked of it."""

    def __init__(self, text: str = "a program") -> None:
        self.text, self.lowered, self.compiled = text, 0, threading.Event()

    def lower(self, *args: Any) -> Told:
        self.lowered += 1
        return self

    def as_text(self) -> str:
        return self.text

    def compile(self) -> None:
        self.compiled.set()

    def __call__(self, *args: Any) -> int:
        return len(args)


def lock_of(program, folder):
    place = int.from_bytes(hashlib.sha256(program.text.encode()).digest()) % compilation.LOCKS
    return Lock(folder / f"compiling-{place}")


def test_a_program_that_another_process_compiles_is_waited_for(tmp_path):
    program = Told()
    held = lock_of(program, tmp_path)
    assert held.take() is None
    waiting = threading.Thread(target=compilation._compile, args=(program, tmp_path))
    waiting.start()
    assert not program.compiled.wait(0.3)
    held.free()
    assert program.compiled.wait(30)
    waiting.join()
    assert lock_of(program, tmp_path).take() is None, "it was handed back"


def test_nobody_waits_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(compilation, "PATIENCE", 0.2)
    program = Told()
    held = lock_of(program, tmp_path)
    assert held.take() is None
    compilation._compile(program, tmp_path)
    assert program.compiled.is_set()
    held.free()


def test_where_nothing_can_be_kept_nobody_waits(tmp_path):
    (tmp_path / "file").write_text("")
    program = Told()
    compilation._compile(program, tmp_path / "file" / "cache")
    assert program.compiled.is_set()


def test_a_program_that_does_not_compile_hands_its_lock_back(tmp_path):
    program = Told()

    def refused():
        raise RuntimeError("no memory")

    program.compile = refused
    with pytest.raises(RuntimeError, match="no memory"):
        compilation._compile(program, tmp_path)
    assert lock_of(program, tmp_path).take() is None


@pytest.fixture
def kept(tmp_path):
    before = jax.config.values["jax_compilation_cache_dir"]
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    yield tmp_path
    jax.config.update("jax_compilation_cache_dir", before)


def test_every_shape_and_every_static_argument_is_compiled_once(kept):
    program = Told()
    run = compilation._in_turn(program, (0,))
    calls = [("a", 2, jnp.float32), ("a", 2, jnp.float32), ("a", 3, jnp.float32), ("b", 2, jnp.float32), ("a", 2, jnp.int32)]
    for word, size, kind in calls:
        assert run(word, {"x": jnp.zeros(size, kind)}) == 2
    assert program.lowered == 4


def test_without_kept_programs_nothing_is_asked():
    before = jax.config.values["jax_compilation_cache_dir"]
    jax.config.update("jax_compilation_cache_dir", None)
    try:
        program = Told()
        compilation._in_turn(program, ())(jnp.zeros(2))
        assert program.lowered == 0
    finally:
        jax.config.update("jax_compilation_cache_dir", before)


def test_the_numbers_are_those_of_jit(kept):
    def double(x):
        return 2 * x + jnp.sin(x)

    x = jnp.linspace(0.0, 1.0, 7)
    assert jnp.array_equal(compilation.jitted(double)(x), jax.jit(double)(x))
