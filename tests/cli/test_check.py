"""``mlat check`` says what is understood before anything is learned."""

from __future__ import annotations

import json

import numpy as np

from cli_runs import refused, run
from mlat import write_stream
from mlat.synthetic import rotating_states

ROWS = "time;ax;temp;dead;state\n"


def recording(folder, gap=5.0):
    """As a table program writes it: a gap in time, missing values, units that are far apart."""
    stream = rotating_states(run_length=40, runs_per_state=1, n_channels=2)
    rng = np.random.default_rng(0)
    lines = []
    for t, (ax, temp) in enumerate(stream.values):
        seconds = t / 50 + (gap if t >= 100 else 0)
        first = "" if t in (7, 8, 90) else f"{ax:.4f}"
        state = "" if t < 10 else stream.states[t]
        lines.append(f"{seconds:.2f};{first};{20000 * temp + rng.normal():.2f};1;{state}\n")
    file = folder / "walk.csv"
    file.write_text((ROWS + "".join(lines)).replace(".", ","))
    return file, stream


def test_it_says_what_was_understood_and_draws_it(tmp_path):
    file, stream = recording(tmp_path)
    out, error = run("check", file, "--label", "state", "-o", tmp_path / "walk.png")
    assert "separated by a semicolon" in error
    assert "decimals are written with a comma" in error
    assert "column 'time' is taken as the time" in error
    assert f"{len(stream)} steps of 3 channels. 1 recording, 50 steps a second" in out
    assert "1 gaps, the longest 5.02 s" in out
    assert "dead never changes" in out
    assert "temp varies" in out
    assert "3 steps miss a value" in out
    assert "mlat predict fills one or two in a row" in out
    assert "10 steps have no state" in out
    assert "One run only of" in out
    assert (tmp_path / "walk.png").read_bytes().startswith(b"\x89PNG")


def test_a_column_of_names_is_taken_for_the_states_and_a_picture_drawn(in_folder):
    file, _ = recording(in_folder)
    out, error = run("check", file)
    assert "column 'state' holds names, and is taken for the states (--label)" in error
    assert out == run("check", file, "--label", "state")[0]
    assert (in_folder / "walk-check.png").read_bytes().startswith(b"\x89PNG")
    text = file.read_text()
    file.write_text(text.replace("\n0,20;", "\n0,20;oops", 1))  # a wrong entry is no state
    assert "column 'ax': 'oops" in refused("check", file, "--no-picture")
    file.write_text(text.replace("\n0,20;", "\n0,20;oops", 1).replace(";state", ";4"))
    assert "column 'ax': 'oops" in refused("check", file, "--no-picture")


def test_in_json(tmp_path):
    file, stream = recording(tmp_path)
    told = json.loads(run("check", file, "--label", "state", "--json", "--no-picture")[0])
    assert told["time"]["gaps"] == 1
    assert round(told["time"]["rate"], 6) == 50
    assert [one["channel"] for one in told["values"]] == ["ax", "temp", "dead"]
    assert round(told["values"][0]["missing"] * len(stream)) == 3
    assert {one["state"] for one in told["states"]} == set(stream.classes.tolist())


def table(file, rows, **columns):
    """A recording at 50 Hz, with columns that are given by step."""
    rng = np.random.default_rng(0)
    names = list(dict.fromkeys(["time", "ax", "ay", "state", *columns]))
    lines = [",".join(names)]
    for t in range(rows):
        own = {"time": t / 50, "ax": rng.normal(), "ay": rng.normal(), "state": "ab"[t // 30 % 2]}
        own |= {name: of(t) for name, of in columns.items()}
        lines.append(",".join(str(own[name]) for name in names))
    file.write_text("\n".join(lines) + "\n")
    return file


def test_it_offers_equal_steps_where_sensors_have_rates_of_their_own(tmp_path):
    file = table(tmp_path / "a.csv", 120, ax=lambda t: "" if t % 2 else t % 7)
    out, _ = run("check", file, "--no-picture")
    assert "rates of their own: equal steps can be made of them (--rate 50)" in out
    assert "One run only" not in out
    assert "rates of their own" not in run("check", file, "--no-picture", "--rate", 25)[0]


def test_it_offers_equal_steps_where_steps_are_lost_and_fit_says_so_too(tmp_path):
    file = table(tmp_path / "a.csv", 400)
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for t, line in enumerate(lines) if t % 35 != 20))
    hint = "gaps in time end runs: equal steps can be made of them (--rate 50)"
    assert hint in run("check", file, "--no-picture")[0]
    model = ["--label", "state", "-o", tmp_path / "a.mlat", "--metric", "euclidean"]
    assert hint in run("fit", file, *model)[0]
    assert hint not in run("fit", file, *model, "--rate", 50)[0]


def test_it_says_that_a_time_may_be_in_milliseconds(tmp_path):
    file = table(tmp_path / "a.csv", 120, time=lambda t: 1714471200000 + 20 * t)
    assert "A step is 20 of the time's units" in run("check", file, "--no-picture")[0]


def test_states_that_are_numbers_are_not_shown_as_a_channel_in_silence(tmp_path):
    file = table(tmp_path / "a.csv", 120, state=lambda t: t // 30 % 2)
    assert "is taken for a channel: say so (--label state)" in run("check", file, "--no-picture")[0]
    said = run("check", file, "--no-picture", "--label", "state")[0]
    assert "is taken for a channel" not in said


def test_of_two_columns_of_texts_both_are_named(tmp_path):
    file = table(tmp_path / "a.csv", 120, note=lambda t: "hello")
    assert "column 'note': 'hello' is not a number" in refused("check", file, "--no-picture")
    file = table(tmp_path / "b.csv", 120, ay=lambda t: "ERR" if t == 9 else t % 5)
    assert "line 11, column 'ay': 'ERR'" in refused("check", file, "--no-picture")


def test_a_recording_that_is_there_twice_is_said_before_anything_is_learned(tmp_path):
    stream = rotating_states(run_length=40, runs_per_state=1)
    file = tmp_path / "twice.csv"
    write_stream(file, stream)
    assert "copies" not in run("check", file, "--no-picture")[1]
    header, *rows = file.read_text().splitlines()
    file.write_text("\n".join([header, *rows, *rows]) + "\n")
    assert "160 of 320 labelled steps are copies" in run("check", file, "--no-picture")[1]
