"""The pages of the site that follow from the code: the reference of the library, that of the
commands, and the pages of the repository's root.

They are written where Sphinx looks for them, and git ignores them.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import typer
from typer.main import get_command

from mlat.base.errors import MissingPackageError
from mlat.cli import app
from mlat_lab.cli.bench import benchmark_command
from mlat_lab.cli.commands import app as laboratory

DOCS = Path(__file__).parent
ROOT = DOCS.parent
EXAMPLES = ROOT / "examples" / "gallery"

WRITTEN = "<!-- Written by docs/generate.py -->"


class Module(NamedTuple):
    """A module of the reference, under the name that people type, and what it is for."""

    name: str
    purpose: str
    names: tuple[str, ...] = ()  # else those of ``__all__``
    elsewhere: tuple[str, ...] = ()  # of these, what another page has
    needs: str = ""  # a package that may be missing: then its classes are those of ``names``


REFERENCE = {
    "From a stream to its states": [
        Module("mlat", "The names that most programs need.", elsewhere=("InputError",)),
        Module("mlat.base.errors", "What is raised, and when.", ("MlatError", "InputError",
               "DiskError", "WorkerError", "ServiceError", "MissingPackageError")),
        Module("mlat.synthetic", "Streams to try things on.", ("rotating_states",)),
        Module("mlat.metric", "Phase II in pieces: the problem and its solvers.",
               elsewhere=("MLAT", "LMNN")),
        Module("mlat.metric.toeplitz", "Algebra of block-Toeplitz matrices."),
    ],
    "Around it": [
        Module("mlat.model_selection", "Splitters and scores for scikit-learn that leak nothing."),
        Module("mlat.explain", "Why a window has its state."),
        Module("mlat.plots", "Pictures."),
        Module("mlat.live", "A stream as it arrives."),
        Module("mlat.label", "Spans of a recording with their states; which one to label next."),
        Module("mlat.export", "A model that leaves Python."),
    ],
    "In other packages": [
        Module(f"mlat.adapters.{package}", purpose, names, needs=package)
        for package, purpose, names in (
            ("aeon", "Over collections of aeon.", ("MLATClassifier", "MLATTransformer")),
            ("sktime", "Over panels of sktime.", ("MLATClassifier", "MLATTransformer")),
            ("river", "Step by step, as river learns.", ("MLATClassifier",)),
        )
    ],
    "The lab": [
        Module("mlat_lab.datasets", "The data sets of the reports."),
        Module("mlat_lab.rivals", "The distances that MLAT is compared with."),
    ],
}  # fmt: skip

# Pages of the root that the site shows too.
OF_ROOT = {
    "ARCHITECTURE.md": "develop/architecture.md",
    "CONTRIBUTING.md": "develop/contributing.md",
    "CODE_OF_CONDUCT.md": "develop/conduct.md",
    "SECURITY.md": "develop/security.md",
    "CHANGELOG.md": "develop/changelog.md",
}
_LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[\w-]+)?\))")


def write_pages() -> None:
    """Write all of them; one that is as it was keeps its time, so Sphinx does not read it again."""
    pages = dict(_reference()) | dict(_commands()) | dict(_of_root())
    for folder in ("api", "command-line"):
        for old in (DOCS / folder).glob("*.md"):
            name = f"{folder}/{old.name}"
            if name not in pages and old.read_text(encoding="utf-8").startswith(WRITTEN):
                old.unlink()
    for name, text in pages.items():
        path = DOCS / name
        path.parent.mkdir(exist_ok=True)
        text = f"{WRITTEN}\n{text}"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


# The library


def public_names(module: Module) -> list[str]:
    """The names of a module's page."""
    if module.needs:
        return list(module.names)
    found = importlib.import_module(module.name)
    names = module.names or getattr(found, "__all__", None)
    if names is None:
        names = [
            name
            for name, thing in vars(found).items()
            if not name.startswith("_")
            and inspect.isfunction(thing)
            and thing.__module__ == found.__name__
        ]
    return [
        name
        for name in sorted(names, key=lambda name: _place(getattr(found, name)))
        if name not in module.elsewhere and not inspect.ismodule(getattr(found, name))
    ]


# The rooms along the way of the data, as far as names of one page come from several of them.
ROOMS = ("stream", "features", "metric", "classifier")


def _place(thing: Any) -> int:
    room = getattr(thing, "__module__", "").split(".")[1:2]
    return ROOMS.index(room[0]) if room and room[0] in ROOMS else len(ROOMS)


def _reference() -> Iterator[tuple[str, str]]:
    lines = ["# API", "", "Every public name, from its docstring.", ""]
    for heading, modules in REFERENCE.items():
        lines += [f"## {heading}", "", "| module | what it is for |", "|---|---|"]
        lines += [f"| [`{m.name}`]({m.name}.md) | {m.purpose} |" for m in modules]
        lines += ["", "```{toctree}", ":hidden:", "", *(m.name for m in modules), "```", ""]
        for module in modules:
            classes = list(_classes(module))
            yield f"api/{module.name}.md", _module_page(module, classes)
            for name in classes:
                yield f"api/{module.name}.{name}.md", _class_page(module.name, name)
    yield "api/index.md", "\n".join(lines)


def _classes(module: Module) -> Iterator[str]:
    """The names that have a page of their own."""
    if module.needs:
        yield from module.names
        return
    found = importlib.import_module(module.name)
    for name in public_names(module):
        thing = getattr(found, name)
        if inspect.isclass(thing) and not issubclass(thing, BaseException):
            yield name


