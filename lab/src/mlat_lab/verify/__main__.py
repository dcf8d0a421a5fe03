"""``python -m mlat_lab.verify``: checks that no step is lost, doubled or out of order.

``run`` plays a recording to ``mlat live`` and kills it (SIGKILL) repeatedly until the recording
ends, and checks the journal (:mod:`mlat.live.journal.verify`). ``fuzz`` damages and forges model
files, snapshots and journals, recordings of every format, or tables and logs of labels, and looks
what comes of it. ``chaos`` does all that at once for some time: a live session that is fed by a
broker which restarts, and taught by two pages, and two tabs that label a recording, while both
programs are killed, their disk is slow or full, and their clock jumps. Exit status
1: something is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from mlat.base.errors import InputError, MlatError
from mlat.classifier.classifier import StreamClassifier
from mlat.classifier.model_file import load
from mlat.live.core.steps import Steps
from mlat.live.journal.verify import BrokenError, check_journal, read_unbroken
from mlat.live.sources.replay import read_recording
from mlat.stream.stream import Stream
from mlat.stream.write import write_stream
from mlat.synthetic import rotating_states

from .feeds import Broadcast, Teacher, as_it_came, free_port
from .fuzz import fuzz, make_subjects
from .kills import FULL, MOMENTS, Forked, Kills, Life, Spawned, Troubles, kill_until_end
from .label_files import make_label_files
from .recordings import make_recordings
from .tabs import Tabs

ROUND = 60.0  # seconds of one journal
WRONG, BAD_INPUT, INTERRUPTED = 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; return the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = given[given.index("--") + 1 :] if "--" in given else []
    args = _parser().parse_args(given[: len(given) - len(options) - ("--" in given)])
    args.options = options
    try:
        lines = {"run": _run, "fuzz": _fuzz, "chaos": _chaos}[args.command](args)
    except BrokenError as error:
        print(f"verify: WRONG: {error}", file=sys.stderr)
        return WRONG
    except MlatError as error:
        print(f"verify: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("verify: interrupted", file=sys.stderr)
        return INTERRUPTED
    for line in lines:
        print(f"verify: {line}")
    return 0


def _fuzz(args: argparse.Namespace) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="mlat-fuzz-") as folder:
        subjects = make_subjects()
        if args.recordings:
            subjects = make_recordings(Path(folder))
        elif args.labels:
            subjects = make_label_files(Path(folder))
        more = {"subjects": subjects, "first": args.first, "tell": print}
        report = fuzz(args.cases, args.seed, **more)
    for failure in report.failures[:20]:
        print(f"verify: {failure}", file=sys.stderr)
    if report.failures:
        raise BrokenError(f"{len(report.failures)} of {report.cases} cases went wrong")
    return [*report.lines(), "nothing but refusals, and what can be used"]


def _run(args: argparse.Namespace) -> list[str]:
    """Run rounds until there were enough kills; check the journal after each."""
    recording = read_recording(args.recording, tuple(load(args.model).channels_))
    chance = random.Random(args.seed)
    kills = Kills(args.kills, chance, 0.3 if args.fork else 2.0)  # a guess, then measured
    if args.fork:
        Forked.prepare(args.model)
    folder = args.journal or Path(tempfile.mkdtemp(prefix="mlat-verify-"))
    with _kept_if_wrong(folder, args.journal is not None):
        played = _Played(args, kills, Forked if args.fork else Spawned, folder)
        while not kills.rounds or kills.done < kills.wanted:
            played.round(recording)
    return played.lines()


def _chaos(args: argparse.Namespace) -> list[str]:
    """Rounds of a minute at most, and beside them two tabs that label, until the time is over."""
    began, folder = time.monotonic(), Path(tempfile.mkdtemp(prefix="mlat-chaos-"))
    chance = random.Random(args.seed)
    troubles = [Troubles(), Troubles(disk=0.2), Troubles(clock=86_400.0)]
    with _kept_if_wrong(folder, False), ThreadPoolExecutor(1) as pool:
        made = partial(rotating_states, n_channels=3, noise=0.3)
        args.model, args.recording = folder / "walk.mlat", folder / "label" / "walk.csv"
        StreamClassifier(8, metric="euclidean").fit(made()).save(args.model)
        args.recording.parent.mkdir()
        stream = made(random_state=1)
        write_stream(args.recording, Stream(stream.values, channels=stream.channels))
        Forked.prepare(args.model)
        until = began + args.seconds
        tabs = Tabs(args.recording, len(stream), random.Random(chance.random()), troubles, until)
        labelling = pool.submit(tabs.run)
        kills = Kills(math.inf, chance, 0.3, (*MOMENTS, FULL))
        played = _Played(
            args, kills, lambda a, out, said: Forked(a, out, said, chance.choice(troubles)), folder
        )
        try:
            while (left := until - time.monotonic()) > 0 and not labelling.done():
                n = math.ceil(_rate(args.pace) * min(left, ROUND))
                runs = math.ceil(n / len(stream) * 3)
                values = made(random_state=kills.rounds, runs_per_state=runs).values
                played.round(Steps(values[:n].astype(np.float64)))
        finally:
            tabs.until = 0.0  # what went wrong is said now
        labelling.result()
    counts = ", ".join(f"{n} {what}" for what, n in sorted(tabs.counts.items()))
    return [*played.lines(), f"labels of two tabs: {counts}; nothing acknowledged is lost"]


class _Played:
    """Rounds of ``mlat live``, and what came of them."""

    def __init__(
        self,
        args: argparse.Namespace,
        kills: Kills,
        start: Callable[[Sequence[str], Path, Path], Life],
        folder: Path,
    ) -> None:
        self._args, self._kills, self._start, self._folder = args, kills, start, folder
        self._classifier = load(args.model)
        self._began = time.monotonic()
        self._found: list[str] = []
        self._restarts = self._examples = self._steps = self._early = 0

    def round(self, recording: Steps) -> None:
        """Play a recording from its begin to its end; `BrokenError` if anything is wrong."""
        args, kills = self._args, self._kills
        place = self._folder / f"round-{kills.rounds}"
        try:
            place.mkdir(parents=True)
        except FileExistsError:
            raise InputError(f"{place} exists already; give a folder for new journals") from None
        teachers: list[Teacher] = []
        with contextlib.ExitStack() as stack:
            source, through = f"replay:{args.recording}@{args.pace}", _has_ended
            if args.mqtt:
                broker = Broadcast(recording, _rate(args.pace), place / "broker", kills.random)
                stack.enter_context(broker)
                source, through = broker.source, broker.through
            arguments = ["live", str(args.model), "--source", source]
            if args.teach:
                port, states = free_port(), self._classifier.classes_.tolist()
                arguments += ["--serve", f"127.0.0.1:{port}"]
                for some, undoes in ((states[::2], True), (states[1::2], False)):
                    chance = random.Random(kills.random.random())
                    teachers.append(Teacher(some, port, chance, undoes=undoes))
                    stack.enter_context(teachers[-1])
            kill_until_end(
                [*arguments, "--far", "off", "--dead", "off", *args.options],
                place,
                kills,
                self._start,
                through=through,
                n_steps=len(recording) if args.mqtt or args.teach else None,
                report=print if args.verbose else lambda _: None,
            )
        inputs = read_unbroken(place / "journal").records.whole.inputs
        if args.mqtt:
            recording, early = as_it_came(recording, inputs)
            self._early += early
        self._found = check_journal(place / "journal", self._classifier, recording)
        _check_complete(self._found, place / "journal", recording)
        self._steps += len(recording)
        if args.mqtt:
            self._restarts += broker.restarts
        for teacher in teachers:
            self._found.append(teacher.check(inputs))
            self._examples += len(teacher.sent)
        if args.journal is None:
            shutil.rmtree(place)

    def lines(self) -> list[str]:
        kills, args = self._kills, self._args
        moments = ", ".join(f"{n} at {moment}" for moment, n in sorted(kills.moments.items()))
        return [
            f"{kills.done} kills in {kills.rounds} rounds ({moments}), "
            f"{f'{self._restarts} restarts of the broker, ' if args.mqtt else ''}"
            f"{f'which sent {self._early} steps early, ' if self._early else ''}"
            f"{f'{self._examples} examples, ' if args.teach else ''}"
            f"{time.monotonic() - self._began:.0f} s; the last round:",
            *self._found,
            f"{kills.n_printed} of {self._steps} predictions were printed, none of them twice and "
            "none before it was on disk",
        ]


@contextlib.contextmanager
def _kept_if_wrong(folder: Path, is_wanted: bool) -> Iterator[None]:
    """Remove a folder at the end, unless it is wanted or shows what is wrong."""
    try:
        yield
    except BrokenError:
        is_wanted = True
        print(f"verify: see {folder}", file=sys.stderr)
        raise
    finally:
        if not is_wanted:
            shutil.rmtree(folder)


def _has_ended(said: Path) -> bool:
    """Whether a session with a page, which does not end by itself, has said so."""
    return said.exists() and "the source has ended" in said.read_text()


def _rate(pace: str) -> float:
    try:
        return math.inf if pace == "max" else float(pace)
    except ValueError:
        raise InputError(f"--pace {pace}: give steps a second, or max") from None


def _check_complete(found: Sequence[str], journal: Path, recording: Steps) -> None:
    whole = f"{len(recording)} of {len(recording)} steps of the recording"
    if not any(line.startswith(whole) for line in found):
        raise BrokenError(f"{journal}: the source ended, but steps of the recording are missing")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m mlat_lab.verify", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="kill mlat live repeatedly")
    run.add_argument("model", type=Path)
    run.add_argument("recording", type=Path)
    run.add_argument("--kills", type=int, default=50)
    run.add_argument("--seed", type=int, default=None, help="of the moments; default random")
    run.add_argument("--journal", type=Path, help="keep the journals there; default keeps none")
    run.add_argument("--pace", default="2000", help="steps a second, or max")
    run.add_argument(
        "--mqtt", action="store_true", help="through a mosquitto that restarts now and then"
    )
    run.add_argument("--teach", action="store_true", help="and teach through the page all the time")
    run.add_argument("--fork", action="store_true", help="fork instead of starting Python")
    run.add_argument("--verbose", action="store_true", help="print a line for each kill")
    run.epilog = "Options after -- are given to mlat live."
    chaos = commands.add_parser("chaos", help="everything at once, for some time")
    chaos.add_argument("--seconds", type=float, default=60.0)
    chaos.add_argument("--seed", type=int, default=None)
    chaos.add_argument("--pace", default="400", help="steps a second")
    chaos.add_argument("--verbose", action="store_true", help="print a line for each kill")
    chaos.set_defaults(mqtt=True, teach=True, journal=None)
    fuzzing = commands.add_parser("fuzz", help="damage and forge files, and open them")
    fuzzing.add_argument(
        "--recordings", action="store_true", help="recordings of every format that mlat reads"
    )
    fuzzing.add_argument("--labels", action="store_true", help="tables and logs of labels")
    fuzzing.add_argument("--cases", type=int, default=10_000)
    fuzzing.add_argument("--seed", type=int, default=0)
    fuzzing.add_argument("--first", type=int, default=0, help="the first case, to repeat one")
    return parser


if __name__ == "__main__":
    sys.exit(main())
