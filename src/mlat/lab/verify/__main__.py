"""``python -m mlat.lab.verify``: is nothing lost, doubled or out of order, whatever happens?

``run`` plays a recording to ``mlat live`` and kills it (SIGKILL) again and again until it is
through; ``check`` looks at a journal at rest. Both read the journal by its description, not with
the code that writes it. Exit status 1: something is wrong.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from ...classifier.model_file import load
from ...errors import InputError
from ...live.core.steps import Steps
from ...live.sources.replay import read_recording
from .checks import check_journal
from .kills import Forked, Kills, Spawned, kill_until_through
from .reading import BrokenError

WRONG, BAD_INPUT = 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = given[given.index("--") + 1 :] if "--" in given else []
    asked = _parser().parse_args(given[: len(given) - len(options) - ("--" in given)])
    asked.options = options
    try:
        lines = _run(asked) if asked.command == "run" else _check(asked)
    except BrokenError as error:
        print(f"verify: WRONG: {error}", file=sys.stderr)
        return WRONG
    except InputError as error:
        print(f"verify: {error}", file=sys.stderr)
        return BAD_INPUT
    for line in lines:
        print(f"verify: {line}")
    return 0


def _check(asked: argparse.Namespace) -> list[str]:
    classifier = load(asked.model)
    recording = None
    if asked.recording is not None:
        recording = read_recording(asked.recording, tuple(classifier.channels_))
    return check_journal(asked.journal, classifier, recording)


def _run(asked: argparse.Namespace) -> list[str]:
    """Rounds until there were kills enough; after each the journal is checked."""
    classifier = load(asked.model)
    recording = read_recording(asked.recording, tuple(classifier.channels_))
    start_up = 0.3 if asked.fork else 2.0  # at first; then it is measured
    kills = Kills(asked.kills, random.Random(asked.seed), start_up)
    began = time.monotonic()
    folder = asked.journal or Path(tempfile.mkdtemp(prefix="mlat-verify-"))
    arguments = [
        *["live", str(asked.model), "--source", f"replay:{asked.recording}@{asked.pace}"],
        *["--far", "off", "--dead", "off", *asked.options],
    ]
    found: list[str] = []
    while not kills.rounds or kills.done < kills.wanted:
        place = folder / f"round-{kills.rounds}"
        try:
            place.mkdir(parents=True)
        except FileExistsError:
            raise InputError(f"{place} is there already; name a folder for new journals") from None
        kill_until_through(
            arguments,
            place,
            kills,
            Forked if asked.fork else Spawned,
            say=print if asked.verbose else lambda _: None,
        )
        found = check_journal(place / "journal", classifier, recording)
        _check_complete(found, place / "journal", recording)
    if asked.journal is None:
        shutil.rmtree(folder)
    moments = ", ".join(f"{n} at {moment}" for moment, n in sorted(kills.moments.items()))
    return [
        f"{kills.done} kills in {kills.rounds} rounds ({moments}), "
        f"{time.monotonic() - began:.0f} s; the last round:",
        *found,
        f"{kills.n_shown} of {kills.rounds * len(recording)} predictions were printed, none of "
        "them twice and none before it was on disk",
    ]


def _check_complete(found: Sequence[str], journal: Path, recording: Steps) -> None:
    whole = f"{len(recording)} of {len(recording)} steps of the recording"
    if not any(line.startswith(whole) for line in found):
        raise BrokenError(f"{journal}: the source ended, but steps of the recording are missing")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m mlat.lab.verify", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="kill mlat live again and again")
    run.add_argument("model", type=Path)
    run.add_argument("recording", type=Path)
    run.add_argument("--kills", type=int, default=50)
    run.add_argument("--seed", type=int, default=None, help="of the moments; default another")
    run.add_argument("--journal", type=Path, help="keep the journals there; default none is kept")
    run.add_argument("--pace", default="2000", help="steps a second, or max")
    run.add_argument("--fork", action="store_true", help="skip the start of the interpreter")
    run.add_argument("--verbose", action="store_true", help="a line for each kill")
    run.epilog = "What follows -- are further options of mlat live."
    check = commands.add_parser("check", help="look at a journal at rest")
    check.add_argument("journal", type=Path)
    check.add_argument("model", type=Path)
    check.add_argument("recording", type=Path, nargs="?")
    return parser


if __name__ == "__main__":
    sys.exit(main())
