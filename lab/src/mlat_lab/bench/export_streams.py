"""How small a model in C can be on real streams, and how many decisions stay the same.

For two development files of
each set (one of room_occupancy), the default learns from what the protocol ``stream`` gives. It is
exported in whole numbers, with the bits and ``--every`` of ``CHOICES``, compiled, and run beside
``predict`` on 80 stretches of the test stream, evenly spaced, of 10 judged steps each. Flash is
that of the tables with the code, compiled for a Cortex-M4 where there is a compiler for ARM.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from mlat.classifier.classifier import StreamClassifier
from mlat.export.c_source import CSource, write_c
from mlat.export.plain_model import PlainModel
from mlat.stream.stream import Stream

from ..experiments.people import stream_people
from ..experiments.stream_protocol import split_stream
from .export import codes_of, compiled, run, sources_of
from .harness import Bench, Row

# Found to leave 99 % of the decisions as they are in 64 kB with the code: bits, every.
CHOICES = {
    "ecg_rhythm r104": (16, 1),
    "ecg_rhythm r201": (16, 2),
    "wisdm_watch p1601": (8, 16),
    "wisdm_watch p1610": (8, 16),
    "emg_gestures p01": (8, 5),
    "emg_gestures p06": (8, 5),
    "phone_watch s01": (8, 2),
    "phone_watch s05": (8, 4),
    "room_occupancy room": (8, 12),
    "gesture_phase persona_story1": (8, 2),
    "gesture_phase persona_story3": (8, 2),
}
N_STRETCHES, JUDGED = 80, 10


def measure(name: str, data: Path) -> Row:
    data_set, person = name.split()
    bits, every = CHOICES[name]
    people = stream_people([data_set], [person], data)["stream"][data_set]
    train, test, *_ = split_stream(people.load(person), scale=False).streams
    clf = StreamClassifier(10).fit(train)
    code = write_c(PlainModel.of(clf), bits=bits, every=every, fixed=True)
    past = clf.width_ + clf.features_.lift.memory  # steps that a decision depends on
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(Path(folder), sources_of(code, test.values.shape[1]))
        same = []
        for first, last in stretches(test, past):
            values = test.values[first:last].astype(np.float64)
            wanted, known = codes_of(clf, Stream(values, channels=test.channels))
            known[:-JUDGED] = False
            same += (run(program, values).states == wanted)[known].tolist()
    whole = with_code(code)
    return {
        "stream": name,
        "channels": len(clf.channels_),
        "states": len(clf.classes_),
        "references": len(clf.references_),
        "bits": bits,
        "every": every,
        "tables_kB": code.flash / 1e3,
        "flash_kB": None if whole is None else whole / 1e3,
        "RAM_kB": code.ram / 1e3,
        "same": float(np.mean(same)),
        "of": len(same),
    }


def with_code(code: CSource) -> int | None:
    """The size of the tables and the code on a small ARM."""
    compiler, size = map(shutil.which, ("arm-linux-gnueabihf-gcc", "arm-linux-gnueabihf-size"))
    if compiler is None or size is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        for name, content in code.files().items():
            Path(folder, name).write_text(content, encoding="utf-8")
        flags = ["-std=c99", "-Os", "-mthumb", "-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-c"]
        subprocess.run([compiler, *flags, "mlat.c"], cwd=folder, check=True)
        told = subprocess.run(
            [size, "mlat.o"], cwd=folder, check=True, capture_output=True, text=True
        )
    text, data = map(int, told.stdout.splitlines()[1].split()[:2])
    return text + data


def stretches(test: Stream, past: int) -> list[tuple[int, int]]:
    """The first step and the end of each stretch: what is judged, with its past if it has one."""
    length = past + JUDGED
    segments = [(int(start), int(stop)) for start, stop, _ in test.segments]
    segments = [(a, b) for a, b in segments if b - a >= length] or segments
    ends = [(a, end) for a, b in segments for end in range(min(a + length, b), b + 1)]
    chosen = np.linspace(0, len(ends) - 1, N_STRETCHES).astype(int)
    return [(max(ends[i][0], ends[i][1] - length), ends[i][1]) for i in chosen]


def on_streams(
    bench: Bench,
    data: Annotated[Path, typer.Argument(help="Where the sets of whole streams are.")],
    only: Annotated[str | None, typer.Option(help="One, such as 'ecg_rhythm r104'.")] = None,
) -> None:
    """How small a model in C can be on real streams, and how many decisions stay the same."""
    rows = []
    for name in CHOICES:
        if only in (None, name):
            bench.say(f"[dim]{name}")
            rows.append(measure(name, data))
            bench.keep(rows)
    bench.table("Models in C on whole streams", rows, percent=("same",))
