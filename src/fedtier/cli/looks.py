"""Commands that look at something without running it: partition, theory, methods, check, cite."""

from __future__ import annotations

import sys
from pathlib import Path

import tyro

from .shared import Config, Place, Settings, prepare_jax, progress, show


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
    experiment = assemble(load_config(file, (*published, *settings)))
    progress().say(*labels_of_experiment(experiment).said)
    found = page(experiment, epsilon)
    show(words.page_object(found) if json else words.page_parts(found))


def methods(json: bool = False) -> None:
    """List the methods and their options.

    Args:
        json: One JSON object on stdout instead of a table.
    """
    from ..reports.terminal import methods_object, methods_table

    show(methods_object() if json else methods_table())


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
