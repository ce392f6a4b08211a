"""The user's own code, named by its path: "my.py:method" is what my.py calls `method`.

    method.name     "my.py:method"     method(problem, *, options) -> Method
    method.problem  "mine.py:problem"  problem(loss, *, options) -> Bilevel
    model.name      "net.py:make"      make(features | shape, outputs | classes, *, options) -> Model, Equinox or PyTorch module
    data.name       "mine.py:load"     load(*, options) -> a Dataset, a frame, or (inputs, labels) or (inputs, labels, owner)

Options are read from the signature, as those of our own methods are, and stand in the same table. Only what the user's own
configuration or the user's own site file names is ever loaded; nothing that comes over a network is.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import inspect
import linecache
import sys
import traceback
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from ..errors import FedtierError, nearest, require
from ..methods import registry
from ..methods.method import Method
from ..problem import Bilevel, Loss
from .held import Held, is_object, value_of
from .naming import Place, is_own, is_path, short

MODULE = "fedtier_own_"  # how loaded files are called among the modules
_sources: dict[str, bytes] = {}  # what they held, by these names


def find(key: str, word: str) -> Callable[..., Any]:
    """The function that the word names, from the program or from the user's file."""
    found = value_of(key, word) if is_object(word) else _in_file(key, word)
    if not callable(found):
        hint = f"def {short(word)}(...): return ..."
        raise FedtierError(key, str(word), f"is a {type(found).__name__}, not a function", hint)
    return found


def _in_file(key: str, word: str) -> object:
    file, name = Place.of(word)
    module = load_file(key, file)
    if not hasattr(module, name):
        public = [known for known, value in vars(module).items() if callable(value) and not known.startswith("_")]
        raise FedtierError(key, word, f"{file.name} has no {name!r}", nearest(name, public) if public else "")
    return getattr(module, name)


def load_file(key: str, file: Path) -> ModuleType:
    """The user's file as a module: run once for each content."""
    require(file.is_file(), key, str(file), "is not there", f"looked in {file.absolute().parent}")
    require(file.suffix == ".py", key, str(file), "is not a Python file", "its name must end in .py")
    content = file.read_bytes()
    name = f"{MODULE}{file.stem}_{hashlib.sha256(content).hexdigest()[:12]}"
    _sources[name] = content
    return _module(key, file.absolute(), name)


def load_kept(key: str, file: Path) -> ModuleType:
    """A file of the user's that was kept under the name of its module."""
    _sources[file.stem] = file.read_bytes()
    return _module(key, file.absolute(), file.stem)


def source_of(module: str) -> bytes:
    """What a loaded file of the user's held when it was loaded, whatever became of it since."""
    return _sources[module]


@functools.lru_cache(maxsize=64)
def _module(key: str, file: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    linecache.checkcache(str(file))
    sys.path.insert(0, str(file.parent))  # files beside it, as for a script
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise FedtierError(key, str(file), f"cannot be imported: {told(error, file)}") from error
    finally:
        sys.path.remove(str(file.parent))
    return module


def told(error: BaseException, file: Path | None = None) -> str:
    """The error in one line, with the last line of the user's own code that it passed through."""
    words = f"{type(error).__name__}: {error}".strip()
    if isinstance(error, SyntaxError):
        return f"{words} (line {error.lineno})"
    ours = {str(module.__file__) for name, module in sys.modules.items() if name.startswith(MODULE)} | {str(file)}
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in ours]
    return f"{words}\n  in {lines[-1].filename}, line {lines[-1].lineno}: {lines[-1].line}" if lines else words


def blamed(error: BaseException) -> str | None:
    """The error in words where it passed through a file of the user's; None where it did not."""
    words = told(error)
    return words if "\n  in " in words else None


@contextmanager
def calling(key: str, word: str) -> Iterator[None]:
    """Inside, the user's function is called: an exception of it is told with its line."""
    try:
        yield
    except FedtierError:
        raise
    except Exception as error:
        raise FedtierError(key, str(word), f"fails: {told(error)}") from error


class Signature(NamedTuple):
    """What a function of the user's asks for."""

    required: tuple[str, ...]  # without a default
    options: dict[str, inspect.Parameter]  # with one


def signature_of(key: str, word: str) -> Signature:
    """Of the function that the word names; *args and **kwargs are refused, because keys could not be checked against them."""
    found = [*inspect.signature(find(key, word)).parameters.values()]
    for one in found:
        rest = one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        require(not rest, key, str(word), f"must name its options, not take *{one.name}", "write each with its default")
    return Signature(
        tuple(one.name for one in found if one.default is one.empty),
        {one.name: one for one in found if one.default is not one.empty},
    )


