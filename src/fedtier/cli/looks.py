"""Commands that look at something without running it: partition, theory, methods, check, cite."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import tyro

from .shared import Config, Place, Settings, Text, prepare_jax, progress, show


def partition(
    file: Config = None, settings: Settings = (), out: Place = None, export: Place = None, json: bool = False
) -> None:
    """Show who has how many rows of which class.

    Args:
        file: The configuration; everything has a default.
        settings: Change one key, for example --set data.alpha=1. May be repeated.
        out: Picture, .svg, .pdf or .png by its ending.
        export: New folder for the rows of each party as files, with run.toml: a rehearsal between sites.
        json: One JSON object on stdout instead of a table.
    """
    from ..experiments.config import load_config
    from ..experiments.label_counts import count_labels
    from ..reports import plots
    from ..reports.terminal import label_counts_table

    if out is not None:
        plots.check_ending(out)
    config = load_config(file, settings)
    counts = count_labels(config)
    progress().say(*counts.said)
    if export is not None:
        from ..deploy.export import export_rows

        export_rows(config, export)
        print(f"federation: {export}", file=sys.stderr)
    if out is not None:
        plots.save(plots.partition_figure(counts), out)
        print(f"picture: {out}", file=sys.stderr)
    show(counts.as_object() if json else label_counts_table(counts))


def theory(
    file: Config = None,
    settings: Settings = (),
    *,
    epsilon: float = 0.1,
    verify: bool = False,
    out: Place = None,
    json: bool = False,
) -> None:
    """Say what the theorems promise for a configuration, or try to refute them.

    Args:
        file: The configuration; without one, the paper's method with everything at its default.
        settings: Change one key, for example --set method.radius=1. May be repeated.
        epsilon: The wanted mean of |grad F|^2, for the predicted rounds.
        verify: Run the experiments that could refute each statement (one to two minutes); needs no configuration.
        out: Folder for the pictures of --verify; none are drawn without it.
        json: One JSON object on stdout instead of tables.
    """
    from ..studies.theory import words

    if verify:
        from ..studies.theory.verify import verify as attempt

        prepare_jax()
        rows = attempt(out, say=lambda text: print(text, file=sys.stderr, flush=True))
        show(words.rows_object(rows) if json else words.rows_parts(rows))
        if not all(row.holds for row in rows):
            raise SystemExit(1)
        return
    from ..errors import positive
    from ..experiments.assemble import assemble
    from ..experiments.config import load_config
    from ..experiments.label_counts import labels_of_experiment
    from ..studies.theory.page import page

    positive("--epsilon", epsilon)
    named = file is not None or any(setting.startswith("method.name") for setting in settings)
    published = () if named else ("method.preset=paper",)  # the theorems are about the paper's method
    config = load_config(file, (*published, *settings))
    if published and not any(setting.startswith("method.preset") for setting in settings):
        progress().say('no file: method.preset = "paper", which the theorems are about; `fedtier run` has "recommended"')
    experiment = assemble(config)
    progress().say(*labels_of_experiment(experiment).said)
    found = page(experiment, epsilon)
    show(words.page_object(found) if json else words.page_parts(found))


def methods(
    names: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="NAME")] = (),
    family: Text = None,
    personal: bool = False,
    wire: bool = False,
    no_server_data: bool = False,
    json: bool = False,
) -> None:
    """List the methods: what each keeps at a client, what a client sends, what it needs; or the keys of some of them.

    Args:
        names: Methods whose keys are shown with their values, instead of the list.
        family: Only methods of this family, for example averaging or personal.
        personal: Only methods whose paper gives clients personal models.
        wire: Only methods that can run between sites.
        no_server_data: Only methods that need no rows at the server.
        json: One JSON object on stdout instead of tables: facts, and keys with their values by preset.
    """
    from ..reports.method_list import Wish, keys_table, list_object, list_table

    wish = Wish(names, family, personal, wire, no_server_data)
    show(list_object(wish) if json else keys_table(wish) if names else list_table(wish))


def check(file: tyro.conf.Positional[Path], json: bool = False) -> None:
    """Run the battery on your own method or problem.

    Args:
        file: A Python file that defines `method(problem)` or `problem()`; see CONTRIBUTING.
        json: One JSON object on stdout instead of a table.
    """
    from ..own_code.check_file import check_file
    from ..reports.terminal import check_table

    outcome = check_file(file)
    show(outcome if json else check_table(outcome))
    if not all(claim["holds"] for claim in outcome["claims"]):
        raise SystemExit(1)


def cite(file: Config = None, settings: Settings = ()) -> None:
    """Print the BibTeX of what a configuration uses.

    Args:
        file: The configuration; everything has a default.
        settings: Change one key, for example --set method.name=scaffold. May be repeated.
    """
    from ..experiments.config import load_config
    from ..reports.citations import bibliography

    show(bibliography(load_config(file, settings)))
