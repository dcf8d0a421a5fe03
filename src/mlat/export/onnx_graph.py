"""A classifier as ONNX: a graph for windows, and one for a stream that comes step by step.

Both share one body, from scaled steps to states. Only operators of an old opset are used, none of
which any runtime lacks, and no loop: the statistics of a lift are sums over gathered steps. As in
C, references are stored as steps, which overlapping windows share, and a metric by its lags; both
are spread out by constant nodes, which a runtime computes once when it loads the graph.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base.errors import InputError, require_package
from ..features.lifts import CHANGE, DEVIATION, MEAN, NOW, OVERS, ROOT_MEAN_SQUARE, SIZE, VALUE
from .plain_forest import PlainForest
from .plain_model import PlainExpert, PlainModel, not_known
from .tables import EXTREME, STORED, quantised

OPSET, IR_VERSION = 11, 6  # of 2019
MOST_BYTES = 2**31 - 1  # of a file of this format
ALL = 2**31 - 1  # the end of a slice that reaches to the end
WHOLE = {8: np.int8, 16: np.int16}


def write_onnx(
    model: PlainModel,
    *,
    bits: int = 32,
    stream: bool = False,
    filtered: bool = False,
    hold: int = 0,
    far: float | None = None,
) -> bytes:
    """The file of a model.

    Parameters
    ----------
    bits : 64, 32, 16 or 8
        Of a stored number of a reference; with 64 everything is in double precision, which not
        every runtime computes in.
    stream : bool
        One step of a stream with what is remembered of it, instead of whole windows.
    filtered : bool
        Whether states go through the state filter; of a stream only.
    hold : int
        For how many steps in a row a missing value is the channel's last one; of a stream only.
    far : float, optional
        As in :meth:`PlainModel.limit`.

    Notes
    -----
    Windows: ``windows`` (N, T, d) are N recordings of T steps; ``state`` (N,) is that of the last
    step of each as an index of the metadata's ``states``, or -1 for unknown, with ``distances`` and
    ``probabilities`` (N, S), which are NaN without a complete window.

    A stream: ``values`` (N, d) is the next step of N streams, and every other input has an output
    ``next_...``, which is what the next call gets. Zeros begin a stream, and begin it again at a
    gap.

    Raises
    ------
    InputError
        If the model is too large for this format, or what is wanted needs a stream.
    MissingPackageError
        Without onnx.
    """
    if bits not in STORED:
        raise InputError(f"bits must be one of {', '.join(map(str, STORED))}, not {bits}")
    if not stream and (filtered or hold):
        what = "the state filter" if filtered else "holding values"
        raise InputError(f"{what} needs the past of a stream, which windows are not")
    graph = _Graph(model, bits)
    if stream:
        _stream(graph, filtered, hold, model.limit(far))
    else:
        _windows(graph, model.limit(far))
    return graph.finished("stream" if stream else "windows")


class _Graph:
    """Nodes and constants of a model, as they are added.

    ``size`` is how many steps a state follows from.
    """

    def __init__(self, model: PlainModel, bits: int) -> None:
        self.onnx = require_package("onnx", "onnx", "an export to ONNX")
        self.model, self.bits = model, bits
        past = model.lift.size - 1 if model.lift.remembers else 0
        self.size = max(2, model.width + past)
        self.n_channels, self.n_states = len(model.channels), len(model.states)
        self.real = np.float64 if bits == 64 else np.float32
        self._nodes: list[Any] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def constant(self, values: Any, kind: Any = None) -> str:
        """The name of a constant: real where no kind is given."""
        array = np.ascontiguousarray(values, self.real if kind is None else kind)
        array = array.reshape(np.shape(values))
        if array.dtype.kind == "f" and not np.isfinite(values).all():
            raise InputError("the model holds a number that is not finite")
        key = (str(array.dtype), array.shape, array.tobytes())
        return self._constants.setdefault(key, f"c{len(self._constants)}")

    def wholes(self, values: Any) -> str:
        return self.constant(values, np.int64)

    def __call__(self, operator: str, *inputs: Any, **attributes: Any) -> str:
        """The name of what a node makes of values by their names, and of real constants."""
        names = [one if isinstance(one, str) else self.constant(one) for one in inputs]
        name = f"v{len(self._nodes)}"
        made = self.onnx.helper.make_node(operator, names, [name], name=name, **attributes)
        self._nodes.append(made)
        return name

    def input(self, name: str, shape: tuple[int | str, ...]) -> str:
        self._inputs.append(self._typed(name, self._kind(self.real), shape))
        return name

    def output(self, name: str, value: str, shape: tuple[int | str, ...], kind: Any = None) -> None:
        self._nodes.append(self.onnx.helper.make_node("Identity", [value], [name], name=name))
        kind = self._kind(self.real if kind is None else kind)
        self._outputs.append(self._typed(name, kind, shape))

    # What several places need.

    def cast(self, value: str, kind: Any = None) -> str:
        return self("Cast", value, to=self._kind(self.real if kind is None else kind))

    def slice(self, value: str, start: int, end: int, axis: int) -> str:
        return self("Slice", value, *map(self.wholes, ([start], [end], [axis])))

    def total(self, value: str, axis: int, *, keep: bool = False) -> str:
        return self("ReduceSum", value, axes=[axis], keepdims=int(keep))

    def smallest(self, value: str, k: int) -> tuple[str, str]:
        """The k smallest of each row in their order, and where they are."""
        smallest, at = f"{value}_smallest", f"{value}_at"
        names = [value, self.wholes([k])], [smallest, at]
        options = {"axis": 1, "largest": 0, "sorted": 1}
        self._nodes.append(self.onnx.helper.make_node("TopK", *names, name=smallest, **options))
        return smallest, at

    def column(self, value: str) -> str:
        """(N,) as (N, 1)."""
        return self("Unsqueeze", value, axes=[1])

    def _kind(self, kind: Any) -> Any:
        return self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))

    def _typed(self, name: str, kind: Any, shape: tuple[int | str, ...]) -> Any:
        return self.onnx.helper.make_tensor_value_info(name, kind, list(shape))

    def finished(self, kind: str) -> bytes:
        helper = self.onnx.helper
        constants = [
            self.onnx.numpy_helper.from_array(np.frombuffer(data, dtype).reshape(shape), name)
            for (dtype, shape, data), name in self._constants.items()
        ]
        graph = helper.make_graph(
            self._nodes, "mlat", self._inputs, self._outputs, initializer=constants
        )
        made = helper.make_model(
            graph,
            producer_name="mlat",
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
        )
        notes = {
            "kind": kind,
            "states": json.dumps(self.model.states),
            "channels": json.dumps(self.model.channels),
            "width": str(self.model.width),
            "steps": str(self.size),
        }
        helper.set_model_props(made, notes)
        if made.ByteSize() > MOST_BYTES:
            raise InputError("the model is larger than the 2 GB that an ONNX file can hold")
        self.onnx.checker.check_model(made, full_check=True)
        data: bytes = made.SerializeToString()
        return data


class _Decided(NamedTuple):
    """Which windows (N,) are complete, their states and least distances; by state (N, S) distances
    and probabilities."""

    known: str
    distances: str
    proba: str
    state: str
    distance: str


def _windows(g: _Graph, limit: float) -> None:
    values, there = _scaled(g, g.input("windows", ("N", "T", g.n_channels)))
    usable = g("ReduceMin", g.cast(there), axes=[2], keepdims=0)
    # Zeros that are not usable go before it, so that it is long enough.
    before = g.wholes([0, g.size, 0, 0, 0, 0]), g.constant(0.0)
    values = g.slice(g("Pad", values, *before), -g.size, ALL, 1)
    before = g.wholes([0, g.size, 0, 0]), g.constant(0.0)
    usable = g.slice(g("Pad", usable, *before), -g.size, ALL, 1)
    _outputs(g, _decided(g, values, usable), limit)


def _stream(g: _Graph, filtered: bool, hold: int, limit: float) -> None:
    past = ("N", g.size - 1, g.n_channels)
    values, there = _scaled(g, g.input("values", ("N", g.n_channels)))
    values_past, usable_past = g.input("past", past), g.input("usable", past[:2])
    if hold:
        values, there = _held(g, values, there, hold)
    values = g("Concat", values_past, g("Unsqueeze", values, axes=[1]), axis=1)
    usable = g("ReduceMin", g.cast(there), axes=[1], keepdims=1)
    usable = g("Concat", usable_past, usable, axis=1)
    g.output("next_past", g.slice(values, 1, ALL, 1), past)
    g.output("next_usable", g.slice(usable, 1, ALL, 1), past[:2])
    decided = _decided(g, values, usable)
    if filtered:
        proba = _filtered(g, decided)
        state = g("ArgMax", proba, axis=1, keepdims=0)
        decided = decided._replace(proba=proba, state=state)
    _outputs(g, decided, limit)


def _outputs(g: _Graph, decided: _Decided, limit: float) -> None:
    shown = decided.known
    if np.isfinite(limit):
        limit = min(limit, float(np.finfo(g.real).max))
        beyond = g("Greater", decided.distance, limit)
        shown = g("And", shown, g("Not", beyond))
    g.output("state", g("Where", shown, decided.state, g.wholes(-1)), ("N",), np.int64)
    # 0/0 is NaN: constants here are finite.
    nothing = g("Div", 0.0, 0.0)
    for name, value in (("distances", decided.distances), ("probabilities", decided.proba)):
        shown = g("Where", g.column(decided.known), value, nothing)
        g.output(name, shown, ("N", g.n_states))


def _scaled(g: _Graph, values: str) -> tuple[str, str]:
    """Scaled values, 0 where one is missing, and which are there."""
    scaled = g("Div", g("Sub", values, g.model.channel_mean), g.model.channel_scale)
    there = g("Less", g("Abs", scaled), EXTREME[g.bits])  # and no NaN
    return g("Where", there, scaled, 0.0), there


def _held(g: _Graph, values: str, there: str, hold: int) -> tuple[str, str]:
    """Missing values as the channel's last, for some steps in a row."""
    shape = ("N", g.n_channels)
    last, left = g.input("last", shape), g.input("left", shape)
    left = g("Sub", left, 1.0)
    held = g("Where", there, values, last)
    still = g("Or", there, g("Greater", left, -0.5))
    left = g("Where", there, float(hold), g("Max", left, 0.0))
    values = g("Where", still, held, 0.0)
    # A value that may no longer be held stays away until the channel has a new one.
    g.output("next_last", values, shape)
    g.output("next_left", left, shape)
    return values, still


