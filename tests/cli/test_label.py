"""``mlat label``: what it refuses, before anything is served or written."""

import csv
import os
import signal
import socket

import pytest

from cli_runs import refused
from label_server import started, states_stream
from mlat import StreamClassifier, read_stream
from mlat.label.recording import Recording
from mlat.label.session import LabelSession


@pytest.fixture
def walk(in_folder):
    stream = states_stream(1)
    with (in_folder / "walk.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(stream.channels)
        rows.writerows(stream.values.tolist())
    (in_folder / "film.csv").write_bytes(b"no film")
    return in_folder


def labelled(folder, *states):
    """Labels as the page leaves them."""
    one = Recording("walk.csv", read_stream(folder / "walk.csv"))
    session = LabelSession([one], folder / "walk.labels.csv")
    for i, state in enumerate(states):
        session.label(0, 10 * i, 10 * i + 5, state)
    session.close()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["none.csv"], "none.csv"),
        (["walk.csv", "-o", "labels.txt"], "labels.txt"),
        (["walk.csv", "-o", "walk.csv"], "is what is read"),
        (["walk.csv", "--media", "film.csv", "-o", "film.csv"], "is what is read"),
        (["walk.csv", "--model", "film.csv", "-o", "film.csv"], "is what is read"),
        (["walk.csv", "-o", "no/folder/x.csv"], "no folder"),
        (["walk.csv", "--model", "none.mlat"], "none.mlat is no file"),
        (["walk.csv", "--media", "none.mp4"], "none.mp4 is no file"),
        (["walk.csv", "--rate", "0"], "steps per second"),
        (["walk.csv", "walk.csv"], "two recordings are called walk.csv"),
        (["walk.csv", "--serve", "0.0.0.0:0"], "needs a token"),
        (["walk.csv", "--serve", "nonsense"], "give a host and a port"),
    ],
)
def test_what_is_refused_leaves_nothing_behind(walk, arguments, says):
    before = {file.name for file in walk.iterdir()}
    assert says in refused("label", *arguments)
    assert {file.name for file in walk.iterdir()} == before


def test_a_model_of_other_channels_is_refused(walk):
    StreamClassifier(5, metric="euclidean").fit(states_stream(1, n_channels=3)).save(
        walk / "other.mlat"
    )
    said = refused("label", "walk.csv", "--model", "other.mlat")
    assert "other.mlat knows the channels sensor 0, sensor 1" in said
    assert not (walk / "walk.labels.csv").exists()


def test_a_name_that_is_no_utf_8_is_refused(walk):
    name = os.fsdecode(b"w\xff.csv")
    (walk / name).write_bytes((walk / "walk.csv").read_bytes())
    assert "cannot be written as UTF-8" in refused("label", name)


def with_notes(folder, state):
    """The recording with a column of states that covers its first ten steps."""
    lines = (folder / "walk.csv").read_text().splitlines()
    notes = ["note", *[state] * 10, *[""] * (len(lines) - 11)]
    content = "".join(f"{a},{b}\n" for a, b in zip(lines, notes, strict=True))
    (folder / "walk.csv").write_text(content)


def test_first_labels_that_are_refused_once_are_taken_when_they_are_right(walk):
    original = (walk / "walk.csv").read_bytes()
    with_notes(walk, "x" * 101)
    before = {file.name for file in walk.iterdir()}
    assert "at most 100 letters" in refused("label", "walk.csv", "--label", "note")
    assert {file.name for file in walk.iterdir()} == before
    (walk / "walk.csv").write_bytes(original)
    with_notes(walk, "walk")
    with socket.create_server(("127.0.0.1", 0)) as busy:
        address = f"127.0.0.1:{busy.getsockname()[1]}"
        said = refused("label", "walk.csv", "--label", "note", "--serve", address)
        assert "cannot serve" in said
    assert {file.name for file in walk.iterdir()} == before
    for _ in range(2):
        process, _ = started(walk, "--label", "note")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert (walk / "walk.labels.csv").read_text() == "start,end,state\n0,10,walk\n"
    assert "--label is left out" in (walk / "said").read_text()


def test_a_column_without_a_state_gives_no_first_labels(walk):
    with_notes(walk, "")
    assert "names no state" in refused("label", "walk.csv", "--label", "note")


def test_a_table_that_is_wrong_is_refused_with_its_line(walk):
    (walk / "walk.labels.csv").write_text("start,end,state\n0,9,a\n5,12,b\n")
    assert "line 3" in refused("label", "walk.csv", "--no-browser")
    assert (walk / "walk.labels.csv").read_text().count("\n") == 3


def test_a_recording_that_changed_is_refused(walk):
    labelled(walk, "a")
    lines = (walk / "walk.csv").read_text().splitlines()
    lines[5] = ",".join(["9"] * 4)
    (walk / "walk.csv").write_text("\n".join(lines) + "\n")
    assert "has changed since it was labelled" in refused("label", "walk.csv", "--no-browser")


def test_a_table_that_another_program_changed_is_asked_about(walk):
    labelled(walk, "a", "b")
    (walk / "walk.labels.csv").write_text("start,end,state\n0,9,a\n")
    said = refused("label", "walk.csv", "--no-browser")
    assert "walk.labels.csv is not as it was written" in said
    assert "give --changed" in said
    assert (walk / "walk.labels.csv").read_text().count("\n") == 2
