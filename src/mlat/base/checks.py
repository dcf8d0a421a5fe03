"""Array types, short texts of objects that hold arrays, and checks of numeric parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from inspect import signature
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from .errors import InputError

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

SMALLEST = float(np.nextafter(0, 1))  # a lower bound for what must be above 0
BELOW_1 = float(np.nextafter(1, 0))  # an upper bound for what must be less than 1
LONGEST = 60  # characters of the text of one field


class ShortRepr:
    """A dataclass (``repr=False``) whose text is one line: arrays are shown by their shape.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(repr=False)
    ... class Line(ShortRepr):
    ...     name: str
    ...     values: np.ndarray
    >>> Line("sine", np.zeros((3, 2)))
    Line(name='sine', values=array of shape (3, 2))
    """

    __slots__ = ()

    def __repr__(self) -> str:
        held = [field for field in fields(self) if field.repr]  # type: ignore[arg-type]
        shown = (f"{field.name}={_short(getattr(self, field.name))}" for field in held)
        return f"{type(self).__name__}({', '.join(shown)})"


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.ndim:
        return f"array of shape {value.shape}"
    if is_dataclass(value) and not isinstance(value, type):
        return f"{type(value).__name__}(…)"  # has a text of its own
    text = " ".join(repr(value).split())
    if len(text) <= LONGEST:
        return text
    if isinstance(value, (list, tuple, dict, set)):
        return f"{type(value).__name__} of {len(value)}"
    return f"{text[: LONGEST - 1]}…"


def is_whole(value: Any) -> bool:
    """Whether this is a whole number of Python or numpy, and not a boolean or a length of time."""
    return isinstance(value, Integral) and not isinstance(value, bool | np.timedelta64)


def is_real(value: Any) -> bool:
    """Whether this is a real number of Python or numpy, and not a boolean."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_text(value: str, what: str) -> str:
    """Return a text that can be written as UTF-8.

    Parameters
    ----------
    what : str
        What the text is, for the message.

    Raises
    ------
    InputError
        If it holds half of a surrogate pair, which no file or page can hold.
    """
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{what} {value!r} cannot be written as UTF-8 (character {error.start}); choose another"
        ) from None
    return value


def check_whole(value: Any, name: str, low: int = 1, *, or_else: str = "", unit: str = "") -> int:
    """Return a whole number of at least ``low``.

    Parameters
    ----------
    value : object
    name : str
        The parameter's name, for the message.
    low : int
    or_else : str
        What else is allowed, for the message.
    unit : str
        What is counted, for the message.

    Raises
    ------
    InputError
    """
    if not is_whole(value) or value < low:
        kind = f"of {unit}, at least {low}" if unit else f"of at least {low}"
        raise InputError(f"{name} must be a whole number {kind}{or_else}, not {value!r}")
    return int(value)


def check_real(
    value: Any, name: str, low: float = -np.inf, high: float = np.inf, *, or_else: str = ""
) -> float:
    """Return a finite number from ``low`` to ``high``.

    Raises
    ------
    InputError
    """
    if not is_real(value) or not low <= float(value) <= high or np.isinf(float(value)):
        if high == BELOW_1:
            kind = f"a number from {low:g} to less than 1"
        elif np.isfinite(high):
            kind = f"a number from {low:g} to {high:g}"
        elif low == SMALLEST:
            kind = "a number above 0"
        else:
            kind = f"a number of at least {low:g}" if np.isfinite(low) else "a finite number"
        raise InputError(f"{name} must be {kind}{or_else}, not {value!r}")
    return float(value)


@dataclass(frozen=True)
class Limits:
    """The least and the greatest value of a number, in the annotation of a parameter."""

    low: float
    high: float = np.inf


@cache
def annotations_of(owner: Callable[..., Any]) -> dict[str, Any]:
    """What may be given for each parameter of a dataclass or function, with limits and choices."""
    found = get_type_hints(owner, include_extras=True)
    return {name: found[name] for name in signature(owner).parameters if name in found}


def alternatives(annotation: Any) -> tuple[Any, ...]:
    """The parts of a union, or the annotation itself."""
    in_union = get_origin(annotation) in (Union, UnionType)
    return get_args(annotation) if in_union else (annotation,)


def choices(annotation: Any) -> list[str]:
    """The words among what may be given."""
    literals = [part for part in alternatives(annotation) if get_origin(part) is Literal]
    return [word for part in literals for word in get_args(part)]


def check_parameter(value: Any, name: str, annotation: Any, *, none: str = "None") -> Any:
    """Return the value of a parameter, if it is one that the annotation has.

    Numbers are checked by their :class:`Limits`, words by their :class:`~typing.Literal`.

    Parameters
    ----------
    value : object
    name : str
        For the message.
    annotation : type
    none : str
        What None is called in the message.

    Raises
    ------
    InputError
    """
    parts, words = alternatives(annotation), choices(annotation)
    if (value is None and NoneType in parts) or (isinstance(value, str) and value in words):
        return value
    if isinstance(value, (bool, np.bool_)) and bool in parts:
        return value
    others = [f'"{word}"' for word in words] + ["True", "False"] * (bool in parts)
    others += [none] * (NoneType in parts and bool(none))
    for part in parts:
        if get_origin(part) is Annotated:
            number, limits = get_args(part)
            or_else = "".join(f" or {other}" for other in others)
            if number is int:
                return check_whole(value, name, int(limits.low), or_else=or_else)
            return check_real(value, name, limits.low, limits.high, or_else=or_else)
    if others and not any(part in parts for part in (Any, str, float)):
        raise InputError(f"{name} must be {joined_by_or(others)}, not {value!r}")
    return value


def check_parameters(owner: Any) -> None:
    """Check the parameters of a dataclass, which its fields have annotations for.

    Raises
    ------
    InputError
    """
    kind: Callable[..., Any] = type(owner)
    for name, annotation in annotations_of(kind).items():
        check_parameter(getattr(owner, name), name, annotation)


def joined_by_or(words: Sequence[str]) -> str:
    """Some words as one text, with "or" before the last."""
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


def finite(value: Any) -> float | None:
    """A number that JSON can hold: None for NaN and infinities."""
    return float(value) if math.isfinite(value) else None
