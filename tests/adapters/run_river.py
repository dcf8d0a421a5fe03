"""What the classifier of river promises beyond river's own suite: ``python run_river.py``."""

import pickle
import sys

import numpy as np

from mlat.adapters.river import MLATClassifier
from mlat.base.errors import InputError
from mlat.synthetic import rotating_states

stream = rotating_states(random_state=5)
STEPS = [dict(zip("abcdefgh", row, strict=True)) for row in stream.values.tolist()]
LABELS = stream.states.tolist()


def learned(n, **settings):
    model = MLATClassifier(width=4, **settings)
    for x, y in zip(STEPS[:n], LABELS[:n], strict=True):
        model.learn_one(x, y)
    return model


def looking_changes_nothing():
    asked, silent = learned(0), learned(0)
    for t in range(60):
        for ahead in (t, t + 7, t):  # twice, and at another step between
            asked.predict_proba_one(STEPS[ahead])
        asked.learn_one(STEPS[t], LABELS[t])
        silent.learn_one(STEPS[t], LABELS[t])
    assert asked.predict_proba_one(STEPS[60]) == silent.predict_proba_one(STEPS[60])


def it_is_the_nearest_known_window():
    model = learned(60, learn_from=0, max_references=20)
    clf = model._live.model.clf
    values = (stream.values[:61] - clf.mean_) / clf.scale_
    states = sorted(set(LABELS[:60]))
    room = 20 // len(states)
    ends = [t for s in states for t in [t for t in range(60) if LABELS[t] == s][-room:]]
    distance = {t: np.linalg.norm(values[t - 3 : t + 1] - values[57:61]) for t in ends}
    assert model.predict_one(STEPS[60]) == LABELS[min(distance, key=distance.get)]
    assert sorted(model._ends.tolist()) == sorted(t + 1 for t in ends)


def copies_go_on_alike():
    model = learned(250, learn_from=100, learn_until=200)
    assert model._metric is not None
    other = pickle.loads(pickle.dumps(model))
    for t in range(250, 270):
        assert model.predict_proba_one(STEPS[t]) == other.predict_proba_one(STEPS[t])
        model.learn_one(STEPS[t], LABELS[t])
        other.learn_one(STEPS[t], LABELS[t])


def a_late_label_is_for_its_own_step():
    """With a delay of 5, what is known at a step is what is known without one 5 steps before."""
    late = MLATClassifier(width=4, learn_from=0, delay=6)
    said = []
    for t in range(120):
        said.append(late.predict_one(STEPS[t]))
        if t >= 5:
            late.learn_one(STEPS[t - 5], LABELS[t - 5])
    at_once = MLATClassifier(width=4, learn_from=0)
    for t in range(119):
        at_once.learn_one(STEPS[t], LABELS[t] if t < 114 else None)
    assert late._ends.tolist()[:-1] == at_once._ends.tolist()
    assert said[119] == at_once.predict_one(STEPS[119])


def a_label_may_be_anything():
    model = MLATClassifier(width=1)
    for label in (True, False, "x", ("a", 1), 7):
        model.learn_one({"v": hash(label) % 1000}, label)
    for label in (True, False, "x", ("a", 1), 7):
        assert model.predict_one({"v": hash(label) % 1000}) == label


def odd_values_do_no_harm():
    model = learned(30)
    for value in (float("nan"), float("inf"), 1e300, -1e99, 0.0, None):
        model.learn_one({"a": value}, "odd")
        assert model.predict_one({"b": value}) is not None


def a_text_is_refused_and_changes_nothing():
    model, untouched = learned(30), learned(30)
    for ask in (model.learn_one, model.predict_one):
        said = ""
        try:
            ask({**STEPS[30], "colour": "red"})
        except ValueError as error:
            said = str(error)
        assert "'colour' is 'red'" in said
    assert model.predict_proba_one(STEPS[30]) == untouched.predict_proba_one(STEPS[30])


def what_names_no_state_is_refused_and_changes_nothing():
    room = len(set(LABELS[:30]))
    model, untouched = (learned(30, max_references=room) for _ in range(2))
    for step, label in (
        *((STEPS[30], label) for label in ([1], {}, ("a", [1]), np.ones(2), float("nan"))),
        (STEPS[30], "one more"),
    ):
        try:
            model.learn_one(step, label)
        except InputError:
            continue
        raise AssertionError(f"{label!r} was taken")
    assert (model._n_steps, model._n_learned) == (30, 30)
    for t in range(30, 40):
        assert model.predict_proba_one(STEPS[t]) == untouched.predict_proba_one(STEPS[t])
        model.learn_one(STEPS[t], LABELS[29])
        untouched.learn_one(STEPS[t], LABELS[29])


def a_first_step_of_nothing_is_refused():
    model = learned(0)
    try:
        model.learn_one({}, "a")
    except InputError:
        model.learn_one(STEPS[0], "a")
        assert model.predict_one(STEPS[0]) == "a"
    else:
        raise AssertionError("a step without features was taken")


if __name__ == "__main__":
    tests = [looking_changes_nothing, it_is_the_nearest_known_window, copies_go_on_alike]
    tests += [a_late_label_is_for_its_own_step, a_label_may_be_anything, odd_values_do_no_harm]
    tests += [a_text_is_refused_and_changes_nothing, a_first_step_of_nothing_is_refused]
    tests += [what_names_no_state_is_refused_and_changes_nothing]
    for test in tests:
        test()
    print(f"{len(tests)} promises kept")
    sys.exit()