def _module_page(module: Module, classes: list[str]) -> str:
    lines = [f"# {module.name}", "", module.purpose, ""]
    if classes:
        lines += ["| class | |", "|---|---|"]
        lines += [f"| [`{n}`]({module.name}.{n}.md) | {_about(module, n)} |" for n in classes]
        pages = (f"{module.name}.{name}" for name in classes)
        lines += ["", "```{toctree}", ":hidden:", "", *pages, "```", ""]
    rest = [name for name in public_names(module) if name not in classes]
    if not rest:
        return "\n".join(lines)
    found = importlib.import_module(module.name)
    lines += ["```{eval-rst}", f".. currentmodule:: {module.name}"]
    for name in rest:
        thing = getattr(found, name)
        lines += ["", f".. {_directive(thing)}:: {name}"]
        lines += ["   :members:"] if inspect.isclass(thing) else []
    return "\n".join([*lines, "```", ""])


def _about(module: Module, name: str) -> str:
    """The first sentence of a class's docstring."""
    if module.needs:
        return ""
    words = inspect.getdoc(getattr(importlib.import_module(module.name), name)) or ""
    first = re.sub(r":\w+:`~?(?:\w+\.)*(\w+)`", r"`\1`", " ".join(words.split("\n\n")[0].split()))
    return first.replace("``", "`").replace("|", "\\|")


def _class_page(module: str, name: str) -> str:
    lines = [f"# {name}", "", "```{eval-rst}", f".. currentmodule:: {module}", ""]
    lines += [f".. autoclass:: {name}", "   :members:", "```", ""]
    used = re.compile(rf"\b{name}\b")
    if any(used.search(one.read_text(encoding="utf-8")) for one in EXAMPLES.glob("*.py")):
        lines += [
            "## Examples",
            "",
            "```{eval-rst}",
            f".. minigallery:: {module}.{name}",
            "```",
            "",
        ]
    return "\n".join(lines)


def _directive(thing: Any) -> str:
    if inspect.isclass(thing):
        return "autoexception" if issubclass(thing, BaseException) else "autoclass"
    return "autofunction" if inspect.isroutine(thing) else "data"


# The commands


def _commands() -> Iterator[tuple[str, str]]:
    names, lines_of_all = [], []
    for program, commands in (("mlat", app), ("mlat-lab", laboratory)):
        for name, each in get_command(commands).commands.items():  # type: ignore[attr-defined]
            if each.hidden:
                continue
            typed = f"{program} {name}"
            names.append(name)
            lines_of_all.append(f"- [`{typed}`]({name}.md): {_first_line(each)}")
            lines = [f"# {typed}", ""]
            for path, one in _leaves(typed, each):
                lines += [f"## {path}", ""] if path != typed else []
                lines += _command_lines(path, one)
            yield f"command-line/{name}.md", "\n".join(lines)
    yield (
        "command-line/all.md",
        "\n".join(
            [
                "# All commands",
                "",
                *lines_of_all,
                "",
                "```{toctree}",
                ":hidden:",
                "",
                *names,
                "```",
                "",
            ]
        ),
    )


def _leaves(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    """A command, or those of a group, by what is typed."""
    if not hasattr(command, "commands"):
        yield path, command
        return
    for name, each in command.commands.items():
        if path == "mlat-lab bench":  # which hands all that follows on to the benchmark
            # Without the package that it compares with, its options are not known.
            with contextlib.suppress(MissingPackageError):
                each = get_command(benchmark_command(name))
        yield from _leaves(f"{path} {name}", each)


def _first_line(command: Any) -> str:
    return inspect.cleandoc(command.help or "").split("\n")[0]


def _command_lines(path: str, command: Any) -> Iterator[str]:
    context = typer.Context(command, info_name=path)
    pieces = re.sub(r"\{(.*?)\}(?:\.\.\.)?", r"\1", " ".join(command.collect_usage_pieces(context)))
    yield from ["```sh", f"{path} {pieces}", "```", ""]
    yield from [_plain(inspect.cleandoc(command.help or "")), ""]
    groups: dict[str, list[tuple[str, str]]] = {}
    for each in command.params:
        if record := each.get_help_record(context):
            group = getattr(each, "rich_help_panel", None) or f"{each.param_type_name}s"
            groups.setdefault(group.lower(), []).append(record)
    for group, rows in groups.items():
        yield from _table(group, rows)


def _table(kind: str, rows: list[tuple[str, str]]) -> Iterator[str]:
    yield from [f"| {kind} | |", "|---|---|"]
    for name, text in rows:
        yield f"| `{name.replace('|', chr(92) + '|')}` | {_plain(text)} |"
    yield ""


def _plain(text: str) -> str:
    """Help as Markdown: what could be read as markup or as a cell's border is escaped."""
    text = re.sub(r"\[/?(?:bold|dim|italic)\]", "", text)
    return re.sub(r"([|<>*_])", r"\\\1", text)


# The root


def _of_root() -> Iterator[tuple[str, str]]:
    for name, place in OF_ROOT.items():

        def moved(link: re.Match[str], place: str = place) -> str:
            target = OF_ROOT.get(link[2], link[2].removeprefix("docs/"))
            if target == link[2] and not target.startswith("docs/"):
                return link[0]
            return f"{link[1]}{os.path.relpath(target, os.path.dirname(place))}{link[3]}"

        yield place, _LINK.sub(moved, (ROOT / name).read_text(encoding="utf-8"))


if __name__ == "__main__":
    shutil.rmtree(DOCS / "_build", ignore_errors=True)
    write_pages()