def _decided(g: _Graph, values: str, usable: str) -> _Decided:
    """What is decided about windows.

    ``values`` (N, size, d) are the scaled last steps, ``usable`` (N, size) is 1 where one is.
    """
    # A step counts if all after it are usable.
    broken = g("CumSum", g("Sub", 1.0, usable), g.constant(1, np.int32), reverse=1)
    alive = g.cast(g("Less", broken, 0.5))
    values = g("Mul", values, g("Unsqueeze", alive, axes=[2]))
    first = g("Gather", alive, g.wholes(g.size - g.model.width), axis=1)
    known = g("Greater", first, 0.5)
    features = _features(g, values, alive)
    steps = _steps(g) if g.model.matrices else ""
    order = np.argsort(g.model.codes, kind="stable")
    squares = [
        _squares_of_points(g, one, features, order)
        if isinstance(one, PlainForest)
        else _squares(g, one, features, steps, order)
        for one in g.model.experts
    ]
    codes = g.model.codes[order]
    if g.model.n_neighbors > 1:
        return _Decided(known, *_voted(g, squares[0], codes))
    logs = None
    distances = ""
    for one, square in zip(g.model.experts, squares, strict=True):
        distances = _by_state(g, square, codes)
        log = g("Log", g("Add", g("Div", distances, one.typical), g.model.soft))
        log = g("Mul", log, one.weight)
        logs = log if logs is None else g("Add", logs, log)
    assert logs is not None
    if len(g.model.experts) > 1:
        distances = g("Exp", logs)
    state = g("ArgMin", distances, axis=1, keepdims=0)
    distance = g("ReduceMin", distances, axes=[1], keepdims=0)
    excess = g("Sub", logs, g("ReduceMin", logs, axes=[1], keepdims=1))
    proba = g("Exp", g("Mul", excess, -g.model.beta))
    proba = g("Div", proba, g.total(proba, 1, keep=True))
    return _Decided(known, distances, proba, state, distance)


