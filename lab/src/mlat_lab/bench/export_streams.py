"""Models on small processors, by set of streams and target, beside emlearn's.

Of each stream the default learns from what the protocol ``stream`` gives, and is made to fit
(:mod:`mlat.export.targets`). Its C runs over the test stream beside ``predict``. Of emlearn's there
are nearest neighbours over windows, a forest and a network over the features that our trees see,
whose own cost is not counted; beside it the same network in whole numbers of 8 bits. Flash is code
and tables as they are linked, with the C library's part; cycles are those of
:mod:`mlat_lab.bench.export_cycles`.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from scipy.optimize import nnls
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from mlat.base.checks import Floats, Ints
from mlat.base.errors import InputError, MissingPackageError, require_package
from mlat.classifier.classifier import StreamClassifier
from mlat.classifier.thin import Thinning
from mlat.export.c_source import CSource, Work, write_c
from mlat.export.decisions import Agreement
from mlat.export.plain_model import PlainModel
from mlat.export.targets import KEEP, TARGETS, Limits, Size, fit_into
from mlat.stream.stream import Stream

from ..experiments.people import stream_people
from ..experiments.stream_protocol import split_stream
from .export import MAIN as ON_HOST
from .export import codes_of, compiled, run, sources_of
from .export_cycles import CPUS, MAIN, counted, counted_of
from .harness import Bench, Row

# A stream, how many of its first channels, and for which targets with which limit of time in ms.
STREAMS: dict[str, tuple[int | None, dict[str, float]]] = {
    "phone_watch s01": (6, {"cortex-m4": 5.0}),
    "phone_watch s05": (6, {"cortex-m4": 5.0}),
    "phone_watch s01, acceleration": (3, {"cortex-m4": 5.0, "cortex-m0": 10.0}),
    "phone_watch s05, acceleration": (3, {"cortex-m4": 5.0, "cortex-m0": 10.0}),
    "wisdm_watch p1601": (6, {"cortex-m4": 5.0}),
    "ecg_rhythm r104": (None, {"cortex-m4": 5.0, "cortex-m0": 8.3}),
    "emg_gestures p01": (None, {"cortex-m4": 5.0}),
    "gesture_phase persona_story1": (None, {"cortex-m4": 33.3}),
    "room_occupancy room": (None, {"cortex-m4": 100.0, "cortex-m0": 100.0}),
}
JUDGED = 4000  # steps of the test stream, in stretches
STRETCH = 200
FILLED = 12  # steps to the one whose cycles are counted


def streams_of(name: str, data: Path) -> tuple[Stream, Stream]:
    """What is given, and the test stream with its states."""
    data_set, person = name.split(",")[0].split()
    stream = stream_people([data_set], [person], data)["stream"][data_set].load(person)
    n = STREAMS[name][0]
    if n is not None:
        stream = Stream(
            stream.values[:, :n], stream.states, channels=stream.channels[:n],
            recordings=stream.recordings, time=stream.time,
        )  # fmt: skip
    split = split_stream(stream, scale=False)
    states = split.states.astype(object)[split.codes]
    states[split.codes < 0] = None
    return split.streams.train, split.streams.test.with_states(states)


def judged(test: Stream, past: int) -> list[Stream]:
    """Stretches of the test stream, evenly spaced, each with what its first decision looks at."""
    length = past + STRETCH
    begins = [b for a, end, _ in test.segments for b in range(a, end - length + 1, STRETCH)]
    if not begins:
        return [test]
    chosen = np.linspace(0, len(begins) - 1, min(len(begins), JUDGED // STRETCH)).astype(int)
    return [test[begins[i] : begins[i] + length] for i in chosen]


def measure(name: str, data: Path, bench: Bench) -> list[Row]:
    """Its targets, and emlearn's models on the first of them."""
    train, test = streams_of(name, data)
    clf = StreamClassifier().fit(train)
    whole = PlainModel.of(clf)
    agreement = Agreement(clf, whole)
    ranked = whole.ranked(agreement.for_choice)
    parts = judged(test, clf.width_ + clf.features_.lift.memory)
    told = [
        codes_of(clf, Stream(part.values.astype(float), channels=part.channels)) for part in parts
    ]
    truth = [
        np.searchsorted(clf.classes_, part.states).clip(max=len(clf.classes_) - 1) for part in parts
    ]
    known = [
        at & (clf.classes_[y] == part.states)
        for (_, at), y, part in zip(told, truth, parts, strict=True)
    ]
    right = _mean([s == y for (s, _), y in zip(told, truth, strict=True)], known)
    rows: list[Row] = []
    for target, ms in STREAMS[name][1].items():
        place = TARGETS[target]

        def written(some: PlainModel, bits: int, fixed: bool = place.fixed) -> CSource:
            return write_c(some, bits=bits, fixed=fixed)

        try:
            fitted = fit_into(
                place,
                Limits(place.flash, place.ram, 1e3 * ms),
                whole=ranked,
                thinning=lambda: Thinning(clf, by_steps=True),
                agreement=agreement,
                write=written,
                start=Size(16 if place.fixed else 32, _trees(whole), len(whole.start)),
                free=frozenset({"bits", "trees", "references"}),
                keep=KEEP,
            )
        except InputError as error:
            bench.say(f"{name} on {target}: {error}")
            continue
        code = fitted.made.code
        with tempfile.TemporaryDirectory() as folder:
            program = compiled(Path(folder), sources_of(code, len(clf.channels_)))
            states = [run(program, part.values.astype(float)).states for part in parts]
        cycles = counted(code, parts[0].values[-FILLED:].astype(float), target)
        rows.append(
            {
                "stream": name,
                "in_C": f"mlat, {fitted.made.size}",
                "target": target,
                "flash_kB": cycles.flash / 1e3,
                "RAM_kB": code.ram / 1e3,
                "ms": cycles.cycles / place.mhz / 1e3,
                "estimated_ms": place.microseconds(code) / 1e3,
                "said": agreement.of(code.stored, fitted.made.rows).same,
                "same": _mean(
                    [s == t for s, (t, _) in zip(states, told, strict=True)], [at for _, at in told]
                ),
                "accuracy": _mean([s == y for s, y in zip(states, truth, strict=True)], known),
                "model_accuracy": right,
            }
        )
        bench.say(f"  {rows[-1]}")
    with np.errstate():  # emlearn makes every warning of numpy an error, for all
        rows += _rivals(name, clf, train, parts, truth, known, bench)
    return rows


