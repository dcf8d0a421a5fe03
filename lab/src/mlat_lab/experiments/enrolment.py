"""Leaving one person out: the model of the others, enrolled with a few seconds of each state.

Of each of the others the first half minute of every state is learned from. Of the person left out
the first seconds of every state are given, at most 35 % of them, and the rest is the test stream
with every switch, as in the table of whole streams (:mod:`.stream_protocol`).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from mlat.base.checks import Floats
from mlat.base.errors import InputError
from mlat.classifier.classifier import StreamClassifier
from mlat.stream.stream import Stream

from .experiment import ALL, Experiment, Sees, System
from .journal import Job, Result
from .people import WHOLE, People
from .runner import judge
from .stream_protocol import STREAM, StreamSplit, first_steps, split_stream

# Sets of whole recordings of several people with the same channels and states. The leads and the
# rhythms of the ECG differ from record to record, and there is one room.
SETS = ("emg_gestures", "phone_watch", "wisdm_watch", "gesture_phase", "scma")
SECONDS = (5, 10, 30)  # a state, of the person left out
LEARNED_SECONDS = 30  # a state, of each of the others
MOST_REFERENCES = 4000  # of the model of the others, evenly spaced
MOST_JUDGED = 300  # steps of each state

ENROLLED, ANEW, EUCLIDEAN, AS_IT_IS = "enrolled", "learned anew", "Euclidean", "not enrolled"
SYSTEMS = (ENROLLED, ANEW, EUCLIDEAN, AS_IT_IS)


def enrol_experiment(people: Mapping[str, People], width: int = 10) -> Experiment:
    """The experiment of people by data set; each job is somebody left out."""
    settings = {"enrol": [SECONDS, LEARNED_SECONDS, MOST_REFERENCES]}
    several = {
        name: replace(of_set, options={**of_set.options, **settings, "people": of_set.names})
        for name, of_set in people.items()
        if len({person_of(name, one) for one in of_set.names}) > 1
    }
    if not several:
        raise InputError("nobody is left to learn from: name two people of a set, or leave it out")
    system = System(ENROLLED, _default, (ALL,), sees=Sees.STREAM)
    return Experiment(several, {ENROLLED: system}, width, n_test=MOST_JUDGED, work=leave_out)


def _default(data_set: str, size: str) -> StreamClassifier:
    return StreamClassifier()


def person_of(data_set: str, name: str) -> str:
    """Whose a file is: in one set somebody has several."""
    return name.split("_")[0] if data_set == "gesture_phase" else name


def leave_out(experiment: Experiment, job: Job) -> Result:
    """Learn from the others, enrol, and judge; all systems and amounts in one result."""
    people, rate = experiment.people[job.data_set], WHOLE[job.data_set].rate
    width = experiment.width_of(job.data_set)
    out = person_of(job.data_set, job.person)
    parts = []
    for name in people.names:
        if person_of(job.data_set, name) != out:
            stream = people.load(name)
            first = first_steps(stream.codes, round(LEARNED_SECONDS * rate))
            states = np.where(first, stream.states, stream.no_state)
            parts.append(stream.with_states(states, unlabelled=stream.no_state))
    others, mine = Stream.join(parts), people.load(job.person)
    stride = max(1, -(-int(others.labelled.sum()) // MOST_REFERENCES))
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of states that somebody does not have
        learned = StreamClassifier(width, stride=stride).fit(others)
        learned.stride = 1  # of the person left out every window is a reference
        fitted = time.perf_counter()
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
        "fit_seconds": round(fitted - began, 4),
        "predict_seconds": round(time.perf_counter() - fitted, 4),
        "by_seconds": {s: {k: v for k, v in f.items() if k != "judged"} for s, f in found.items()},
    }


def _systems(learned: StreamClassifier, split: StreamSplit, rate: float) -> dict[str, Any]:
    """The balanced accuracy of each system, and what was given, in seconds a state."""
    train, test = split.streams.train, split.streams.test
    width = learned.width_
    models = {ENROLLED: learned.enrol(train), AS_IT_IS: learned}
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


def distances_at(model: StreamClassifier, stream: Stream, ends: Any) -> Floats:
    """The distance to each state of the windows that end at some steps, shape (n, S)."""
    features = model.features_(stream)
    found = [expert.distances_at(features, ends) for expert in model.experts_]
    return model.committee_.combine(found)