def _features(g: _Graph, values: str, alive: str) -> str:
    """The features of the last steps, (N, width, F)."""
    lift, w, d = g.model.lift, g.model.width, g.n_channels
    taken = {VALUE: values, SIZE: g("Abs", values)}
    if lift.remembers:
        change = g("Sub", g.slice(values, 1, ALL, 1), g.slice(values, 0, -1, 1))
        change = g("Mul", change, g("Unsqueeze", g.slice(alive, 0, -1, 1), axes=[2]))
        taken[CHANGE] = g("Pad", change, g.wholes([0, 1, 0, 0, 0, 0]), 0.0)
    at = g.wholes(g.size - w + np.arange(w)[:, None] - np.arange(lift.size - 1)[::-1])  # (w, reach)
    made = np.stack([lift.takes, lift.overs], axis=1)
    kinds, of_kind = np.unique(made, axis=0, return_inverse=True)
    found = [
        g.slice(taken[of], -w, ALL, 1) if over == NOW else _over(g, taken[of], alive, at, over)
        for of, over in kinds.tolist()
    ]
    joined = g("Concat", *found, axis=2)
    value = g("Gather", joined, g.wholes(of_kind.ravel() * d + lift.channels), axis=2)
    if (lift.floors > 0).any():
        is_log = lift.floors > 0
        inside = g("Mul", value, is_log.astype(float))
        inside = g("Add", inside, np.where(is_log, lift.floors, 1.0))
        value = g("Where", g.constant(is_log, np.bool_), g("Log", inside), value)
    return g("Div", g("Sub", value, g.model.feature_mean), g.model.feature_scale)


