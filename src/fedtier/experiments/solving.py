"""What is solved, and by what: the problem and the method that a configuration names, on the data that it names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import PyTree

from ..datasets import Dataset
from ..errors import called, require
from ..methods import Method, ProjectedSgd, flat, registry
from ..methods.attacked import attacked
from ..methods.predictions.learners import Learner
from ..methods.private_rows import RowNoise
from ..methods.solvers import LowerLevel
from ..own_code.black_box import adopt_solver
from ..own_code.by_path import is_bilevel, own_problem
from ..own_code.own_models.kept import Kept
from ..own_code.own_models.learner import learner_of
from ..own_code.own_models.words import maker_of
from ..problem import BORDER, Augment, Bilevel, Model, Rows, ball, crop_and_flip, supervised
from ..problem.closed_forms import two_level_quadratic
from .models import is_plain, loss_of, model_of, trained_model_of
from .own_models import is_start
from .tables import Config, RunTable


def problem_of(config: Config, dataset: Dataset) -> tuple[Model | None, Bilevel, PyTree]:
    """(the model that is scored, the problem, the rows that both index)."""
    method = config.method
    limits = {"penalty": method.penalty, "proximity": method.proximity, "Y": None if method.radius is None else ball()}
    if dataset.task == "two_level":
        problem = two_level_quadratic(**limits)._replace(central=config.data.central)
        return None, problem, np.asarray(dataset.model_inputs())
    rows = Rows(dataset.inputs, dataset.labels, dataset.weights)  # pyright: ignore[reportArgumentType]
    model = None if is_start(config.model) else model_of(config, dataset)
    loss = None if model is None else loss_of(config, dataset, trained_model_of(config, dataset, model))
    if method.problem is None:
        require(loss is not None, "model.name", str(config.model.name), "an array to start from needs a problem of its own")
        assert loss is not None
        problem = supervised(loss, **limits)
    else:
        fits = not is_bilevel(method.problem) or model is None or is_plain(dataset)
        rule, hint = "has a model of its own, but these rows are scaled for ours", "give a function of the loss: problem(loss)"
        require(fits, "method.problem", str(method.problem), rule, hint)
        problem = own_problem(method.problem, loss, method.problem_options)
    if method.solver is not None:
        problem = adopt_solver(problem, method.solver)
    return model, problem._replace(central=config.data.central, model=model, outputs=dataset.outputs), rows


def lower_level_of(problem: Bilevel, given: Mapping[str, Any]) -> LowerLevel:
    """The solver of y_i(x) by which f is measured: the method's own local part, or the one of its keys."""
    keys = {key: given[key] for key in flat.KEYS_OF_PARTS["local"] if key in given}
    local = given["local"] if isinstance(given.get("local"), ProjectedSgd) else flat.local(**keys)
    return local.lower_level(problem)


def method_of(
    config: Config, dataset: Dataset, problem: Bilevel, noise: RowNoise | None, learner: Learner | None = None
) -> Method:
    """The method, and an attack on it where [attack] asks for one."""
    attack = config.attack
    method = made(config, dataset, problem, noise, learner)
    if attack.kind == "none":
        return method
    fits = attack.kind != "labels" or dataset.task == "classification"
    rule = f"needs classes to flip, and {dataset.name} has numbers to predict"
    require(fits, "attack.kind", attack.kind, rule, "signs, large or noise")
    return attacked(method, attack.kind, scale=attack.scale, classes=dataset.classes)


def made(
    config: Config, dataset: Dataset, problem: Bilevel, noise: RowNoise | None = None, learner: Learner | None = None
) -> Method:
    """The method as its registry makes it, with the parts that other tables set."""
    entry, check = config.method.entry, config.run.personal_check
    fits = not check or registry.takes_check(entry)
    rule = f"{config.method.name} makes its personal models itself, and has no others to choose from"
    require(fits, "run.personal_check", check, rule, "leave it out, or choose a method that fine-tunes")
    scales = config.run.personal_scales
    plain, rule = scales == RunTable.model_fields["personal_scales"].default, "is not read: no client has rows to choose by"
    require(check or plain, "run.personal_scales", scales, rule, "run.personal_check = 0.2")
    rule = f"is not read: what {config.method.name} chooses by run.personal_check is no step of fine-tuning"
    require(plain or "personal" in registry.part_names(entry), "run.personal_scales", scales, rule, "leave it out")
    given = {"augment": augment_of(config, dataset), "private": noise, "check": check, "scales": scales, "learner": learner}
    with called({"scales": "run.personal_scales"}):
        return registry.make(entry, problem, config.method.options, **given)


def augment_of(config: Config, dataset: Dataset) -> Augment | None:
    """What training steps see in place of the stored images; None: the images themselves."""
    if not config.data.augment:
        return None
    check_images(dataset.shape)
    return crop_and_flip(dataset.shape, BORDER)


def check_images(shape: tuple[int, ...]) -> None:
    """Whether rows of this shape can be augmented."""
    rule = f"is for images [channels, height, width]; these rows have the shape {shape}"
    require(len(shape) == 3, "data.augment", True, rule, "false")
    rule = f"shifts images by up to {BORDER} pixels, and sides must be longer than that; these have the shape {shape}"
    require(min(shape[1:]) > BORDER, "data.augment", True, rule, "false; or put the channels first, if they are last")


def own_learner(words: Sequence[str], dataset: Dataset, kept: Kept) -> Learner:
    """The models that these words name, fed with rows as the server's model gets them."""
    rule = f"models of the clients' own are for classes, and {dataset.name} has numbers to predict"
    require(dataset.task == "classification", "clients.models", list(map(str, words)), rule, "leave them out")
    shift, scale = (np.asarray(a, np.float32) for a in (dataset.shift, dataset.scale))

    def prepare(inputs: np.ndarray) -> np.ndarray:
        return (np.asarray(inputs, np.float32) - shift) * scale

    return learner_of([maker_of(word) for word in words], kept, prepare, dataset.outputs)


def check_own_models(config: Config, clients: int) -> None:
    """Refuses a number of models that is neither one nor one for each client."""
    count = len(config.clients.models)
    require(count in (0, 1, clients), "clients.models", count, f"must be one model, or one for each of the {clients} clients")
