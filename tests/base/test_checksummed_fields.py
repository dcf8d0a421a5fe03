"""Kinds of fields: what they let pass, and where they say that something is wrong."""

import contextlib
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlat.base.checksummed import (
    ANYTHING,
    COUNT,
    FLAG,
    MEASURED,
    NAME,
    NOTHING,
    SIZE,
    TEXT,
    chosen_by,
    either,
    listed,
    mapped,
    number,
    one_of,
    optional,
    record,
    row,
    whole,
)
from mlat.base.errors import InputError

ABC = one_of("a", 3)
POINT = record({"x": number(0, 1)}, may={"name": NAME})
CASES = [  # kind, what passes, what does not
    (whole(1, 3), [1, 3], [0, 4, 1.0, True, "1", None, 10**400]),
    (whole(), [0, -(1 << 62)], [1 << 63]),
    (number(0, 1), [0, 0.5, 1], [-1e-300, 2, math.nan, math.inf, True, "0", 10**400, [0]]),
    (number(), [1e308, -5], [math.inf, -math.inf, math.nan, 10**30]),
    (MEASURED, [math.nan, math.inf, 3], [10**400, "3", None, True]),
    (ABC, ["a", 3], ["b", 3.5, True, None, ["a"], {}]),
    (one_of(1), [1], [True, 1.5]),
    (TEXT, ["", "é"], ["\ud800", b"", 3, None]),
    (NAME, ["a"], ["", "a\0", "\udfff"]),
    (FLAG, [True, False], [0, 1, None, "true"]),
    (NOTHING, [None], [0, False, ""]),
    (COUNT, [0, 5], [-1]),
    (SIZE, [1, 1 << 40], [0, 1 << 41]),
    (ANYTHING, [None, [], 10**400], []),
    (optional(COUNT), [None, 3], [-1, "3"]),
    (either(TEXT, COUNT), ["a", 3], [-1, None]),
    (listed(COUNT, 1, 2), [[1], [1, 2]], [[], [1, 2, 3], [-1], "a", {}, (1,)]),
    (listed(TEXT, different=True), [["a", "b"], []], [["a", "a"]]),
    (row(COUNT, TEXT), [[1, "a"]], [[1], [1, "a", 2], ["a", 1], {}]),
    (mapped(NAME, COUNT, 1), [{"a": 1}], [{}, {"": 1}, {"a": -1}, []]),
    (POINT, [{"x": 0}, {"x": 1, "name": "a"}], [{}, {"x": 2}, {"x": 0, "y": 0}, [], None]),
    (
        chosen_by("kind", {"p": record({"kind": TEXT}), "q": record({"kind": TEXT, "n": COUNT})}),
        [{"kind": "p"}, {"kind": "q", "n": 1}],
        [{}, {"kind": "r"}, {"kind": ["p"]}, {"kind": "p", "n": 1}, {"kind": "q"}, 3],
    ),
]


@pytest.mark.parametrize(("kind", "good", "bad"), CASES)
def test_what_passes_and_what_does_not(kind, good, bad):
    for value in good:
        kind(value, "x")
    for value in bad:
        with pytest.raises(InputError, match=r"^x"):
            kind(value, "x")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"points": [{"x": 0}, {"x": 7}]}, r"f is damaged: points\[1\]\.x is 7, not a number from"),
        ({"points": [{}]}, r"f is damaged: points\[0\]\.x is missing"),
        ({"points": 3}, "f is damaged: points is 3, not a list"),
        ({}, "f is damaged: points is missing"),
        ({"points": [], "evil": 1}, "f is damaged: 'evil' is not known"),
        ([], "f is damaged is a list, not an object"),
        ({"points": ["y" * 10**6]}, r"points\[0\] is 'y{60}', not an object"),
    ],
)
def test_it_says_where(value, message):
    with pytest.raises(InputError, match=message) as caught:
        record({"points": listed(POINT)})(value, "f is damaged")
    assert len(str(caught.value)) < 200


leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
documents = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
)


@given(documents, st.sampled_from([kind for kind, _, _ in CASES]))
def test_no_document_makes_a_kind_crash(document, kind):
    with contextlib.suppress(InputError):
        kind(json.loads(json.dumps(document)), "x")