def _over(g: _Graph, taken: str, alive: str, at: str, over: int) -> str:
    """What running maps make of the values (N, size, d), (N, w, d); steps ``at`` (w, reach) are of
    each."""
    there = g("Unsqueeze", g("Gather", alive, at, axis=1), axes=[3])  # (N, w, reach, 1)
    past = g("Gather", taken, at, axis=1)  # (N, w, reach, d)

    def mean(values: str) -> str:
        return g("Div", g.total(values, 2), g("Max", g.total(there, 2), 1.0))

    if over == MEAN:
        return mean(past)
    if over == DEVIATION:
        past = g("Mul", g("Sub", past, g("Unsqueeze", mean(past), axes=[2])), there)
    elif over != ROOT_MEAN_SQUARE:
        raise not_known("ONNX", OVERS[over])
    return g("Sqrt", mean(g("Mul", past, past)))


def _steps(g: _Graph) -> str:
    """The references' steps as they are stored, in the features that a matrix compares."""
    steps, unit = quantised(g.model.steps[:, g.model.is_compared], g.bits)
    if g.bits not in WHOLE:
        return g.constant(steps)
    return g("Mul", g.cast(g.constant(steps, WHOLE[g.bits])), unit)


def _squares(
    g: _Graph, one: PlainExpert, features: str, steps: str, order: NDArray[np.int64]
) -> str:
    """Squared distances (N, n) of an expert, to references in that order."""
    w, n = one.width, len(one.columns)
    x = _seen(g, one, features)
    u = g("MatMul", x, _metric(g, one))
    begin = (g.model.start + g.model.width - w)[order]
    at = g("Add", g.wholes(begin[:, None]), g.wholes(np.arange(w)[None]))
    columns = (np.cumsum(g.model.is_compared) - 1)[one.columns]
    y = g("Gather", g("Gather", steps, g.wholes(columns), axis=1), at, axis=0)
    y = g("Transpose", g("Reshape", y, g.wholes([-1, w * n])), perm=[1, 0])
    stored, unit = quantised(g.model.steps, g.bits)
    squares = one.squares(stored * unit, begin)
    apart = g("Sub", squares, g("Mul", g("MatMul", u, y), 2.0))
    apart = g("Add", apart, g.total(g("Mul", x, u), 1, keep=True))
    return g("Max", apart, 0.0)