def _trees(whole: PlainModel) -> int:
    return max((len(one.sizes) for one in whole.forests), default=0)


def _mean(values: list[Any], where: list[Any]) -> float:
    found = np.concatenate([value[at] for value, at in zip(values, where, strict=True)])
    return float(found.mean()) if len(found) else float("nan")


def _rivals(
    name: str, clf: StreamClassifier, train: Stream, parts: list[Stream], truth: list[Ints],
    known: list[Any], bench: Bench,
) -> list[Row]:  # fmt: skip
    """emlearn's models of the same task; nothing without emlearn."""
    try:
        emlearn = require_package("emlearn", "", "the comparison", title="emlearn")
        require_package("emlearn.neighbors", "", "the comparison", title="emlearn")
    except MissingPackageError:
        bench.say("emlearn is not installed, and left out: pip install emlearn")
        return []

    def features(stream: Stream) -> Floats:
        return clf.features_(Stream(stream.values.astype(float), channels=stream.channels))

    w = clf.width_
    windows = clf.windows_
    X = clf.features_(train)
    ends = windows.start + w - 1 if len(windows.start) else windows.start
    keep = ~np.isnan(X[ends]).any(axis=1)
    ends, y = ends[keep], np.searchsorted(clf.classes_, windows.y)[keep]
    n_channels = len(clf.channels_)
    scaler = StandardScaler().fit(X[ends])
    flat = np.stack([X[ends - i][:, :n_channels] for i in range(w)], axis=1).reshape(len(ends), -1)
    unit = np.abs(flat).max() / np.sqrt(2.0**29 / flat.shape[1])
    forest = ExtraTreesClassifier(20, min_samples_leaf=3, class_weight="balanced", random_state=0)
    network = MLPClassifier((32,), max_iter=500, random_state=0)

    def as_features(z: Floats) -> Floats:
        return scaler.transform(z)

    def as_window(z: Floats) -> Floats:
        lagged = [np.roll(z[:, :n_channels], i, axis=0) for i in range(w)]
        return np.stack(lagged, axis=1).reshape(len(z), -1)

    given = [np.nan_to_num(features(part)) for part in parts]
    rows: list[Row] = []
    for title in (
        *("emlearn, neighbours, 16 bits", "emlearn, forest of 20 trees"),
        *("emlearn, network of 32, single precision", "network of 32, 8 bits"),
    ):
        step = "return rival_predict(steps[i], {n});"
        if "neighbours" in title:
            Z = [np.rint(as_window(z) / unit) for z in given]
            fit = np.rint(flat / unit).astype(np.int64)
            text, kind = emlearn.neighbors.c_generate_neighbors(fit, y, 1, "rival"), "int16_t"
            before = f"static EmlNeighborsDistanceItem distances[{len(fit)}];"
            step = (
                f"int16_t found = -1; eml_neighbors_predict(&rival, steps[i], {{n}}, distances, "
                f"{len(fit)}, &found); return found;"
            )
            ram = 8 * len(fit) + 2 * fit.shape[1]
        elif "forest" in title:
            Z, kind, before, ram = (
                [np.rint(1000 * as_features(z)).clip(-32767, 32767) for z in given],
                "int16_t",
                "",
                0,
            )
            model = forest.fit(np.rint(1000 * as_features(X[ends])).clip(-32767, 32767), y)
            text = emlearn.convert(model, method="inline", dtype="int16_t").save(
                name="rival", format="c"
            )
        elif "8 bits" in title:
            Z = [(IN_8_BITS * as_features(z)).round().clip(-127, 127) for z in given]
            text, kind = network_in_8_bits(network, as_features(X[ends])), "int8_t"
            before, ram = "", 32
        else:
            Z, kind, before, ram = [as_features(z) for z in given], "float", "", 2 * 4 * 64
            # It compiles a wrapper in the folder where it is called.
            with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
                file = Path(folder, "rival.h")
                emlearn.convert(network.fit(as_features(X[ends]), y)).save(
                    file=str(file), name="rival"
                )
                text = file.read_text(encoding="utf-8")
        n = Z[0].shape[1]
        include = [Path(emlearn.__file__).parent]
        main = MAIN.format(
            before=f'#include "rival.h"\n{before}\n{kind} steps[][{n}] = {{'
            + ", ".join("{" + ", ".join(map(repr, row.tolist())) + "}" for row in Z[0][-2:])
            + "};",
            n=2,
            begin="",
            step=step.format(n=n),
        )
        text_main = ON_HOST.format(
            before=f'#include "rival.h"\nstatic {kind} values[{n}];\n{before}',
            n_values=n,
            begin="",
            value=f"({kind})row[c]",
            step=step.format(n=n)
            .replace("steps[i]", "values")
            .replace("return found;", "state = found;")
            .replace("return ", "state = "),
        )
        with tempfile.TemporaryDirectory() as folder:
            program = compiled(Path(folder), {"rival.h": text, "main.c": text_main}, include)
            told = [run(program, z).states for z in Z]
        for target in STREAMS[name][1]:
            row: Row = {
                "stream": name,
                "in_C": title,
                "target": target,
                "RAM_kB": ram / 1e3,
            }
            row["accuracy"] = _mean([s == y for s, y in zip(told, truth, strict=True)], known)
            try:
                cycles = counted_of({"rival.h": text, "main.c": main}, target, include)
                row |= {
                    "flash_kB": cycles.flash / 1e3,
                    "ms": cycles.cycles / TARGETS[target].mhz / 1e3,
                }
            except Exception as error:  # what does not link without an operating system
                bench.say(f"not counted: {title}, {error}")
            rows.append(row)
            bench.say(f"  {row}")
    return rows


