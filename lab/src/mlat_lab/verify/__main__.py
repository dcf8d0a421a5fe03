"""``python -m mlat_lab.verify``: checks that no step is lost, doubled or out of order.

``run`` plays a recording to ``mlat live`` and kills it (SIGKILL) repeatedly until the recording
ends, and checks the journal (:mod:`mlat.live.journal.verify`). ``fuzz`` damages and forges model
files, snapshots and journals, or recordings of every format, and looks what comes of it. Exit
status 1: something is wrong.
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
from collections.abc import Sequence
from pathlib import Path

from mlat.base.errors import InputError, MlatError
from mlat.classifier.model_file import load
from mlat.live.core.steps import Steps
from mlat.live.journal.description import BrokenError, read_journal
from mlat.live.journal.verify import check_journal
from mlat.live.sources.replay import read_recording

from .feeds import Broadcast, Teacher, free_port
from .fuzz import fuzz, make_subjects
from .kills import Forked, Kills, Spawned, kill_until_end
from .recordings import make_recordings

WRONG, BAD_INPUT, INTERRUPTED = 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; return the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = given[given.index("--") + 1 :] if "--" in given else []
    args = _parser().parse_args(given[: len(given) - len(options) - ("--" in given)])
    args.options = options
    try:
        lines = {"run": _run, "fuzz": _fuzz}[args.command](args)
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
        subjects = make_recordings(Path(folder)) if args.recordings else make_subjects()
        more = {"subjects": subjects, "first": args.first, "tell": print}
        report = fuzz(args.cases, args.seed, **more)
    for failure in report.failures[:20]:
        print(f"verify: {failure}", file=sys.stderr)
    if report.failures:
        raise BrokenError(f"{len(report.failures)} of {report.cases} cases went wrong")
    return [*report.lines(), "nothing but refusals, and what can be used"]


def _run(args: argparse.Namespace) -> list[str]:
    """Run rounds until there were enough kills; check the journal after each."""
    classifier = load(args.model)
    recording = read_recording(args.recording, tuple(classifier.channels_))
    start_up = 0.3 if args.fork else 2.0  # a guess, then measured
    kills = Kills(args.kills, random.Random(args.seed), start_up)
    began = time.monotonic()
    folder = args.journal or Path(tempfile.mkdtemp(prefix="mlat-verify-"))
    found: list[str] = []
    is_wanted = args.journal is not None
    restarts = n_examples = 0
    try:
        while not kills.rounds or kills.done < kills.wanted:
            place = folder / f"round-{kills.rounds}"
            try:
                place.mkdir(parents=True)
            except FileExistsError:
                raise InputError(
                    f"{place} exists already; give a folder for new journals"
                ) from None
            with contextlib.ExitStack() as stack:
                source, through = f"replay:{args.recording}@{args.pace}", _has_ended
                if args.mqtt:
                    broker = Broadcast(recording, _rate(args.pace), place / "broker", kills.random)
                    stack.enter_context(broker)
                    source, through = broker.source, broker.through
                arguments = ["live", str(args.model), "--source", source]
                if args.teach:
                    port = free_port()
                    arguments += ["--serve", f"127.0.0.1:{port}"]
                    states = classifier.classes_.tolist()
                    teacher = stack.enter_context(Teacher(states, port, random.Random(args.seed)))
                kill_until_end(
                    [*arguments, "--far", "off", "--dead", "off", *args.options],
                    place,
                    kills,
                    Forked if args.fork else Spawned,
                    through=through,
                    n_steps=len(recording) if args.mqtt or args.teach else None,
                    report=print if args.verbose else lambda _: None,
                )
            found = check_journal(place / "journal", classifier, recording)
            _check_complete(found, place / "journal", recording)
            if args.mqtt:
                restarts += broker.restarts
            if args.teach:
                found.append(teacher.check(read_journal(place / "journal")))
                n_examples += len(teacher.sent)
    except BrokenError:
        is_wanted = True  # to see what is wrong
        raise
    finally:
        if not is_wanted:
            shutil.rmtree(folder)
    moments = ", ".join(f"{n} at {moment}" for moment, n in sorted(kills.moments.items()))
    return [
        f"{kills.done} kills in {kills.rounds} rounds ({moments}), "
        f"{f'{restarts} restarts of the broker, ' if args.mqtt else ''}"
        f"{f'{n_examples} examples, ' if args.teach else ''}"
        f"{time.monotonic() - began:.0f} s; the last round:",
        *found,
        f"{kills.n_printed} of {kills.rounds * len(recording)} predictions were printed, none of "
        "them twice and none before it was on disk",
    ]


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
    fuzzing = commands.add_parser("fuzz", help="damage and forge files, and open them")
    fuzzing.add_argument(
        "--recordings", action="store_true", help="recordings of every format that mlat reads"
    )
    fuzzing.add_argument("--cases", type=int, default=10_000)
    fuzzing.add_argument("--seed", type=int, default=0)
    fuzzing.add_argument("--first", type=int, default=0, help="the first case, to repeat one")
    return parser


if __name__ == "__main__":
    sys.exit(main())
