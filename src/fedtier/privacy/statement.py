"""Who sees what, and what holds against whom: in numbers where there are some, in words where there are none.

Neighbours are two federations of which one has a client more (its replies count as 0 where it is missing), so epsilon bounds
what anyone can learn about a whole client, however many rows it has. For the rows of one client see `rows`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from .accountant import Cohorts, epsilon_of
from .mechanism import Mechanism

ASSUMPTIONS = {
    "central": "the server does what it says: it adds the noise, and keeps replies and cohorts to itself",
    "distributed": "the server sees sums alone (secure aggregation), and at least the quorum of clients adds its noise",
    "local": "each client adds its own noise; nothing is assumed about the server",
}
GENERAL = (
    "noise of a simulation is drawn from run.seed: whoever knows it knows the noise, so publish models of a simulation only "
    "as what they are",
    "floating-point Gaussian noise, not a discrete one",
)
UNCOVERED = (
    "who takes part at all, and when a client answers",
    "scores, predictions and row counts, if you publish them: fedtier sends none under privacy",
    "what a model says about people in general, whether they took part or not",
    "personal models: they never leave their client, and whoever is shown one sees that client's rows through it",
)


class Viewer(NamedTuple):
    """One adversary."""

    who: str
    sees: str
    epsilon: float  # infinite: it is trusted
    why: str


class Statement(NamedTuple):
    """What can be said about a run before it starts; `words` is the page."""

    unit: str  # what is protected: a client, or a row
    delta: float
    noise: float
    clip: float
    rounds: int
    viewers: tuple[Viewer, ...]
    assumptions: tuple[str, ...]
    uncovered: tuple[str, ...]
    groups: tuple[str, ...] = ()  # where clients have noises of their own: each in words

    @property
    def epsilon(self) -> float:
        """Against those who see the models alone."""
        return self.viewers[0].epsilon


def statement_of(
    mechanism: Mechanism, cohorts: Cohorts, rounds: int, delta: float, *, sends: str, asked: int | None = None, by: str = "auto"
) -> Statement:
    """The statement about `rounds` rounds. `sends` says what a reply is; `asked`, in how many rounds the client that is asked
    most often is, counts for those who see cohorts: by default all."""
    outside = "all models that are ever sent, and the last one"
    seen = epsilon_of(mechanism.noise, rounds, cohorts, delta, by)
    times = rounds if asked is None else asked
    often = Cohorts("all", cohorts.clients, cohorts.clients)
    plain = epsilon_of(mechanism.noise, times, often, delta, "pld" if by == "auto" else by)
    amplified = f"a Gaussian of {mechanism.noise:.3g} C in each of {rounds} rounds, {_drawn(cohorts)}"
    composed = f"a Gaussian of {mechanism.noise:.3g} C in each of the {times} rounds in which it is asked"
    if mechanism.place == "central":
        viewers = (
            Viewer("other clients", outside, seen, f"{amplified}; cohorts stay the server's secret"),
            Viewer("readers of the model", "the last model", seen, "no more than other clients see"),
            Viewer("the server", f"every reply: {sends}, clipped", math.inf, "it is trusted"),
        )
    else:
        sum_alone = mechanism.place == "distributed"
        sees = f"sums of {sends}, and who is asked" if sum_alone else f"every reply: {sends}, clipped, with its own noise"
        viewers = (
            Viewer("other clients", outside, plain, f"no more than the server; {composed}"),
            Viewer("readers of the model", "the last model", plain, "no more than the server"),
            Viewer("the server", sees, plain, composed),
        )
    assumed = (ASSUMPTIONS[mechanism.place], *GENERAL)
    return Statement("a client", delta, mechanism.noise, mechanism.clip, rounds, viewers, assumed, UNCOVERED)


def _drawn(cohorts: Cohorts) -> str:
    words = {
        "all": "in all of which it takes part",
        "poisson": f"in each of which it is asked with chance {cohorts.share:.3g}",
        "drawn": f"for which {cohorts.size} of {cohorts.clients} are drawn; neighbours replace a client by another",
        "cycle": "in turn",
    }
    return words[cohorts.rule if cohorts.rule == "poisson" or cohorts.size < cohorts.clients else "all"]


class RowGroup(NamedTuple):
    """Clients that share a noise: how the one with the fewest rows draws its minibatches, and what it has spent in the end."""

    minibatches: Cohorts
    noise: float
    epsilon: float
    least: bool = False  # is it a client with so many rows or more? A client with more draws each of them less often

    @property
    def words(self) -> str:
        count, share = self.minibatches.clients, f"{self.minibatches.share:.3g}"
        rows = f"{count} row{'s' if count > 1 else ''}, each drawn with chance {share}"
        who = f"at least {rows} or less" if self.least else rows
        return f"a client with {who}: noise of {self.noise:.3g} C, epsilon {self.epsilon:.3g}"


def rows_statement(
    groups: Sequence[RowGroup], clip: float, steps: int, delta: float, rounds: int, *, public_sizes: bool = False
) -> Statement:
    """The statement about rows: `steps` noisy gradients of each client, if it is asked in every round."""
    worst, noises = max(group.epsilon for group in groups), [group.noise for group in groups]
    size = f"{max(noises):.3g} C" if len({*noises}) == 1 else f"{min(noises):.3g} to {max(noises):.3g} C by the client's rows"
    why = f"{steps} gradients with noise of {size}"
    viewers = (
        Viewer("other clients", "all models that are ever sent, and the last one", worst, why),
        Viewer("readers of the model", "the last model", worst, "no more than the server"),
        Viewer("the server", "every reply, computed from noisy gradients", worst, "the noise is in the client's own steps"),
    )
    known = ["the number of rows of every client may be known: replies are weighted by it"] if public_sizes else []
    assumed = ("each client adds its own noise; nothing is assumed about the server", *known, *GENERAL)
    rest = ("how many rows a client has", "the whole of a client: many rows of one person, or what all rows share", *UNCOVERED)
    by_group = tuple(group.words for group in groups)
    return Statement("a row", delta, max(noises), clip, rounds, viewers, assumed, rest, by_group)