IN_8_BITS = 127 / 4  # of a scaled feature: up to four deviations
NETWORK = """#include <stdint.h>
{tables}
static int rival_predict(const int8_t *x, int n)
{{
    int8_t hidden[{n_hidden}];
    int32_t most = INT32_MIN;
    int i, j, best = 0;
    for (i = 0; i < {n_hidden}; i++) {{
        int32_t sum = biases_0[i];
        for (j = 0; j < n; j++) sum += weights_0[i * n + j] * x[j];
        sum = sum < 0 ? 0 : sum >> {shift};
        hidden[i] = (int8_t)(sum > 127 ? 127 : sum);
    }}
    for (i = 0; i < {n_out}; i++) {{
        int32_t sum = biases_1[i];
        for (j = 0; j < {n_hidden}; j++) sum += weights_1[i * {n_hidden} + j] * hidden[j];
        if (sum > most) {{ most = sum; best = i; }}
    }}
    return {n_out} == 1 ? most > 0 : best;
}}
"""


def network_in_8_bits(network: MLPClassifier, X: Floats) -> str:
    """A network with one hidden layer in C: weights, inputs and hidden values in 8 bits."""
    inputs, unit, shift, tables = (IN_8_BITS * X).round().clip(-127, 127), 1 / IN_8_BITS, 0, []
    for layer, (weights, biases) in enumerate(
        zip(network.coefs_, network.intercepts_, strict=True)
    ):
        grain = np.abs(weights).max() / 127
        weights, biases = np.rint(weights.T / grain), np.rint(biases / (unit * grain))
        for name, kind, values in (("weights", "int8_t", weights), ("biases", "int32_t", biases)):
            listed = ", ".join(map(str, values.ravel().astype(int)))
            tables.append(f"static const {kind} {name}_{layer}[] = {{{listed}}};")
        if layer == 0:
            sums = np.maximum(inputs @ weights.T + biases, 0)
            shift = max(0, int(np.ceil(np.log2(max(sums.max(), 1) / 127))))
            unit *= grain * 2.0**shift
    n_out, n_hidden = network.coefs_[-1].shape[1], network.coefs_[0].shape[1]
    return NETWORK.format(tables="\n".join(tables), n_hidden=n_hidden, n_out=n_out, shift=shift)


