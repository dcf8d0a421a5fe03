"""Options of commands, from the parameters of the class or function that gets them.

A parameter's name, limits, choices, default and words are said once: in its signature and its
numpydoc docstring. What was not given is not passed on, so that the parameter's own default holds.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import wraps
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from ..base.checks import alternatives, annotations_of, check_parameter, choices, joined_by_or
from ..base.errors import InputError

# The groups of options in the help of every command.
PANELS = {
    "Data": "source label labels recording group time max_gap channels unlabelled sep decimal fill "
    "rate between missing hold order_by reorder media offset changed seed step",
    "Learning": "width metric reach stride max_references unknown_rate model",
    "Output": "out html as_json form pictures picture confidence filtered journal serve token "
    "no_browser against expert c onnx wasm target bits max_kb max_us prefix on report version help",
    "For experts": "lift whiten n_neighbors solver n_targets target_gap shrinkage device far dead "
    "adapt search fsync again snapshot_every segment_size keep stream every fixed spare "
    "new_states incremental",
}
_PANEL_OF = {name: panel for panel, names in PANELS.items() for name in names.split()}

# Of many commands; those of columns, which need what reads files, are in `columns`.
ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A file that mlat fit wrote.", show_default=False)
]
Label = Annotated[
    str | None, typer.Option(metavar="COL", help="Column of states.", show_default=False)
]
Filtered = Annotated[
    bool,
    typer.Option(
        "--filtered", help="Filter the states over time: steadier, and later at a switch."
    ),
]

TrueStates = Annotated[
    str | None, typer.Option(metavar="COL", help="Column of true states, to compare with.")
]
Token = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        help="Token that the page needs; required beyond this machine (or set MLAT_TOKEN).",
    ),
]

LETTERS = {int: "N", float: "X", str: "TEXT"}
_ENTRY = re.compile(r"^(\w[\w, ]*?)(?: : (.*))?\n((?:(?: {4}.*)?\n)+)", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.])\s+(?=[A-Z0-9\"`])")


class Seconds(float):
    """A length of time, where a number of steps is wanted."""

    def steps(self, step: float | None, flag: str) -> int:
        """How many steps of so many seconds they are."""
        if step is None:
            raise InputError(
                f"{flag} {self:g}s: nothing says how long a step is; name the column of time "
                "(--time), say how many steps there are a second (--rate), or give steps"
            )
        if self < step:
            raise InputError(
                f"{flag} {self:g}s is shorter than a step, which is {step:g} s if the time counts "
                "seconds; give steps"
            )
        return round(self / step)


def steps_or_seconds(text: str, flag: str) -> int | Seconds:
    """A number of steps, such as 5, or of seconds, such as 0.1s."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s?)", text.strip(), re.ASCII)
    amount = 0.0 if found is None else float(found[1])
    if found is None or not amount or not (found[2] or amount.is_integer()):
        raise InputError(f"{flag} must be steps or seconds, such as 5 or 0.1s, not {text!r}")
    return Seconds(amount) if found[2] else int(amount)


@dataclass(frozen=True)
class Options:
    """Options that follow from parameters.

    Parameters
    ----------
    owner : class or function
        Whose parameters they are.
    names : str
        The names of the parameters, with spaces between them.
    metavars : mapping of str to str
        What stands for a value in the help, where a letter is not enough.
    several : sequence of str
        Those that take a list: an option that is repeated, and may hold names as ``a,b,c`` if its
        metavar has a comma.
    words : mapping of str to str
        Help that differs from the docstring's: the command does something else by default.
    notes : mapping of str to str
        What the help says beside that.
    timed : sequence of str
        Numbers of steps that may be given as seconds, such as 1s: the command gets `Seconds`.
    make : callable
        What the command gets: this, called with the dict of what was given.
    """

    owner: Callable[..., Any]
    names: str
    metavars: Mapping[str, str] = field(default_factory=dict)
    several: Sequence[str] = ()
    words: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    timed: Sequence[str] = ()
    make: Callable[[dict[str, Any]], Any] = dict

    def parameters(self) -> list[inspect.Parameter]:
        """The options as parameters of a command, as typer takes them."""
        return [self._parameter(name) for name in self.names.split()]

    def take(self, given: dict[str, Any]) -> Any:
        """What was given for them, taken out of what typer found."""
        found = {name: given.pop(name) for name in self.names.split()}
        given_ones = {n: v for n, v in found.items() if not (v is None or v == [])}
        return self.make({name: self._parse(name, value) for name, value in given_ones.items()})

    def _parameter(self, name: str) -> inspect.Parameter:
        annotation, default = annotations_of(self.owner)[name], self._default(name)
        said = self.words.get(name) or in_flags(words_of(self.owner)[name], self._all_names())
        said = re.sub(r'"(\w+)"', r"\1", said).removesuffix(".")
        kind = list[str] if name in self.several else _kind(name, annotation, default)
        if name in self.timed:
            kind, said = str, f"{said}; or seconds, such as 1s"
        is_flag, is_choice = kind is bool, isinstance(kind, type) and issubclass(kind, StrEnum)
        if is_choice and not all(word in said for word in choices(annotation)):
            # Not beside the flag, where they would leave little room for words.
            words = [f"{w} (default)" if w == default else w for w in choices(annotation)]
            said += f": {joined_by_or(words)}"
        elif default is not None and not is_flag and "default" not in said.lower():
            said += f"; default {_short(default)}"
        if name in self.several and not self._is_split(name):
            said += "; repeatable"
        note = f" {self.notes[name]}" if name in self.notes else ""
        metavar = self.metavars.get(name) or LETTERS.get(kind, "WORD")
        option = typer.Option(
            flag_of(name), metavar=metavar, help=f"{said}.{note}", show_default=False
        )
        return inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[kind | None, option],
        )

    def _parse(self, name: str, value: Any) -> Any:
        annotation, default = annotations_of(self.owner)[name], self._default(name)
        if name in self.several:
            return split_names(value, flag_of(name)) if self._is_split(name) else value or None
        can_be_off = NoneType in alternatives(annotation) and default is not None
        if name in self.timed:
            value = steps_or_seconds(value, flag_of(name))
            if isinstance(value, Seconds):
                return value
        if isinstance(value, StrEnum):
            value = value.value
        elif isinstance(value, str) and _number(annotation) and value not in choices(annotation):
            if can_be_off and value == "off":
                return None
            value = _as_number(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        none = "off" if can_be_off else ""
        return check_parameter(value, flag_of(name), annotation, none=none)

    def _is_split(self, name: str) -> bool:
        return "," in self.metavars[name]

    def _default(self, name: str) -> Any:
        return inspect.signature(self.owner).parameters[name].default

    def _all_names(self) -> list[str]:
        return list(annotations_of(self.owner))


def with_options(**groups: Options) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command options instead of its parameters of these names; it gets what they make."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        command = described(command)
        hints = get_type_hints(command, include_extras=True)
        parameters = [
            # Typer passes everything by name.
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name])
            for name, parameter in inspect.signature(command).parameters.items()
            if name not in groups
        ]
        names = [name for group in groups.values() for name in group.names.split()]
        names += [name for name in ("label", "labels") if name in hints]
        parameters += [each for group in groups.values() for each in group.parameters()]

        @wraps(command)
        def wrapped(**given: Any) -> None:
            taken = {name: group.take(given) for name, group in groups.items()}
            try:
                command(**taken, **given)
            except InputError as error:
                raise type(error)(in_flags(str(error), names)) from None

        wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        wrapped.__annotations__ = {p.name: p.annotation for p in parameters}
        return wrapped

    return decorate


