"""``mlat explain``."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import mlat
from cli_runs import SENSORS, WIDTH, refused, run, write_csv
from explain_models import split_vote
from mlat.explain.explanation import explain
from mlat.synthetic import rotating_states

PNG = b"\x89PNG"


again = rotating_states(**SENSORS, random_state=1)


def test_explain_tells_and_draws(folder, in_folder):
    model = folder / "walk.mlat"
    out, error = run("explain", model, folder / "again.csv", "--label", "state", "--step", 100)
    found = explain(mlat.load(model), again, 100)
    assert error == ""
    assert out.startswith(f"{found.headline}. Window: steps 93 to 100.\n")
    for towards in (found.own, found.other):
        first = f"{towards.distances[0]:.4g}"
        assert f"Nearest {towards.state}: at distance {first}" in out
        assert out.count(f"to {towards.state}") == 2
    assert "Squared distance by feature" in out
    assert "Squared distance by lag" in out
    assert out.endswith("Picture: again-step-100.png\n")
    assert (in_folder / "again-step-100.png").read_bytes().startswith(PNG)
    assert len(list(in_folder.iterdir())) == 1


def test_the_parts_in_a_table_add_up(folder):
    out, _ = run(
        "explain", folder / "walk.mlat", folder / "again.csv", "--step", 100, "--no-picture"
    )
    for table in out.split("Squared distance by")[1:]:
        rows = re.findall(r"│ ([\w ]+?) +│ +([-\d.]+) │ +([-\d.]+) │ +([-+\d.]+) │", table)
        figures = np.array([row[1:] for row in rows], dtype=float)
        assert rows[-1][0] == "all"
        rounding = 10.0 ** -len(rows[0][1].split(".")[1]) * len(rows)
        assert np.allclose(figures[:-1].sum(axis=0), figures[-1], atol=rounding)
        assert np.allclose(figures[:, 1] - figures[:, 0], figures[:, 2], atol=rounding)


def test_the_first_mistake_is_explained_unless_a_step_is_named(folder, in_folder):
    where = (folder / "walk.mlat", folder / "again.csv")
    predicted = mlat.load(where[0]).predict(again)
    wrong = np.flatnonzero((predicted != "") & (predicted != again.states))
    steady = [step for step in wrong if len(set(again.states[step - WIDTH + 1 : step + 1])) == 1]
    out, _ = run("explain", *where, "--label", "state", "--no-picture")
    assert out.startswith(f"Step {steady[0]} is the first mistake away from a switch.\n")
    assert f"truly {again.states[steady[0]]}. Window" in out
    out, _ = run("explain", *where, "--no-picture")
    last = len(again) - 1
    assert out.startswith(f"Step {last} is the last that ends a complete window.\nStep {last}:")
    assert "truly" not in out
    assert not list(in_folder.iterdir())


def test_mistakes_near_a_switch_and_none_at_all(folder, tmp_path):
    model = folder / "walk.mlat"
    told = mlat.load(model).predict(again)
    states = np.where(told == "", again.states, told)
    right = write_csv(
        tmp_path / "s.csv", mlat.Stream(again.values, states, channels=again.channels)
    )
    out, _ = run("explain", model, right, "--label", "state", "--no-picture")
    assert out.startswith(f"There is no mistake; step {len(again) - 1} is the last")
    assert "which is right" in out
    states[50] = "fast" if told[50] != "fast" else "still"
    file = write_csv(tmp_path / "s.csv", mlat.Stream(again.values, states, channels=again.channels))
    out, _ = run("explain", model, file, "--label", "state", "--no-picture")
    assert out.startswith("Step 50 is the first mistake; all are near a switch.")
    assert "The true state changes within the window, at step 50." in out


def test_explain_against_a_state_of_choice(folder):
    where = (folder / "walk.mlat", folder / "again.csv", "--no-picture", "--step", 100)
    own = re.search(r"predicted (\w+)", run("explain", *where)[0])[1]
    for state in {"forwards", "still"} - {own}:
        out, _ = run("explain", *where, "--against", state, "--n-neighbors", 1)
        assert re.search(rf"^Nearest {state}: at distance [\d.]+\.$", out, flags=re.MULTILINE)
    assert "--against nap is no state" in refused("explain", *where, "--against", "nap")
    assert f"{own} is not one of the other states" in refused("explain", *where, "--against", own)


def test_what_more_than_the_nearest_decided_is_said(in_folder):
    train = rotating_states(**SENSORS)
    clf = mlat.StreamClassifier(WIDTH, metric="euclidean", n_neighbors=9).fit(train)
    clf.save("vote.mlat")
    nearest = clf.classes_[np.nan_to_num(clf.class_distances(again)).argmin(axis=1)]
    predicted = clf.predict(again)
    step = int(np.flatnonzero((predicted != nearest) & (predicted != ""))[0])
    file = write_csv(Path("s.csv"), again)
    out, _ = run("explain", "vote.mlat", file, "--no-picture", "--step", step)
    assert f"One of {nearest[step]} is nearer: more than the nearest window decided." in out


def test_a_window_like_no_reference(in_folder):
    clf = mlat.StreamClassifier(WIDTH, metric="euclidean", unknown_rate=0.05)
    clf.fit(rotating_states(**SENSORS)).save("m.mlat")
    far = mlat.Stream(again.values + 50, again.states, channels=again.channels)
    out, _ = run("explain", "m.mlat", write_csv(Path("far.csv"), far), "--step", 100)
    assert "Step 100: no state predicted." in out
    assert "farther from every reference than the model allows" in out
    assert Path("far-step-100.png").exists()


@pytest.mark.parametrize("name", ["a.png", "a.svg", "a.pdf"])
def test_explain_draws_where_it_is_told(folder, in_folder, name):
    out, _ = run("explain", folder / "walk.mlat", folder / "again.csv", "--step", -1, "-o", name)
    assert out.endswith(f"Picture: {name}\n")
    assert [p.name for p in in_folder.iterdir()] == [name]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["walk.mlat", "again.csv", "--step", "3"], "step 3 ends no complete window of 8 steps"),
        (["walk.mlat", "again.csv", "--step", "480"], "there is no step 480"),
        (["walk.mlat", "again.csv", "-o", "a.txt"], "a.txt is of no known kind"),
        (["walk.mlat", "again.csv", "-o", "no/a.png"], "there is no folder"),
        (["walk.mlat", "none.csv"], "none.csv is not there"),
        (["again.csv", "again.csv"], "is not an mlat model"),
        (["walk.mlat", "again.csv", "--label", "stat"], "did you mean 'state'?"),
        (["walk.mlat", "again.csv", "--n-neighbors", "0"], "'--n-neighbors'"),
        (["walk.mlat", "again.csv", "--channels", "a,b"], "--channels names 2 columns"),
    ],
)
def test_explain_refuses(folder, monkeypatch, arguments, words):
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    assert words in refused("explain", *arguments)
    assert sorted(folder.iterdir()) == before


def test_explain_a_stream_too_short(folder, tmp_path):
    short = write_csv(tmp_path / "s.csv", again[:3])
    assert "no unbroken stretch of 8 steps" in refused("explain", folder / "walk.mlat", short)


def test_a_failed_picture_leaves_the_old_one(folder, in_folder):
    Path("a.png").write_bytes(b"old")
    refused("explain", folder / "walk.mlat", folder / "again.csv", "--step", 3, "-o", "a.png")
    assert Path("a.png").read_bytes() == b"old"
    assert len(list(in_folder.iterdir())) == 1


# A committee


@pytest.fixture(scope="module")
def committee(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("committee")
    mlat.StreamClassifier(WIDTH).fit(rotating_states(**SENSORS)).save(place / "walk.mlat")
    write_csv(place / "again.csv", again)
    return place


def test_explain_tells_what_each_expert_says(committee, in_folder):
    clf = mlat.load(committee / "walk.mlat")
    step = int(split_vote(clf, again)[0])
    where = (committee / "walk.mlat", committee / "again.csv", "--label", "state", "--step", step)
    out, error = run("explain", *where)
    assert error == ""
    found = explain(clf, again, step)
    assert f"\n{found.in_words}\n" in out
    for one in found.opinions:
        says = str(one.state) if one.agrees else f"{one.state} (disagrees)"
        figures = [f"{t.distances[0]:.4g}" for t in (one.own, one.other)] + [f"{one.log_odds:+.2f}"]
        row = rf"│ {one.name} +│ +{one.weight:.0%} │ {re.escape(says)} +"
        assert re.search(row + "".join(rf"│ +{re.escape(figure)} " for figure in figures), out)
        assert f"\n{one.name}, weight {one.weight:.0%} ─" in out
    assert re.search(rf"│ all together +│ {found.agreement:.0%} agree │", out)
    assert re.search(rf"│ +{re.escape(f'{found.log_odds:+.2f}')} │\n└", out)
    assert out.count("Squared distance by feature") == len(found.opinions)
    assert (in_folder / f"again-step-{step}.png").read_bytes().startswith(PNG)
    assert len(list(in_folder.iterdir())) == 1


def test_explain_one_expert_of_several(committee, in_folder):
    where = (committee / "walk.mlat", committee / "again.csv", "--step", "100")
    out, _ = run("explain", *where, "--expert", "Forest", "-o", "a.png")
    assert out.count("Squared distance by feature") == out.count("Squared distance by lag") == 1
    assert "\nforest, weight " in out
    assert Path("a.png").read_bytes().startswith(PNG)
    assert "--expert nobody is not in the committee; these are MLAT over channels" in refused(
        "explain", *where, "--expert", "nobody"
    )


def test_a_single_expert_is_not_named(folder):
    where = (folder / "walk.mlat", folder / "again.csv", "--step", "100")
    assert "a single expert; leave --expert out" in refused("explain", *where, "--expert", "x")