def on_streams(
    bench: Bench,
    data: Annotated[Path, typer.Argument(help="Where the sets of whole streams are.")],
    only: Annotated[str | None, typer.Option(help="One, such as 'ecg_rhythm r104'.")] = None,
) -> None:
    """Models on small processors by set and target, beside emlearn's: bytes, cycles, decisions."""
    rows: list[Row] = []
    for name in STREAMS:
        if only in (None, name):
            bench.say(f"[dim]{name}")
            rows += measure(name, data, bench)
            bench.keep(rows)
    bench.table(
        "Models on small processors",
        rows,
        left=3,
        percent=("said", "same", "accuracy", "model_accuracy"),
    )


# Bits, trees, and of how many references there is one.
MADE = ((8, 100, 1), (8, 34, 1), (8, 34, 2), (8, 12, 3), (16, 50, 1), (16, 25, 2))
MOST_STEPS = 16_000  # of a test stream


def shares(
    bench: Bench,
    data: Annotated[Path, typer.Argument(help="Where the sets of whole streams are.")],
    only: Annotated[str | None, typer.Option(help="One, such as 'ecg_rhythm r104'.")] = None,
) -> None:
    """The share of decisions that `mlat export` says stay, beside that on new steps."""
    rows: list[Row] = []
    for name in STREAMS:
        if only not in (None, name):
            continue
        train, test = streams_of(name, data)
        clf = StreamClassifier().fit(train)
        whole = PlainModel.of(clf)
        known, new = Agreement(clf, whole), Agreement(clf, whole, test[:MOST_STEPS])
        ranked = whole.ranked(known.for_choice)
        for bits, trees, every in MADE:
            at = np.arange(0, len(whole.start), every)
            at = np.union1d(at, np.unique(whole.codes, return_index=True)[1])
            stored = write_c(ranked.with_trees(trees).take(at), bits=bits).stored
            agreed, same = known.of(stored, at), new.of(stored, at).same
            row = {"stream": name, "bits": bits, "trees": trees, "one_in": every}
            told = {"said": agreed.same, "at_least": agreed.least, "new_steps": same}
            rows.append(row | told | {"holds": same >= agreed.least})
        bench.keep(rows)
    title = "Decisions that stay: what is said, and on new steps"
    bench.table(title, rows, percent=("said", "at_least", "new_steps"))
    bench.say(f"{sum(row['holds'] for row in rows)} of {len(rows)} are at least what is expected.")


