"""From the JSON lines of a sitting to the table and the plot of docs/speed.md.

    python bench/table.py                  the last sitting, into docs/speed.md and docs/figures/speed.svg
    python bench/table.py FILE --print     to stdout alone

The rate of a repetition is its rounds per second times the seconds of the reference around it (the mean of before and
after): on a busy machine both change together. The ratio of a peer is the median over repetitions of fedtier's rate over the
peer's, both of the same repetition.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from roster import OURS, PEERS
from workloads import WORKLOADS, Workload

HERE = Path(__file__).parent
PAGE, FIGURE = HERE.parent / "docs" / "speed.md", HERE.parent / "docs" / "figures" / "speed.svg"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
BUSY = 1.5  # slowest over fastest reference of a sitting from which its figures are rough
NOISY = 0.15  # the reference of a row may stray so far from the sitting's median


class Row(NamedTuple):
    peer: str
    speed: float  # rounds per second, median
    low: float
    high: float
    ratio: float | None  # fedtier's rate over this one's; None without fedtier
    first: float  # seconds to the first round, median
    peak: float  # MB, largest
    accuracy: float  # median
    learns: bool  # accuracy within the band of fedtier's
    noisy: bool


class Failure(NamedTuple):
    peer: str
    error: str


def rate(line: dict[str, Any]) -> float:
    return line["rounds_per_second"] * statistics.mean(line["reference"])


def rows(work: Workload, lines: list[dict[str, Any]]) -> tuple[list[Row], list[Failure]]:
    """The workload's rows, the fastest first, and what failed."""
    mine = [line for line in lines if line.get("workload") == work.name]
    failures = {line["peer"]: Failure(line["peer"], line["error"]) for line in mine if line.get("error")}
    good = [line for line in mine if not line.get("error")]
    ours = {line["repeat"]: line for line in good if line["peer"] == OURS}
    usual = statistics.median([s for line in good for s in line["reference"]] or [1.0])
    table = [_row(work, name, [line for line in good if line["peer"] == name], ours, usual) for name in _in_order(good)]
    return sorted(table, key=lambda row: -row.speed), list(failures.values())


def _row(work: Workload, name: str, lines: list[dict[str, Any]], ours: dict[int, Any], usual: float) -> Row:
    speeds = [line["rounds_per_second"] for line in lines]
    score = statistics.median(line["accuracy"] for line in lines)
    ratios = [rate(ours[line["repeat"]]) / rate(line) for line in lines if line["repeat"] in ours]
    learns = not ours or abs(score - statistics.median(line["accuracy"] for line in ours.values())) <= work.band
    return Row(
        name, statistics.median(speeds), min(speeds), max(speeds), statistics.median(ratios) if ratios else None,
        statistics.median(line["first_round"] for line in lines), max(line["peak_mb"] for line in lines), score,
        learns, any(abs(statistics.mean(line["reference"]) / usual - 1) > NOISY for line in lines),
    )  # fmt: skip