def _seen(g: _Graph, one: PlainExpert | PlainForest, features: str) -> str:
    """What an expert sees of a window, (N, w·n)."""
    last = g.slice(features, -one.width, ALL, 1)
    x = g("Gather", last, g.wholes(one.columns), axis=2)
    return g("Reshape", x, g.wholes([-1, one.width * len(one.columns)]))


def _squares_of_points(g: _Graph, one: PlainForest, features: str, order: NDArray[np.int64]) -> str:
    """The same of an expert with a forest. All trees go down by one split at a time."""
    _, unit = quantised(g.model.steps, g.bits)
    forest, power, point_unit, grain = one.in_bits(unit, g.bits)
    x = _seen(g, one, features)
    n, n_leaves = len(forest.feature), len(forest.leaves)
    first = np.cumsum(forest.sizes) - forest.sizes
    # Leaves follow the splits of all trees, and lead to themselves.
    down = forest.links + np.repeat(first, forest.sizes)[:, None]
    down = np.where(forest.links < 0, n - 1 - forest.links, down)
    down = np.concatenate([down, np.repeat(n + np.arange(n_leaves), 2).reshape(-1, 2)])
    low, high = _indices(g, down[:, 0]), _indices(g, down[:, 1])
    feature = _indices(g, np.append(forest.feature, np.zeros(n_leaves, np.int64)))
    threshold = np.append(forest.threshold, np.zeros(n_leaves))
    if g.bits in WHOLE:
        of_splits = g("Gather", np.tile(unit[one.columns], one.width) * 2.0**power, feature)
        thresholds = g("Mul", g.cast(g.constant(threshold, np.int16)), of_splits)
    else:
        thresholds = g.constant(threshold)
    nothing = g("Mul", g.slice(x, 0, 1, 1), 0.0)
    node = g("Add", g.cast(nothing, np.int32), g.constant(first, np.int32))  # (N, T)
    for _ in range(forest.depth):
        value = g("GatherElements", x, g("Gather", feature, node), axis=1)
        is_high = g("Greater", value, g("Gather", thresholds, node))
        node = g("Where", is_high, g("Gather", high, node), g("Gather", low, node))
    leaves = _wholes_times(g, forest.leaves, point_unit)
    row = g("Sub", node, g.constant(n, np.int32))
    point = g.total(g("Gather", leaves, row, axis=0), 1)  # (N, S)
    points = _wholes_times(g, forest.points[order].T, point_unit * grain)
    squares = ""
    for s in range(len(forest.points.T)):
        of_references = g("Gather", points, g.wholes(s), axis=0)
        apart = g("Sub", g.slice(point, s, s + 1, 1), of_references)
        apart = g("Mul", apart, apart)
        squares = g("Add", squares, apart) if squares else apart
    return squares


def _indices(g: _Graph, values: NDArray[np.int64]) -> str:
    """Whole numbers from 0 on, in as few bytes as they need."""
    return g.cast(g.constant(values, np.min_scalar_type(int(values.max()))), np.int32)