# Bits, trees, of how many references there is one, and how much it counts that a number stays as it
# is beside a model that is off: in 8 bits models like those that are found, in 16, where a product
# takes an M0+ long, such that an emulator is through in seconds.
TRIED = ((8, 70, 2, 0.1), (8, 23, 3, 0.1), (16, 50, 8, 0.2), (16, 25, 16, 0.2))
FITTED = (
    *("phone_watch s05, acceleration", "ecg_rhythm r104"),
    *("phone_watch s01", "emg_gestures p01"),
)


def constants(
    bench: Bench,
    data: Annotated[Path, typer.Argument(help="Where the sets of whole streams are.")],
    only: Annotated[str | None, typer.Option(help="One, such as 'ecg_rhythm r104'.")] = None,
) -> None:
    """Cycles of each kind of work, fitted to those that an emulator counts."""
    found: dict[tuple[str, bool, float], list[tuple[float, ...]]] = {}
    for name in FITTED if only is None else [only]:
        train, test = streams_of(name, data)
        clf = StreamClassifier().fit(train)
        whole = PlainModel.of(clf)
        ranked = whole.ranked(Agreement(clf, whole).for_choice)
        stretch = judged(test, clf.width_ + clf.features_.lift.memory)[0].values[-FILLED:]
        for cpu in CPUS:
            for bits, trees, every, stays in TRIED:
                model = ranked.with_trees(trees).take(np.arange(0, len(whole.start), every))
                code = write_c(model, bits=bits, fixed=TARGETS[cpu].fixed)
                cycles = counted(code, stretch.astype(float), cpu).cycles
                found.setdefault((cpu, bits == 8, stays), []).append((*code.work, 1, cycles))
        bench.say(f"[dim]{name}")
    rows: list[Row] = []
    for (cpu, is_narrow, stays), counts in found.items():
        work, took = np.split(np.array(counts), [-1], axis=1)
        # Models are too alike to tell every kind: what they leave open stays as it is in `TARGETS`.
        now = np.array(TARGETS[cpu].cycles[0 if is_narrow else 1])
        wanted = np.append(np.ones(len(work)), np.full(len(now), stays))
        of_each = nnls(np.vstack([work / took, np.diag(stays / now)]), wanted)[0]
        said = work @ of_each / took[:, 0]
        kinds = dict(zip((*Work._fields, "step"), of_each.tolist(), strict=True))
        named = {"target": cpu, "bits": "8" if is_narrow else "more"}
        rows.append(named | kinds | {"off_by": float(np.abs(said - 1).max())})
    bench.keep(rows)
    bench.table("Cycles of each kind of work", rows, left=2, percent=("off_by",))
