"""Imports point one way: a module knows only what comes before it on the way of the data."""

import ast
from pathlib import Path

import mlat

ROOT = Path(mlat.__file__).parent
LAYERS = [
    ["errors", "progress"],
    ["stream_arrays", "gaps", "stream", "windows"],
    ["fixed_order", "lifts", "whitening", "features"],
    ["folding", "lags", "toeplitz", "optim", "targets", "shares", "impostors", "margin"],
    ["running_sums", "diagonals", "attribution", "confusions"],
    ["solvers"],
    [
        *["margin_metric", "estimators", "neighbors", "voting"],
        *["left_out", "class_distances", "calibration", "persistence", "novelty"],
    ],
    ["selection", "confidence", "reference_search"],
    ["setup"],
    ["classifier", "baselines", "learned"],
    ["references", "explanation", "usage"],
    ["files"],
    ["datasets"],
    ["plots"],
    ["live"],
    ["experiments"],
    ["cluster"],
    ["bench"],
    ["cli"],
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def imported(path):
    """The parts of mlat that a module imports when it is itself imported."""
    depth = len(path.relative_to(ROOT).parts)
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.level == depth:
            if node.module:
                yield node.module.split(".")[0]
            else:
                yield from (alias.name for alias in node.names)


def test_every_module_has_its_layer():
    parts = {p.stem if p.is_file() else p.name for p in ROOT.iterdir()}
    assert parts - {"__init__", "py", "__pycache__"} == set(LEVEL)


def test_imports_point_one_way():
    wrong = []
    for path in sorted(ROOT.rglob("*.py")):
        part = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if part == "__init__":
            continue
        for name in imported(path):
            if name in LEVEL and LEVEL[name] > LEVEL[part]:
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert not wrong, wrong
