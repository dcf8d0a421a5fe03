"""Imports between rooms point one way, as ARCHITECTURE.md lists; tests are named after modules."""

import ast
import re
from pathlib import Path

import pytest

import mlat

ROOT = Path(mlat.__file__).parent
PAGE = Path(__file__).parents[1] / "ARCHITECTURE.md"
MOST_AT_THE_ROOT = 8


def rooms():
    """The level of each room, and the imports that may point down, from ARCHITECTURE.md."""
    text = PAGE.read_text(encoding="utf-8")
    lines = re.search(r"^```\n(.*?)^```", text, re.DOTALL | re.MULTILINE)[1].splitlines()
    levels = {room: level for level, line in enumerate(lines) for room in line.split()}
    return levels, set(re.findall(r"`(\w+) -> (\w+)`", text))


LEVELS, DOWNWARDS = rooms()


def room_of(module):
    """The longest room that a dotted module is in; None for the package itself."""
    parts = module.split(".")
    for n in range(len(parts), 0, -1):
        if "/".join(parts[:n]) in LEVELS:
            return "/".join(parts[:n])
    return None


def imports(path):
    """(module, name) of every import of mlat in a file, at its head, in functions, for types."""
    package = path.relative_to(ROOT).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            module = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield module, alias.name
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "mlat":
            for alias in node.names:
                yield node.module.removeprefix("mlat").removeprefix("."), alias.name
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "mlat":
                    yield alias.name.removeprefix("mlat").removeprefix("."), ""


FILES = sorted(ROOT.rglob("*.py"))


def links():
    """(file, its room, the room it imports, the name) of every import from another room."""
    for path in FILES:
        here = room_of(".".join(path.relative_to(ROOT).with_suffix("").parts))
        if here is None:  # the package itself, which shows names of any room
            continue
        for module, name in imports(path):
            there = room_of(f"{module}.{name}".strip(".")) or room_of(module)
            if there is not None and there != here:
                yield path.relative_to(ROOT), here, there, name


def test_every_part_has_its_room():
    parts = {p.stem if p.is_file() else p.name for p in ROOT.iterdir()}
    parts -= {"__init__", "py", "__pycache__"}
    assert parts == {room.split("/")[0] for room in LEVELS}


def test_nothing_imports_the_laboratory():
    for path in FILES:
        assert "mlat_lab" not in path.read_text(encoding="utf-8"), path


def test_few_modules_lie_at_the_root():
    assert len(list(ROOT.glob("*.py"))) <= MOST_AT_THE_ROOT


def test_imports_point_one_way():
    wrong = [
        f"{path} imports {there}"
        for path, here, there, _ in links()
        if LEVELS[there] >= LEVELS[here] and (here, there) not in DOWNWARDS
    ]
    assert not wrong, wrong


def test_the_exceptions_are_used_and_lazy():
    assert {(here, there) for _, here, there, _ in links() if LEVELS[there] > LEVELS[here]} == (
        DOWNWARDS
    )
    for here, there in DOWNWARDS:
        for path in (ROOT / here).rglob("*.py"):
            head = ast.parse(path.read_text(encoding="utf-8")).body
            at_once = [n for n in head if isinstance(n, ast.ImportFrom) and n.module]
            assert not [n for n in at_once if n.module.split(".")[0] == there], path


def test_no_room_imports_private_names_of_another():
    private = [f"{path}: {name}" for path, _, _, name in links() if name.startswith("_")]
    assert [line for line in private if not line.endswith("__version__")] == []


def test_folders_are_in_no_cycle():
    """Between any two folders imports point one way, in the rooms' own sub-folders too."""
    pairs = set()
    for path in FILES:
        here = path.relative_to(ROOT).parent
        if path.name == "__init__.py":  # it shows names of the folders below it
            continue
        for module, name in imports(path):
            target = ROOT.joinpath(*filter(None, module.split(".")))
            if (target / name).is_dir() and name:
                target = target / name
            there = (target if target.is_dir() else target.parent).relative_to(ROOT)
            if there not in (here, Path()):
                pairs.add((here, there))
    both = sorted((str(a), str(b)) for a, b in pairs if (b, a) in pairs and a < b)
    allowed = {tuple(sorted(pair)) for pair in DOWNWARDS}
    assert [pair for pair in both if pair not in allowed] == []


@pytest.mark.parametrize("path", [p.relative_to(ROOT) for p in FILES], ids=str)
def test_no_module_is_called_for_nothing(path):
    assert path.stem not in {"utils", "util", "helpers", "common", "misc"}


@pytest.mark.parametrize(
    ("tests", "package"), [("tests", "src/mlat"), ("lab/tests", "lab/src/mlat_lab")]
)
def test_tests_are_named_after_what_they_test(tests, package):
    """As ``test_MODULE.py`` or ``test_MODULE_WHAT.py`` in its room; a whole room counts, too."""
    top = PAGE.parent
    wrong = []
    for path in (top / tests).glob("*/**/test_*.py"):
        room = top / package / path.parent.relative_to(top / tests)
        names = {part.stem for part in room.glob("[!_]*")} | {room.name}
        named = any(f"{path.stem}_".startswith(f"test_{name}_") for name in names)
        if not (room.is_dir() and named):
            wrong.append(str(path.relative_to(top)))
    assert not wrong, wrong