def method_entry(word: str) -> registry.Entry:
    """A method of the user's as a row of the registry: method(problem, *, options)."""
    key, factory = "method.name", find("method.name", word)
    wants = signature_of(key, word)
    rule = f"must be called with the problem alone, but asks for {', '.join(wants.required) or 'nothing'}"
    require(
        len(wants.required) == 1, key, str(word), rule, "def method(problem, *, client_lr=0.1): give every option a default"
    )

    def keys_to_parts(**given: object) -> dict[str, object]:
        return given

    keys_to_parts.__signature__ = inspect.Signature(  # pyright: ignore[reportFunctionMemberAccess]
        [one.replace(kind=one.KEYWORD_ONLY) for one in wants.options.values()]
    )
    keys_to_parts.__annotations__ = {name: _kind(factory, one) for name, one in wants.options.items()}

    def make(problem: Bilevel, **options: object) -> Method:
        with calling(key, word):
            made = factory(problem, **options)
        rule = f"must return a Method, not a {type(made).__name__}"
        if not isinstance(made, Method):
            raise FedtierError(key, str(word), rule, "from fedtier.methods import Method")
        return made

    first = (inspect.getdoc(factory) or "").partition("\n")[0]
    return registry.Entry(make, keys_to_parts, short(word), "your own", first or "a method of your own")


def _kind(factory: Callable[..., object], option: inspect.Parameter) -> object:
    """The type that a value of this option must have: its annotation's, else its default's."""
    try:
        known = typing.get_type_hints(factory)
    except Exception:  # annotations that name what is not there are no reason to refuse the function
        known = {}
    return known.get(option.name, type(option.default) if option.default is not None else object)


def problem_options(word: str) -> dict[str, inspect.Parameter]:
    """The options of a problem of the user's: problem(loss, *, options), or none of a Bilevel that a program gives."""
    if is_bilevel(word):
        return {}
    wants = signature_of("method.problem", word)
    rule = f"must be called with the loss alone, but asks for {', '.join(wants.required) or 'nothing'}"
    hint = "def problem(loss, *, penalty=1.0): give every option a default"
    require(len(wants.required) == 1, "method.problem", str(word), rule, hint)
    return wants.options


def is_bilevel(word: str) -> bool:
    """Whether the program gave the problem itself, not a function that makes it."""
    return isinstance(word, Held) and isinstance(word.value, Bilevel)


def own_problem(word: str, loss: Loss | None, options: Mapping[str, object]) -> Bilevel:
    """The user's problem, made with the loss of the model on the data."""
    if isinstance(word, Held) and isinstance(word.value, Bilevel):
        return word.value
    factory = find("method.problem", word)
    require(loss is not None, "method.problem", str(word), "asks for the loss, but there is no model", "give a Bilevel")
    with calling("method.problem", word):
        made = factory(loss, **options)
    rule = f"must return a Bilevel, not a {type(made).__name__}"
    if not isinstance(made, Bilevel):
        raise FedtierError("method.problem", str(word), rule, "from fedtier.problem import Bilevel")
    return made


SIZES = ("features", "shape", "outputs", "classes")  # what a model may ask of the data


def model_options(word: str) -> dict[str, inspect.Parameter]:
    """The options of a model of the user's: make(features, outputs, *, options), in sizes that the data tell; none of an object
    that is a model already."""
    if isinstance(word, Held) and not inspect.isroutine(word.value):
        return {}
    wants = signature_of("model.name", word)
    unknown = [name for name in wants.required if name not in SIZES]
    rule = f"asks for {', '.join(unknown)}, which the data do not tell"
    require(not unknown, "model.name", str(word), rule, f"without a default it may ask for {', '.join(SIZES)}")
    return wants.options


def entry_of(word: str) -> registry.Entry:
    """The row of a method: of the registry, or made from the user's own."""
    return method_entry(word) if is_own(word) else registry.entry(word)


def digest(words: list[str]) -> str:
    """Letters for the content of the user's files that these words name; empty without any."""
    files = sorted({Place.of(word).file for word in words if is_path(word)})
    content = hashlib.sha256()
    for file in files:
        content.update(file.read_bytes() if file.is_file() else b"")
    return content.hexdigest()[:12] if files else ""
