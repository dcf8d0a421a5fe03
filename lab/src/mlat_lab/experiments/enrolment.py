"""Leaving one person out: the model of the others, with nothing and with seconds of the next one.

Of each of the others the first half minute of every state is learned from; the rest of their
recordings is there without states. Without labels, the whole recording of the person left out is
judged, by the model of the others, adapted to the recording, and by rivals that learn from the same
windows with the same past, in the same units. With labels, the first seconds of every state of that
person are given, at most 35 % of them, and the rest is the test stream with every switch, as in the
table of whole streams (:mod:`.stream_protocol`).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import balanced_accuracy_score

from mlat.base.checks import Floats, Ints
from mlat.base.errors import InputError
from mlat.classifier.classifier import StreamClassifier
from mlat.classifier.enrolment import PASSES, followed_units, in_units, surest
from mlat.classifier.intake import Intake
from mlat.features.features import Units, in_common_units
from mlat.stream.stream import Stream
from mlat.stream.windows import sliding_windows

from .experiment import ALL, Experiment, Sees, System
from .journal import Job, Result
from .past import Seen, learned_default, see_features, see_past
from .people import WHOLE, People
from .protocol import SplitStreams, evenly
from .runner import judge
from .stream_protocol import STREAM, StreamSplit, first_steps, split_stream
from .systems import FOREST, aeon_method, beyond_systems

# Sets of whole recordings of several people with the same channels and states. The leads and the
# rhythms of the ECG differ from record to record, and there is one room.
SETS = ("emg_gestures", "phone_watch", "wisdm_watch", "gesture_phase", "scma")
SECONDS = (5, 10, 30)  # a state, of the person left out
LEARNED_SECONDS = 30  # a state, of each of the others
MOST_REFERENCES = 4000  # of the model of the others, evenly spaced
MOST_JUDGED = 300  # steps of each state

ENROLLED, ANEW, EUCLIDEAN = "enrolled", "learned anew", "Euclidean"
SYSTEMS = (ENROLLED, ANEW, EUCLIDEAN)
# With no labels: the default as it is for a new person, with the units of the recording alone, as
# it follows one live, and not adapted; a forest over its features, and QUANT with the same past
# where a Python that has aeon is given.
OURS, UNITS, FOLLOWED, NOT_ADAPTED = "default", "units alone", "live", "not adapted"
RIVALS = (FOREST, "QUANT-past")
# By the state filter of the default, and with what it is surest of among what it learns from, as
# the default itself is adapted; QUANT says no probabilities.
FILTERED, SELF_TRAINED = ", filtered", ", self-trained"


def enrol_experiment(
    people: Mapping[str, People], width: int = 10, python: str | None = None
) -> Experiment:
    """The experiment of people by data set; each job is somebody left out.

    ``python`` is one that has aeon; without it QUANT is not run.
    """
    settings = {"enrol": [SECONDS, LEARNED_SECONDS, MOST_REFERENCES, "groups"]}
    several = {
        name: replace(of_set, options={**of_set.options, **settings, "people": of_set.names})
        for name, of_set in people.items()
        if len({person_of(name, one) for one in of_set.names}) > 1
    }
    if not several:
        raise InputError("nobody is left to learn from: name two people of a set, or leave it out")
    system = System(ENROLLED, _default, (ALL,), sees=Sees.STREAM)
    work = partial(leave_out, python=python)
    return Experiment(several, {ENROLLED: system}, width, n_test=MOST_JUDGED, work=work)


def _default(data_set: str, size: str) -> StreamClassifier:
    return StreamClassifier()


def person_of(data_set: str, name: str) -> str:
    """Whose a file is: in one set somebody has several."""
    return name.split("_")[0] if data_set == "gesture_phase" else name


def leave_out(experiment: Experiment, job: Job, python: str | None = None) -> Result:
    """Learn from the others, enrol, and judge; all systems and amounts in one result."""
    people, rate = experiment.people[job.data_set], WHOLE[job.data_set].rate
    width = experiment.width_of(job.data_set)
    out = person_of(job.data_set, job.person)
    parts, groups = [], []
    for name in people.names:
        if person_of(job.data_set, name) != out:
            stream = people.load(name)
            first = first_steps(stream.codes, round(LEARNED_SECONDS * rate))
            states = np.where(first, stream.states, stream.no_state)
            parts.append(stream.with_states(states, unlabelled=stream.no_state))
            groups.append(np.full(len(stream), person_of(job.data_set, name)))
    others = Stream.join(parts).with_groups(np.concatenate(groups))
    mine = people.load(job.person)
    stride = max(1, -(-int(others.labelled.sum()) // MOST_REFERENCES))
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of states that somebody does not have
        learned = StreamClassifier(width, stride=stride).fit(others)
        fitted = time.perf_counter()
        nothing = np.full(len(mine), mine.no_state)
        adapted = learned.adapt(mine.with_states(nothing, unlabelled=mine.no_state))
        without = _without_labels(learned, adapted, others, mine, stride, python)
        learned.stride = 1  # of the person left out every window is a reference
        found: dict[str, dict[str, Any]] = {}
        last: tuple[int, dict[str, Any]] | None = None
        for seconds in SECONDS:
            given = max(1, round(seconds * rate))
            split = split_stream(
                mine, STREAM, width=width, given=given, n_test=experiment.n_test, scale=False
            )
            n = len(split.streams.train)
            if last is None or last[0] != n:  # there may not be more to give
                last = n, _systems(learned, split, rate)
            found[str(seconds)] = last[1]
    middle = found[str(SECONDS[1])]
    return {
        **job._asdict(),
        "fingerprint": experiment.fingerprint(job),
        **middle["judged"],
        "n_train": int(others.labelled.sum()),
        "left_out": {str(state): why for state, why in split.left_out.items()},
        "without_labels": without,
        "units": learned.units_ is not None,
        "expected": _expected(learned),
        "expected_adapted": _expected(adapted),
        "fit_seconds": round(fitted - began, 4),
        "predict_seconds": round(time.perf_counter() - fitted, 4),
        "by_seconds": {s: {k: v for k, v in f.items() if k != "judged"} for s, f in found.items()},
    }


def _expected(model: StreamClassifier) -> dict[str, Any] | None:
    expected = model.committee_.expected
    return None if expected is None else expected._asdict()


def _without_labels(
    learned: StreamClassifier,
    adapted: StreamClassifier,
    others: Stream,
    mine: Stream,
    stride: int,
    python: str | None,
) -> dict[str, float]:
    """The balanced accuracy in per cent of each system on the whole stream of the person."""
    width = learned.width_
    every = sliding_windows(mine, width, labelled=False).start + width - 1
    known = every[np.isin(mine.states[every], learned.classes_)]
    codes = mine.codes[known]
    ends = np.sort(
        np.concatenate([evenly(known[codes == code], MOST_JUDGED) for code in np.unique(codes)])
    )
    true = mine.states[ends]

    def right(predicted: Any) -> float:
        return round(100 * float(balanced_accuracy_score(true, predicted)), 3)

    def of(model: StreamClassifier, follow: tuple[Units, float] | None = None) -> float:
        nearest = distances_at(model, mine, ends, follow)
        return right(model.classes_[nearest.argmin(axis=1)])

    found = {OURS: of(adapted)}
    found[OURS + FILTERED] = right(adapted.predict(mine, filtered=True)[ends])
    found[UNITS] = of(learned if learned.units_ is None else in_units(learned, Units.of(mine)))
    found[FOLLOWED] = of(learned, followed_units(learned))
    found[NOT_ADAPTED] = of(learned)
    if learned.units_ is not None:  # the rivals have them, too
        others, common = in_common_units(others)
        mine = mine.with_values(Units.of(mine).converted(mine.values, common))
    raw = learned_default(others, width)
    streams = SplitStreams(others, mine, ends)
    for name, system in beyond_systems(python).items():
        if name in RIVALS and (python is not None or aeon_method(name) is None):
            see = see_past if system.sees is Sees.PAST else see_features
            seen = see(streams, width, raw, stride)
            rival = system.make("", ALL).fit(seen.X, seen.y)
            found[name] = right(rival.predict(seen.test))
            if name == FOREST:
                there = np.full((len(mine), len(learned.classes_)), np.nan)
                steps = SplitStreams(others, mine, every)
                features = see(steps, width, raw, stride).test
                there[every] = rival.predict_proba(features)
                confidence, n_trees = learned.confidence_, len(rival.estimators_)
                proba, _ = confidence.filter(mine.gap_before, there, n_trees)
                best = rival.classes_[np.nan_to_num(proba[ends]).argmax(axis=1)]
                found[name + FILTERED] = right(best)
                trained = self_trained(rival, seen, learned, mine, every, features)
                found[name + SELF_TRAINED] = right(trained.predict(seen.test))
    return found


def self_trained(
    rival: Any, seen: Seen, learned: StreamClassifier, mine: Stream, every: Ints, features: Floats
) -> Any:
    """A rival that learns also from the windows that it is surest of, chosen as the default's.

    ``features`` (n, f) are of the windows that end at the steps ``every`` (n,) of the new person.
    """
    trained = rival
    for _ in range(PASSES):
        proba = np.full((len(mine), len(learned.classes_)), np.nan)
        proba[every] = trained.predict_proba(features)
        found = surest(learned, proba, mine)
        if found is None:
            break
        _, joining = found
        rows = np.searchsorted(every, joining.start + joining.width - 1)
        X, y = np.concatenate([seen.X, features[rows]]), np.concatenate([seen.y, joining.y])
        trained = clone(rival).fit(X, y)
    return trained


def _systems(learned: StreamClassifier, split: StreamSplit, rate: float) -> dict[str, Any]:
    """The balanced accuracy of each system, and what was given, in seconds a state."""
    train, test = split.streams.train, split.streams.test
    width = learned.width_
    models = {ENROLLED: learned.enrol(train)}
    for name, metric in ((ANEW, "auto"), (EUCLIDEAN, "euclidean")):
        models[name] = StreamClassifier(width, metric=metric).fit(train)
    judged = {}
    for name, model in models.items():
        nearest = distances_at(model, test, split.streams.ends)
        judged[name] = judge(split, model.classes_[nearest.argmin(axis=1)])
    given = np.bincount(train.codes[train.labelled]) / rate
    return {
        "accuracy": {name: judged[name]["accuracy"] for name in SYSTEMS},
        "given": round(float(given.mean()), 2),
        "judged": judged[ENROLLED],
    }


def distances_at(
    model: StreamClassifier,
    stream: Stream,
    ends: Any,
    follow: tuple[Units, float] | None = None,
) -> Floats:
    """The distance to each state of the windows that end at some steps, shape (n, S).

    With the units of the stream that are to be followed, those of a live session.
    """
    intake = Intake(model.features_, model.width_, follow=follow)
    values = np.asarray(stream.values, np.float64)
    features = intake.take(intake.start(), values, stream.gap_before).features
    found = [expert.distances_at(features, ends) for expert in model.experts_]
    return model.committee_.combine(found)
