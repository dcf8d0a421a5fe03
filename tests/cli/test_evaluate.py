"""``mlat evaluate``."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import numpy as np
import pytest

import mlat
from cli_runs import SENSORS, WIDTH, refused, run, write_csv
from mlat.explain.confusions import count_confusions
from mlat.synthetic import rotating_states

PNG = b"\x89PNG"


again = rotating_states(**SENSORS, random_state=1)


def test_evaluate_tells_and_draws(folder, in_folder):
    model = folder / "walk.mlat"
    out, error = run("evaluate", model, folder / "again.csv", "--label", "state")
    assert error == ""
    assert f"Accuracy {mlat.load(model).score(again):.1%}: " in out
    assert "; 7 more are not judged. Always " in out
    assert "precision" in out
    assert "predicted →" in out
    pictures = in_folder / "again-evaluation"
    assert sorted(p.name for p in pictures.iterdir()) == ["confusion.png", "timeline.png"]
    assert all(p.read_bytes().startswith(PNG) for p in pictures.iterdir())


def test_each_recording_is_judged_and_the_next_one_expected(folder, in_folder):
    """A worse recording is seen, and what to expect of another follows from how they differ."""
    clf = mlat.load(folder / "walk.mlat")
    days = [rotating_states(**SENSORS, random_state=seed) for seed in (1, 2, 3)]
    days[1] = days[1].with_values(days[1].values[:, ::-1])  # put on the wrong way round
    Path("days").mkdir()
    for number, day in enumerate(days):
        write_csv(Path(f"days/day{number}.csv"), day)
    where = (folder / "walk.mlat", "days", "--label", "state", "--no-pictures")
    out, _ = run("evaluate", *where)
    own = [count_confusions(day, clf.predict(day)).balanced_accuracy for day in days]
    rows = re.findall(r"(day\d)\S* +│ +(\d+) │ +([\d.]+%) │", out)
    assert [(name, percent) for name, _, percent in rows] == [
        (f"day{i}", f"{own[i]:.1%}") for i in np.argsort(own)
    ]
    told = json.loads(run("evaluate", *where, "--json")[0])
    assert [one["balanced_accuracy"] for one in told["recordings"]] == pytest.approx(own)
    off = 2.92 * np.std(own, ddof=1) * np.sqrt(4 / 3)  # Student's t of two degrees of freedom
    low, high = np.clip([np.mean(own) - off, np.mean(own) + off], 0, 1)
    assert told["interval"] == pytest.approx([low, high], abs=0.002)
    assert f"of another recording nine times in ten from {low:.0%} to {high:.0%}" in out
    alone, _ = run("evaluate", folder / "walk.mlat", "days/day0.csv", *where[2:])
    assert "of another recording unknown" in " ".join(alone.split())
    assert "By recording" not in alone
    html = Path("r.html")
    run("evaluate", *where, "--html", html)
    text = html.read_text(encoding="utf-8")
    assert re.search(rf"<td>day1[^<]*<td>{rows[0][1]}<td>{own[1]:.1%}", text)


def test_recall_and_precision_by_state(folder, in_folder):
    model = folder / "walk.mlat"
    out, _ = run("evaluate", model, folder / "again.csv", "--label", "state", "--no-pictures")
    predicted = mlat.load(model).predict(again)
    for state in np.unique(again.states):
        mine = (again.states == state) & (predicted != "")
        told = predicted == state
        recall, precision = (mine & told).sum() / mine.sum(), (mine & told).sum() / told.sum()
        assert re.search(rf"{state} +│ +{mine.sum()} │ +{recall:.1%} │ +{precision:.1%} │", out)
    assert not list(in_folder.iterdir())


def test_evaluate_with_confidence_into_a_folder_of_choice(folder, in_folder):
    where = (folder / "walk.mlat", folder / "again.csv", "--label", "state")
    out, _ = run("evaluate", *where, "-o", "a/b", "--confidence")
    assert f"Pictures: {Path('a/b/confusion.png')}, {Path('a/b/timeline.png')}" in out
    plain = Path("a/b/timeline.png").read_bytes()
    run("evaluate", *where, "-o", "a/b")
    assert Path("a/b/timeline.png").read_bytes() != plain


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["walk.mlat", "again.csv"], "name their column (--label COL)"),
        (["walk.mlat", "again.csv", "--label", "sensor 1"], "is the label"),
        (["walk.mlat", "again.csv", "--label", "state", "-o", "again.csv"], "cannot be a folder"),
        (["walk.mlat", "again.csv", "--label", "state", "-o", "again.csv/a"], "cannot be a folder"),
        (["walk.mlat", "none.csv", "--label", "state"], "none.csv is not there"),
    ],
)
def test_evaluate_refuses(folder, monkeypatch, arguments, words):
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    assert words in refused("evaluate", *arguments)
    assert sorted(folder.iterdir()) == before


def test_evaluate_without_a_state_to_judge(folder, in_folder):
    write_csv(Path("short.csv"), again[: WIDTH - 1])
    line = refused("evaluate", folder / "walk.mlat", "short.csv", "--label", "state")
    assert "no labelled step ends a complete window of 8 steps" in line
    Path("none.csv").write_text("sensor 1,sensor 2,sensor 3,sensor 4,state\n" + "1,2,3,4,\n" * 20)
    line = refused("evaluate", folder / "walk.mlat", "none.csv", "--label", "state")
    assert "column 'state' names no state" in line
    assert len(list(in_folder.iterdir())) == 2


def test_evaluate_states_the_model_never_saw(folder, in_folder):
    states = np.where(again.states == "still", "resting", again.states)
    write_csv(Path("s.csv"), mlat.Stream(again.values, states, channels=again.channels))
    out, _ = run("evaluate", folder / "walk.mlat", "s.csv", "--label", "state")
    assert "The model never saw resting: these steps are all wrong." in out
    assert Path("s-evaluation/confusion.png").exists()


def test_steps_that_the_model_was_learned_from_are_told(folder, in_folder):
    model, label = folder / "walk.mlat", ["--label", "state", "--no-pictures"]
    train = rotating_states(**SENSORS)
    half = mlat.Stream.join([train[:200], again])
    write_csv(in_folder / "half.csv", half, recording=half.recordings)
    _, error = run("evaluate", model, in_folder / "half.csv", *label)
    told = f"half.csv: 200 of {len(half)} steps are among those that the model was learned from"
    assert told in error


def test_a_report_is_one_file_with_the_longest_mistakes(folder, in_folder):
    model, file = folder / "walk.mlat", folder / "again.csv"
    out, _ = run("evaluate", model, file, "--label", "state", "--no-pictures", "--html", "r.html")
    assert [file.name for file in in_folder.iterdir()] == ["r.html"]
    assert "Report: r.html" in out
    text = Path("r.html").read_text(encoding="utf-8")
    first = re.search(r"Balanced accuracy ([\d.]+%).*; (.* nine times in ten .*%)", out)
    assert f"<b>{first[1]}</b>" in text
    assert first[2] in text
    assert "When it was learned" in text
    pictures = re.findall(r'src="data:image/png;base64,([^"]+)"', text)
    assert all(base64.b64decode(one).startswith(PNG) for one in pictures)
    assert "http" not in text  # nothing is fetched
    clf = mlat.load(model)
    predicted = clf.predict(again)
    lengths, here = [], 0
    for step in range(len(again)):  # how long one state has been taken for the same other one
        wrong = predicted[step] not in ("", again.states[step])
        same = step and (predicted[step], again.states[step]) == (
            predicted[step - 1],
            again.states[step - 1],
        )
        here = (here + 1 if same else 1) if wrong else 0
        lengths.append(here)
    told = [int(n) for n in re.findall(r"<h3>(\d+) steps of", text)]
    assert told[0] == max(lengths)
    assert told == sorted(told, reverse=True)
    assert len(pictures) == 2 + 2 * len(told)
    assert "choose another file" in refused(
        *["evaluate", model, file, "--label", "state", "--html", file]
    )