def described(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose docstring has words for options: ``name : METAVAR``, and what it is for.

    They are the option's help, which the help of the command leaves out.
    """
    summary, _, entries = (inspect.getdoc(command) or "").partition("\n\nParameters\n----------\n")
    hints, parameters = get_type_hints(command), inspect.signature(command).parameters
    for name, metavar, text in _ENTRY.findall(f"{entries}\n"):
        default = parameters[name].default
        one_flag = [] if default is True else ["-o", "--out"] if name == "out" else [flag_of(name)]
        words = typer.Option(
            *one_flag,
            metavar=metavar or None,
            help=" ".join(text.split()),
            show_default=default not in (None, inspect.Parameter.empty),
        )
        command.__annotations__[name] = Annotated[hints[name], words]
    command.__doc__ = summary
    return command


def in_panels(command: Any) -> Any:
    """The command with its options in groups."""
    for parameter in command.params:
        if parameter.param_type_name == "option":
            parameter.rich_help_panel = _PANEL_OF[parameter.name]
    order = [None, *PANELS]
    command.params.sort(key=lambda one: order.index(getattr(one, "rich_help_panel", None)))
    return command


def flag_of(name: str) -> str:
    """The flag of a parameter."""
    return f"--{name.replace('_', '-')}"


def words_of(owner: Callable[..., Any]) -> dict[str, str]:
    """The first sentence about each parameter in a docstring, and one about its default."""
    sections = re.split(r"^(\w+)\n-{3,}\n", inspect.getdoc(owner) or "", flags=re.MULTILINE)
    words: dict[str, str] = {}
    for names, _, text in _ENTRY.findall(sections[sections.index("Parameters") + 1] + "\n"):
        first, *more = _SENTENCE.split(" ".join(text.split()))
        said = " ".join([first, *(sentence for sentence in more if sentence.startswith("Default"))])
        words |= dict.fromkeys(names.split(", "), said)
    return words


def in_flags(text: str, names: Sequence[str]) -> str:
    """A text about parameters as one about flags; without the marks of a docstring."""
    known = "|".join(names)
    text = re.sub(rf'`*\b({known})="(\w+)"`*', lambda m: f"{flag_of(m[1])} {m[2]}", text)
    text = re.sub(rf"``({known})``|^({known})(?= )", lambda m: flag_of(m[1] or m[2]), text)
    text = re.sub(
        rf"\(({known})(=?)([^()\s]*)\)", lambda m: f"({flag_of(m[1])}{m[2] and ' '}{m[3]})", text
    )
    return re.sub(r":\w+:`~?(?:\w+\.)*(\w+)`|``(.*?)``", lambda m: m[1] or m[2], text)


def split_names(given: Sequence[str], option: str) -> list[str]:
    """Names from ``a,b`` or from an option that is repeated."""
    names = [name.strip() for part in given for name in part.split(",")]
    if "" in names:
        raise InputError(f"{option} {','.join(given)} has an empty name; write them as a,b,c")
    return names


def _kind(name: str, annotation: Any, default: Any) -> Any:
    """The type of an option's value, for typer."""
    words, number = choices(annotation), _number(annotation)
    if words and not number:
        return StrEnum(name, {word: word for word in words})
    can_be_off = NoneType in alternatives(annotation) and default is not None
    if number:
        return str if words or can_be_off else number
    return bool if annotation is bool else str


def _number(annotation: Any) -> Any:
    for part in alternatives(annotation):
        kind = get_args(part)[0] if get_origin(part) is Annotated else part
        if kind in (int, float):
            return kind
    return None


def _as_number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def _short(default: Any) -> str:
    if isinstance(default, str):
        return default if default.isalpha() else f'"{default}"'
    return f"{default:g}"