def _in_order(lines: Iterable[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(line["peer"] for line in lines))


def local_steps(work: Workload) -> float:
    """Local steps of a timed round, two solves each for zo_hfl, on average."""
    if work.steps is not None:
        return float(work.cohort * work.steps)
    growing = [-int(-work.tau * (r + 1) ** 0.5 // 1) for r in range(work.warm, work.rounds)]
    return 2.0 * work.cohort * statistics.mean(growing)


def markdown(lines: list[dict[str, Any]]) -> str:
    parts = [_machine(lines)]
    for work in WORKLOADS.values():
        table, failures = rows(work, lines)
        if table or failures:
            parts.append(_section(work, table, failures))
    return "\n\n".join(parts)


def _section(work: Workload, table: list[Row], failures: list[Failure]) -> str:
    head = [
        f"### {work.name}: {work.title}", "",
        "| | rounds/s (least, most) | fedtier is faster by | µs a local step | first round, s | peak, MB | accuracy, % |",
        "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    body = [_line(work, row) for row in table]
    there = {row.peer for row in table}
    notes = [
        f"- {PEERS[failure.peer].title}: {'a repetition without' if failure.peer in there else 'no'} result, {failure.error}"
        for failure in failures
    ]
    if any(not row.learns for row in table):
        notes.append(f"- ✗ accuracy further than {100 * work.band:g} points from fedtier's: not the same work, not counted.")
    if any(row.noisy for row in table):
        notes.append(f"- ~ in some repetition the reference strayed more than {100 * NOISY:g} % from the sitting's median.")
    return "\n".join(head + body + (["", *notes] if notes else []))


def _line(work: Workload, row: Row) -> str:
    mark = ("" if row.learns else " ✗") + (" ~" if row.noisy else "")
    title = f"**{PEERS[row.peer].title}**" if row.peer == OURS else PEERS[row.peer].title
    ratio = "" if row.ratio is None or row.peer == OURS else _short(row.ratio)
    step = 1e6 / row.speed / local_steps(work)
    speed = f"{_short(row.speed)} ({_short(row.low)}, {_short(row.high)})"
    return (
        f"| {title}{mark} | {speed} | {ratio} | {_short(step)} | {row.first:.1f} | {row.peak:.0f} | {100 * row.accuracy:.1f} |"
    )


def _short(value: float) -> str:
    """Three figures, and no exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _machine(lines: list[dict[str, Any]]) -> str:
    head = next((line for line in lines if "machine" in line), {"machine": {}, "started": "unknown"})
    found = [(f"{k} {v}", PEERS[line["peer"]].env) for line in lines for k, v in line.get("versions", {}).items()]
    versions = {version: sorted({env for v, env in found if v == version}) for version, _ in sorted(found)}
    machine = ", ".join(f"{key} {value}" for key, value in head["machine"].items())
    times = [s for line in lines if "reference" in line for s in line["reference"]]
    spread = f"Reference: {min(times):.2f} to {max(times):.2f} s, median {statistics.median(times):.2f} s." if times else ""
    if times and max(times) > BUSY * min(times):
        spread += " **The machine was busy with other work: take the figures as rough.**"
    repeats = max((line["repeat"] + 1 for line in lines if "repeat" in line), default=0)
    words = "; ".join(f"{version} ({', '.join(envs)})" for version, envs in versions.items())
    sitting = f"Sitting of {head['started']}, {repeats} repetitions. Machine: {machine}. {spread}"
    return f"{sitting}\n\nVersions, and the environments that have them: {words}."


def into_page(page: str, text: str) -> str:
    """`page` with `text` between the markers."""
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise ValueError(f"the page must hold {BEGIN} and {END} once each")
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}"


def plot(lines: list[dict[str, Any]], file: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    matplotlib.rcParams["svg.hashsalt"] = "fedtier"  # the same lines give the same file
    tables = [(work, rows(work, lines)[0]) for work in WORKLOADS.values()]
    tables = [(work, table) for work, table in tables if table]
    heights = [len(table) + 1.5 for _, table in tables]
    figure, axes = plt.subplots(
        len(tables), 1, figsize=(8, 0.26 * sum(heights)), height_ratios=heights, squeeze=False, layout="constrained"
    )
    for axis, (work, table) in zip(axes[:, 0], tables, strict=True):
        names = [PEERS[row.peer].title + ("" if row.learns else " ✗") for row in reversed(table)]
        for k, row in enumerate(reversed(table)):
            colour = "#b2182b" if row.peer == OURS else "#404040" if row.learns else "#c0c0c0"
            axis.plot([row.low, row.high], [k, k], color=colour, linewidth=1)
            axis.plot([row.speed], [k], "o", color=colour, markersize=4)
        axis.set_yticks(range(len(names)), names)
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter("{x:g}")
        axis.xaxis.set_minor_formatter("{x:g}" if table[0].high < 30 * table[-1].low else "")
        axis.grid(axis="x", which="both", color="#e8e8e8", linewidth=0.5)
        axis.set_title(f"{work.name}: {work.title}", fontsize=8, loc="left")
        axis.tick_params(labelsize=7, which="both")
    axes[-1, 0].set_xlabel("rounds per second (median, least and most; log)", fontsize=8)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, help="the JSON lines; the last sitting unless given")
    parser.add_argument("--print", action="store_true", help="to stdout alone")
    options = parser.parse_args()
    file = options.file or max((HERE / ".results").glob("*.jsonl"), default=None)
    if file is None or not file.exists():
        raise SystemExit(f"FILE = {str(file)!r}: is not there\n  hint: python bench/run.py makes one")
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    text = markdown(lines)
    if options.print:
        print(text)
        return
    plot(lines, FIGURE)
    PAGE.write_text(into_page(PAGE.read_text(encoding="utf-8"), text), encoding="utf-8")
    print(PAGE)


if __name__ == "__main__":
    main()