def _wholes_times(g: _Graph, values: NDArray[Any], unit: float) -> str:
    """Numbers that are whole in 16 and 8 bits, times a unit."""
    if g.bits not in WHOLE:
        return g.constant(values * unit)
    kind = np.min_scalar_type(int(values.max(initial=0)))
    return g("Mul", g.cast(g.constant(values, kind)), unit)


def _metric(g: _Graph, one: PlainExpert) -> str:
    """M (w·n, w·n), symmetric."""
    w, n, L = one.width, len(one.columns), one.n_lags
    if not L:
        return g.constant(one.metric)
    # The block of row t and column s is that of the lag t - s, transposed where it is negative.
    blocks = np.concatenate([one.metric[:0:-1].transpose(0, 2, 1), one.metric, np.zeros((1, n, n))])
    lag = np.arange(w)[:, None] - np.arange(w)
    at = np.where(np.abs(lag) < L, lag + L - 1, 2 * L - 1)
    spread = g("Gather", blocks, g.wholes(at), axis=0)  # (w, w, n, n)
    return g("Reshape", g("Transpose", spread, perm=[0, 2, 1, 3]), g.wholes([w * n, w * n]))


def _by_state(g: _Graph, squares: str, codes: NDArray[np.int64]) -> str:
    """The distance to the nearest reference of each state, (N, S)."""
    edges = np.searchsorted(codes, np.arange(g.n_states + 1)).tolist()
    least = [
        g("ReduceMin", g.slice(squares, begin, end, 1), axes=[1], keepdims=1)
        for begin, end in pairwise(edges)
    ]
    return g("Sqrt", g("Concat", *least, axis=1))


def _voted(g: _Graph, squares: str, codes: NDArray[np.int64]) -> tuple[str, str, str, str]:
    """Distances by state, probabilities, states and the least distance, by k neighbours."""
    k, S = g.model.n_neighbors, len(g.model.states)
    nearest, at = g.smallest(squares, k)
    distance = g("Sqrt", nearest)  # (N, k)
    labels = g("Unsqueeze", g("Gather", g.wholes(codes), at, axis=0), axes=[2])
    own = g.cast(g("Equal", labels, g.wholes(np.arange(S))))  # (N, k, S)
    votes = g.total(own, 1)
    sums = g.total(g("Mul", own, g("Unsqueeze", distance, axes=[2])), 1)
    most = g("ReduceMax", votes, axes=[1], keepdims=1)
    fewer = g("Greater", g("Sub", most, votes), 0.5)
    sums = g("Where", fewer, g.constant(float(np.finfo(np.float32).max)), sums)
    state = g("ArgMin", sums, axis=1, keepdims=0)
    least = g("ReduceMin", distance, axes=[1], keepdims=0)
    proba = g("Div", votes, float(k))
    return _by_state(g, squares, codes), proba, state, least


def _filtered(g: _Graph, decided: _Decided) -> str:
    """The probabilities given all windows so far. A belief of zeros is none: before any window."""
    k, S, proba = g.model.n_neighbors, g.n_states, decided.proba
    belief = g.input("belief", ("N", S))
    has_one = g("Greater", g.total(belief, 1, keep=True), 0.5)
    before = g("Where", has_one, belief, g.model.stationary)
    if k > 1:
        proba = g("Add", g("Mul", proba, float(k)), 1.0)
        proba = g("Div", proba, g.constant(float(k + S)))
    seen = g("Where", has_one, g("Pow", proba, g.model.tempering), proba)
    moved = g("MatMul", before, g.model.transition)
    after = g("Mul", moved, seen)
    possible = g("Greater", g.total(after, 1, keep=True), 0.0)
    after = g("Where", possible, after, moved)
    after = g("Div", after, g.total(after, 1, keep=True))
    kept = g("Where", g.column(decided.known), after, 0.0)
    g.output("next_belief", kept, ("N", S))
    return after
