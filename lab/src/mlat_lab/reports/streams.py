"""The table of whole streams: everyone on recordings with every switch.

Its journals need not be complete. A system that lacks somebody is shown, but has no rank.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..experiments.experiment import Experiment
from ..experiments.journal import Result
from ..experiments.stream_protocol import AFTER_SWITCH, LEAST_WINDOWS, MOST_GIVEN, SECOND, STREAM
from ..experiments.systems import AUTO, AUTO_FILTERED, FOREST, LINEAR, streams_development
from .comparison import (
    Compared,
    compare,
    comparison_page,
    headline,
    past_rows,
    systems_with_results,
)
from .page import COLUMNS, NONE, Links, Picture, Report, left_out_lines, table
from .paper import set_title, system_title
from .standing import HARM_POINTS, pictures, stand
from .statistics import EVERYONE, Scores, Summary, grouped, summarise

HEADINGS = {STREAM: "Whole recordings", SECOND: "The second recording"}
NEVER = "∞"
DEVELOPMENT, OTHERS = "The files that defaults were chosen on", "The other files"


# Figures.


@dataclass(frozen=True)
class Delay:
    """How late the new state is right for the first time, over the people of a set."""

    steps: float | None  # the median over people of their median over switches; None is never
    missed: float  # the fraction of runs whose state is never right, the mean over people


@dataclass(frozen=True)
class SetCounts:
    """What a set is like, the mean over its people."""

    n_channels: int
    n_train: float  # windows of what is given
    n_test: float  # judged steps
    n_switches: float


@dataclass(frozen=True)
class Recorded(Compared):
    """The figures under one protocol."""

    delays: Mapping[str, Mapping[str, Delay]]  # by system and data set
    counts: Mapping[str, SetCounts]


def _protocol(protocol: str, results: Sequence[Result], experiment: Experiment) -> Recorded:
    systems = systems_with_results(results, experiment)
    everyone = Scores(results, protocol)
    chosen_on = streams_development(protocol)
    not_chosen_on: dict[str, list[str]] = defaultdict(list)
    for one, person in everyone.groups:
        if person not in chosen_on.get(one, ()):
            not_chosen_on[one].append(person)
    parts = {
        DEVELOPMENT: Scores(results, protocol, not_chosen_on),
        OTHERS: Scores(results, protocol, chosen_on),
    }
    sections = {EVERYONE: stand(everyone, systems)}
    if all(part.groups for part in parts.values()):
        sections |= {who: stand(part, systems) for who, part in parts.items()}
    by_system = grouped(results, "system")
    return Recorded(
        **compare(results, experiment, sections),
        delays={name: _delays(by_system[name]) for name in systems},
        counts={one: _counts(results, one, experiment) for one in everyone.data_sets},
    )


def _delays(results: Iterable[Result]) -> dict[str, Delay]:
    steps: dict[str, list[float]] = defaultdict(list)
    missed: dict[str, list[float]] = defaultdict(list)
    for result in results:
        if result["n_switches"]:
            delay = result["delay"]
            steps[result["data_set"]].append(np.inf if delay is None else delay)
            missed[result["data_set"]].append(result["missed"])
    delays = {}
    for one, found in steps.items():
        # A value that was observed: between a number and never there is nothing.
        median = float(np.quantile(found, 0.5, method="inverted_cdf"))
        delays[one] = Delay(median if np.isfinite(median) else None, float(np.mean(missed[one])))
    return delays


def _counts(results: Iterable[Result], data_set: str, experiment: Experiment) -> SetCounts:
    """The counts are the same for every system, so one result of each person will do."""
    of_people = {r["person"]: r for r in results if r["data_set"] == data_set}
    people = experiment.people[data_set]
    means = [
        float(np.mean([result[field] for result in of_people.values()]))
        for field in ("n_train", "n_test", "n_switches")
    ]
    return SetCounts(people.load(people.names[0]).n_channels, *means)


# The report.


def streams_report(
    results: Mapping[str, Sequence[Result]], experiments: Mapping[str, Experiment]
) -> Report:
    """The report of the table of whole streams.

    Parameters
    ----------
    results : mapping of protocol to results
        Of as many systems and people as there are.
    experiments : mapping of protocol to Experiment
        With all systems, also those that were not run.
    """
    figures = summarise(
        results,
        experiments,
        _protocol,
        given=max(p.given or 0 for e in experiments.values() for p in e.people.values()),
        most_given=MOST_GIVEN,
        harm_points=HARM_POINTS,
        development={name: streams_development(name) for name, found in results.items() if found},
    )
    return Report(
        [result for found in results.values() for result in found],
        figures,
        lambda: _draw(figures),
        lambda links: _text(figures, links),
        headline(figures.parts[STREAM].everyone, mean=True) if STREAM in figures.parts else [],
        (*COLUMNS, "past", "delay", "missed", "n_switches", "chosen", "expected"),
    )


def _draw(figures: Summary[Recorded]) -> Iterator[Picture]:
    for protocol, found in figures.parts.items():
        yield from pictures(found.everyone, f"under {protocol}", protocol)


def _text(figures: Summary[Recorded], links: Links) -> list[str]:
    titles = {}
    for protocol, found in figures.parts.items():
        titles[HEADINGS[protocol]] = found.everyone
        if OTHERS in found.others:
            title = f"{HEADINGS[protocol]}, without the files that defaults were chosen on"
            titles[title] = found.others[OTHERS]
    opening = _opening(figures)
    lines = comparison_page(figures, HEADINGS, opening, titles, _delay_lines, links, mean=True)
    rows = [row for found in figures.parts.values() for row in found.left_out]
    return [*lines, "## States left out", "", *left_out_lines(rows, 1)]


def _opening(figures: Summary[Recorded]) -> list[str]:
    settings = figures.settings
    who = " and ".join(
        f"{len(found.everyone.groups)} people or recordings under `{protocol}`"
        for protocol, found in figures.parts.items()
    )
    given, width = settings["given"], settings["width"]
    auto, filtered = system_title(AUTO), system_title(AUTO_FILTERED)
    lines = [
        "# Whole streams, with every switch",
        "",
        f"Written by `mlat-lab reproduce --table streams` (mlat {settings['version']}): {who}; "
        f"windows of {width} steps. Nothing is drawn, so there is one run.",
        "",
        "## What is measured",
        "",
        f"- **`{STREAM}`**: given are, for each state, the first {given} steps in the order of "
        f"time, from as many runs as that takes, but at most {MOST_GIVEN:.0%} of the state's "
        "steps. The rest of the recording, less a window on either side of what was given, is the "
        "test stream. It is cut where steps were taken out, so nothing reaches across.",
        f"- **`{SECOND}`**, where somebody was recorded more than once by nature: the first "
        "recording is given, the second is the test stream.",
        "",
        "Every labelled step with a full window counts, those just after a switch too. Of each "
        f"state at most {settings['test_windows_per_label']} steps are judged, evenly spaced in "
        "time, the same for every system. A figure is the balanced accuracy in percent: every "
        "state counts the same; the mean over people. A state of which fewer than "
        f"{LEAST_WINDOWS} windows are given, or without test steps, is left out. The *delay* is "
        "the number of steps from a switch until the new state is right for the first time: the "
        f"median over switches, then over people; {NEVER} where it is never right for most of "
        f"them. For it the first {AFTER_SWITCH} steps after each switch are judged as well.",
        "",
        f"{auto} is `StreamClassifier()` with nothing set. Its features reach further back than "
        "a window, within the same stretch of the test stream. What a system may see decides how "
        "good it can be, so every rival stands here twice. With the *same past* it learns from and "
        "predicts by windows that are as long as all that the default may look at; where a given "
        "run or a stretch of the test stream begins, what lacks is mirrored. Below stand those "
        "that see windows "
        f"of {width} steps alone. Everyone learns at the same steps and is judged at the same "
        f"steps. {system_title(FOREST)} (extremely randomised trees) and {system_title(LINEAR)} "
        f"(logistic regression) learn from the features of {auto} at the last step of a window, "
        "with balanced classes: what somebody would try who has these features.",
        "",
        f"{filtered} is the same model with its causal filter, and ED + filter the Euclidean "
        "distance with such a filter; there are ranks with these and ranks without.",
        "",
    ]
    for protocol, found in figures.parts.items():
        counts = found.counts.values()
        rows = [
            ["people or recordings", *(str(found.sizes[one]) for one in found.counts)],
            ["channels", *(str(c.n_channels) for c in counts)],
            ["windows given, mean", *(f"{c.n_train:.0f}" for c in counts)],
            ["steps judged, mean", *(f"{c.n_test:.0f}" for c in counts)],
            ["switches, mean", *(f"{c.n_switches:.0f}" for c in counts)],
        ]
        rows += past_rows(found, found.counts)
        lines += table([f"`{protocol}`", *map(set_title, found.counts)], rows)
    return lines


def _delay_lines(found: Recorded) -> tuple[list[str], list[str]]:
    def cell(delay: Delay | None) -> str:
        if delay is None:
            return NONE
        steps = NEVER if delay.steps is None else f"{delay.steps:.0f}"
        return f"{steps} ({delay.missed:.0%})"

    sets = [one for one in found.counts if any(one in by for by in found.delays.values())]
    rows = [
        [system_title(name), *(cell(by.get(one)) for one in sets)]
        for name, by in found.delays.items()
    ]
    about = ["### Delay", "", "Steps, and the fraction of runs that are missed.", ""]
    return [], about + table(["delay, steps (missed)", *map(set_title, sets)], rows)
