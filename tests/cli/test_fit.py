"""``mlat fit`` and ``mlat inspect`` for a committee, for single metrics and for lifts."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import mlat
from cli_runs import SENSORS, WIDTH, refused, run, write_csv
from mlat.base.work import report
from mlat.cli import screen
from mlat.cli.fit import GOES_WITH
from mlat.cli.options import flag_of
from mlat.explain import experts_of
from mlat.explain.confusions import held_out_confusions
from mlat.label import spans_of, write_spans
from mlat.synthetic import rotating_states

train = rotating_states(**SENSORS)
again = rotating_states(**SENSORS, random_state=1)
ENERGIES = "identity,running_magnitude,running_deviation,running_difference"


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with a stream, another of its sensors and a model, and what fitting said."""
    place = tmp_path_factory.mktemp("auto")
    write_csv(place / "walk.csv", train)
    write_csv(place / "again.csv", again)
    where = ["--label", "state", "--width", WIDTH, "-o", place / "walk.mlat"]
    out, error = run("fit", place / "walk.csv", *where)
    assert error == ""
    return place, out


@pytest.fixture
def fitted_folder(fitted) -> Path:
    return fitted[0]


def weights(out: str) -> dict[str, tuple[str, str]]:
    """What the table of the committee says of each expert: its weight, and how good it is alone."""
    rows = re.findall(r"│ (\S.*?) +│ .*?│ +\d* │ +(\d+%|left out) │ +([\d.]*%?) │", out)
    return {name: (weight, alone) for name, weight, alone in rows}


# fit


def test_fit_tells_who_is_in_the_committee(fitted):
    place, out = fitted
    clf = mlat.load(place / "walk.mlat")
    committee = clf.committee_
    assert weights(out) == {
        member.name: (
            f"{member.weight:.0%}" if member.weight else "left out",
            f"{member.accuracy:.1%}",
        )
        for member in committee.members
    }
    assert re.search(rf"│ all together +│ +│ +│ +│ +{committee.accuracy:.1%} │", out)
    assert f"\nWeights from {committee.n_runs} held-out runs" in out
    assert "│ running deviation, running difference " in out
    for member, expert in zip(committee.deciding, clf.experts_, strict=True):
        learned = "MLAT, solver filter: loss" if expert.windows.width > 1 else "100 trees."
        if expert.metric is None:
            learned = "Euclidean distance: of whitened features."
        assert f"\n{member.name}: {learned}" in out
    assert re.search(r"\nLearned in [\d.]+ s\.\n", out)


def test_fit_says_what_to_expect_of_what_beside_what_guessing_gives(fitted):
    _, out = fitted
    clf = mlat.StreamClassifier(WIDTH).fit(train)
    expected, found = clf.committee_.expected, held_out_confusions(clf)
    assert out.startswith(
        f"Expected of this recording: balanced accuracy {expected.accuracy:.0%}, nine times in "
        f"ten from {expected.low:.0%} to {expected.high:.0%}; guessing: 25%. Of another recording: "
        "unknown.\n"
    )
    for state, recall in zip(found.states, found.recall, strict=True):
        assert re.search(rf"│ {state} +│ +2 │ +120 │ +\d+ │ +{recall:.1%} │", out)


def noise(n_states: int, n_runs: int, seed: int = 0) -> mlat.Stream:
    values = np.random.default_rng(seed).normal(size=(n_states * n_runs * 40, 2))
    return mlat.Stream(values, np.repeat(np.tile(np.arange(n_states), n_runs), 40))


@pytest.mark.parametrize("metric", ["auto", "mlat", "euclidean"])
def test_fit_of_noise_is_warned_about(metric, in_folder):
    write_csv(Path("noise.csv"), noise(3, 4))
    where = ["--label", "state", "-o", "m.mlat", "--metric", metric]
    _, error = run("fit", "noise.csv", *where)
    assert re.fullmatch(
        r"mlat: warning: no better than guessing, as far as 12 runs can tell: balanced accuracy "
        r"\d\d\.\d%, guessing 33\.3%; check the labels and the channels, or label more runs of "
        r"each state\n",
        error,
    )
    for command in ("evaluate", "predict"):
        write_csv(Path("other.csv"), noise(3, 5, seed=1))
        out, error = run(command, "m.mlat", "other.csv", "--label", "state")
        assert "mlat: warning: no better than guessing, as far as 15 runs can tell" in error
        assert "Guessing: 33.3%." in (out if command == "evaluate" else error)


def test_few_runs_are_said_to_tell_nothing(in_folder):
    stream, new = (rotating_states({"a": 0.0, "b": 0.2}, **SENSORS, random_state=i) for i in (0, 1))
    write_csv(Path("s.csv"), new)
    mlat.StreamClassifier(WIDTH, metric="euclidean").fit(stream).save("m.mlat")
    out, error = run("evaluate", "m.mlat", "s.csv", "--label", "state", "--no-pictures")
    said = "4 runs of 2 states are too few to tell this from guessing; label more runs"
    assert (said in out, error) == (True, "")


def test_accuracy_is_that_of_score_with_an_unknown_state_too(in_folder):
    clf = mlat.StreamClassifier(WIDTH, metric="euclidean", unknown_rate=0.2).fit(train)
    clf.save("m.mlat")
    write_csv(Path("again.csv"), again)
    assert (clf.predict(again)[WIDTH:] == "").any()
    out, _ = run("evaluate", "m.mlat", "again.csv", "--label", "state", "--no-pictures")
    assert f"Accuracy {clf.score(again):.1%}: " in out
    assert "unknown" in out


def test_fit_without_anything_to_judge_by(in_folder):
    short = rotating_states(**SENSORS, run_length=15, runs_per_state=1)
    write_csv(Path("s.csv"), short)
    out, _ = run("fit", "s.csv", "--label", "state", "-o", "m.mlat")
    assert {weight for weight, _ in weights(out).values()} == {"25%"}
    assert {alone for _, alone in weights(out).values()} == {""}
    assert "Usual weights: fewer than two states have runs far enough apart" in out
    assert "Weights from" not in out
    assert "Expected accuracy: unknown." in out
    assert mlat.load("m.mlat").committee_.expected is None


def test_accuracy_within_runs_is_not_called_held_out(in_folder):
    """One run of each state: what is left out of it is of the same run."""
    write_csv(Path("s.csv"), rotating_states(**SENSORS, run_length=150, runs_per_state=1))
    out, _ = run("fit", "s.csv", "--label", "state", "-o", "m.mlat")
    assert "Expected accuracy: unknown." in out
    assert "alone, within runs" in out
    assert "It says nothing of another run" in out
    assert "held-out parts of runs" in out
    assert "alone, held out" not in out
    assert "held-out runs" not in out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--solver", "admm"], "--solver goes with --metric mlat, not with auto; add that"),
        (["--metric", "lmnn", "--solver", "admm"], "mlat, not with lmnn"),
        (["--n-targets", "3"], "--n-targets goes with --metric mlat or lmnn, not with auto"),
        (["--target-gap", "run"], "--target-gap goes with"),
        (["--shrinkage", "0"], "--shrinkage goes with"),
        (["--metric", "euclidean", "--shrinkage", "1"], "mlat or lmnn, not with euclidean"),
        (["--lift", "rectified"], "--lift goes with --metric mlat, lmnn or euclidean, not with a"),
        (["--whiten"], "--whiten goes with"),
        (
            ["--n-neighbors", "3"],
            "--n-neighbors goes with --metric mlat, lmnn or euclidean, not with a",
        ),
        (["--metric", "mlat", "--reach", "9"], "--reach goes with --metric auto, or with a --lift"),
        (["--metric", "mlat", "--lift", "rectified", "--reach", "9"], "--lift that looks back"),
        (["--metric", "mlat", "--lift", "squared"], "--lift knows no map 'squared'; there are id"),
        (["--metric", "mlat", "--lift", "a,,b"], "--lift a,,b has an empty name"),
        (["--unknown-rate", "1"], "--unknown-rate must be a number from 0 to less than 1, not 1"),
        (["--unknown-rate", "-0.1"], "--unknown-rate must be a number from 0"),
        (["--metric", "best"], "'best'"),
        (["--width", "0"], "--width must be steps or seconds, such as 5 or 0.1s"),
        (["--neighbors", "3"], "No such option"),
    ],
)
def test_fit_refuses_what_would_go_unheard(in_folder, options, words):
    # There is no stream: an option is refused before the long work.
    line = refused("fit", "none.csv", "--label", "state", *options, "-o", "x.mlat")
    assert words in line
    assert not list(in_folder.iterdir())


def test_every_option_that_goes_with_some_metrics_exists():
    listed = run("fit", "--help")[0]
    assert all(flag_of(name) in listed for name in GOES_WITH)


def test_fit_passes_on_what_auto_takes(fitted_folder, tmp_path, monkeypatch):
    asked = []
    fit = mlat.StreamClassifier.fit

    def remember(self, stream):
        asked.append(self.get_params())
        return fit(self.set_params(metric="euclidean"), stream)

    monkeypatch.setattr(mlat.StreamClassifier, "fit", remember)
    where = ["--label", "state", "-o", tmp_path / "m.mlat"]
    more = ["--reach", "30", "--unknown-rate", "0.1"]
    run("fit", fitted_folder / "walk.csv", *where)
    run("fit", fitted_folder / "walk.csv", *where, *more)
    names = ("metric", "reach", "n_neighbors", "unknown_rate", "width")
    assert [[one[name] for name in names] for one in asked] == [
        ["auto", None, None, 0.0, 10],
        ["auto", 30, None, 0.1, 10],
    ]


def test_fit_with_a_lift(fitted_folder, tmp_path):
    model = tmp_path / "m.mlat"
    where = ["--label", "state", "--width", "4", "-o", model, "--metric", "euclidean"]
    lift = ["--lift", ENERGIES, "--reach", "20", "--whiten"]
    out, _ = run("fit", fitted_folder / "walk.csv", *where, *lift)
    assert "Features: 16 at each step (identity, running_magnitude," in out
    assert "whitened within states). A state depends on the last 24 steps." in out
    assert "Euclidean distance: of whitened features." in out
    assert "The committee" not in out
    expected = mlat.StreamClassifier(
        4, metric="euclidean", lift=mlat.Lift(ENERGIES.split(","), 20), whiten=True
    ).fit(train)
    assert (mlat.load(model).predict(again) == expected.predict(again)).all()


def test_an_expert_that_is_narrower_than_its_width_says_so(tmp_path):
    stream = rotating_states(n_channels=9, run_length=120, runs_per_state=2)
    mlat.write_stream(tmp_path / "a.csv", stream)
    where = ["--label", "state", "-o", tmp_path / "m.mlat", "--width", "1s"]
    said = run("fit", tmp_path / "a.csv", *where, "--rate", "50")[0]
    assert "windows of 10 steps, for those of 50 have more values than it can learn from" in said
    assert "than it can learn from" not in run("fit", tmp_path / "a.csv", *where, "--rate", "40")[0]


def test_left_out_by_the_width_of_the_widest_expert(tmp_path):
    single = rotating_states(**SENSORS, run_length=60, runs_per_state=1)
    states = single.states.copy()
    states[12:16] = ""
    stream = mlat.Stream(single.values, states, channels=single.channels)
    file = write_csv(tmp_path / "s.csv", stream)
    where = ["--label", "state", "-o", tmp_path / "m.mlat", "--width", "20"]
    out, _ = run("fit", file, *where)
    assert mlat.load(tmp_path / "m.mlat").width_ == 20
    assert "Left out: 4 steps without a state, 12 steps in runs of fewer than 20 steps." in out


def test_progress_without_a_known_end(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with screen.working("learning"):
        for step in range(1, 4):
            report("judging", step, 0, {"score": 0.5, "seconds": 7.0})
    shown = capsys.readouterr().err
    assert "learning, judging" in shown
    assert "3 tried" in shown
    assert "3/" not in shown


# inspect


def test_inspect_tells_of_every_expert(fitted, in_folder):
    place, said = fitted
    out, _ = run("inspect", place / "walk.mlat")
    assert weights(out) == weights(said)
    clf = mlat.load(place / "walk.mlat")
    reach = clf.width_ + clf.features_.lift.memory
    assert f"A state depends on the last {reach} steps." in out
    drawn = set()
    sections = re.split(r"\n(?=\S.*, weight \d+% ─)", out)[1:]
    for section, expert in zip(sections, experts_of(clf), strict=True):
        assert section.startswith(f"{expert.name}, weight {expert.weight:.0%} ─")
        seen = f"Sees {len(expert.features)} features, windows of {expert.width} steps."
        assert seen in section
        begin = expert.name.lower().replace(" ", "-")
        drawn.add(f"{begin}-usage.png")
        if expert.width == 1:
            of_trees = "Distance: between what the 100 trees of a forest"
            assert (of_trees in section) == ("forest" in begin)
        else:
            assert "Eigenvalues: " in section
            assert "By lag: size of the block" in section
            drawn |= {f"{begin}-blocks.png", f"{begin}-history.png"}
            assert "By feature: fraction of the weight of single steps" in section
    assert {file.name for file in Path("walk-pictures").iterdir()} == drawn


def test_inspect_a_whitened_euclidean_model(in_folder):
    clf = mlat.StreamClassifier(
        4, metric="euclidean", lift=ENERGIES.split(","), whiten=True, unknown_rate=0.05
    ).fit(train)
    clf.save("m.mlat")
    out, _ = run("inspect", "m.mlat")
    assert "Distance: Euclidean, of whitened features." in out
    assert (
        f"Farther than {clf.confidence_.threshold:.4g} from every reference the state is unknown"
        in out
    )
    assert "By lag" not in out
    mixing = clf.references_.view.mixing
    weights = np.diagonal(mixing @ mixing.T)
    heaviest = clf.feature_names_[int(weights.argmax())]
    assert re.search(rf"│ {heaviest} +│ +{weights.max() / weights.sum():.1%} │", out)
    assert [p.name for p in Path("m-pictures").iterdir()] == ["usage.png"]


def test_fit_says_what_it_learned_from(folder, tmp_path):
    stream = rotating_states(**SENSORS)
    values, states = stream.values.copy(), stream.states.copy()
    values[3, 1] = np.nan  # leaves a run of three steps
    states[100:104] = ""
    file = write_csv(tmp_path / "gaps.csv", mlat.Stream(values, states, channels=stream.channels))
    where = ["--label", "state", "-o", tmp_path / "m.mlat", "--width", WIDTH]
    out, error = run("fit", file, "--metric", "mlat", *where)
    assert error == ""
    assert "480 steps of 4 channels: sensor 1, sensor 2, sensor 3, sensor 4" in out
    assert (
        "Left out: 4 steps without a state, 1 step with a missing value, "
        "3 steps in runs of fewer than 8 steps."
    ) in out
    assert re.search(r"forwards +│ +3 │ +120 │ +102 ", out)  # 60 - 4 - 7 and 60 - 7
    assert re.search(r"MLAT, solver filter: loss [\d.]+ → [\d.]+, \d+ iterations; ", out)
    assert re.search(r"Learned in [\d.]+ s", out)
    assert re.search(r"Model: .*m\.mlat \([\d.]+ kB\)", out)


@pytest.mark.parametrize(
    ("options", "metric", "says"),
    [
        (["--metric", "euclidean"], None, "nothing is learned"),
        (["--metric", "lmnn", "--target-gap", "8"], mlat.LMNN, "LMNN: loss"),
        (
            ["--metric", "mlat", "--solver", "admm", "--stride", "6", "--n-targets", "1"],
            mlat.MLAT,
            "solver admm",
        ),
    ],
)
def test_fit_by_every_metric(folder, tmp_path, options, metric, says):
    model = tmp_path / "m.mlat"
    where = ["--label", "state", "--width", "4", "-o", model]
    assert says in run("fit", folder / "walk.csv", *where, *options)[0]
    assert isinstance(mlat.load(model).metric_, metric or type(None))


def test_fit_passes_its_options_on(folder, tmp_path):
    model = tmp_path / "m.mlat"
    options = [
        "--metric=mlat",
        "--shrinkage=2.5",
        "--n-neighbors=3",
        "--stride=4",
        "--n-targets=2",
        "--width=5",
    ]
    chosen = ["--channels", "sensor 3,sensor 1", "--channels", "sensor 2"]
    chosen += ["--lift", "rectified,low_pass", "--reach", "7", "--whiten", "--unknown-rate=0.02"]
    run("fit", folder / "walk.csv", "--label", "state", *options, *chosen, "-o", model)
    classifier = mlat.load(model)
    assert (classifier.width, classifier.stride, classifier.n_neighbors) == (5, 4, 3)
    assert classifier.channels_ == ("sensor 3", "sensor 1", "sensor 2")
    assert (classifier.metric_.shrinkage, classifier.metric_.n_targets) == (2.5, 2)
    assert list(classifier.features_.lift.maps) == ["rectified", "low_pass"]
    assert classifier.features_.lift.reach == 7
    assert classifier.references_.view.mixing.shape == (6, 6)
    assert classifier.unknown_rate == 0.02
    assert np.isfinite(classifier.confidence_.threshold)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--label", "stat"], "did you mean 'state'?"),
        (
            ["--label", "state", "--metric", "lmnn", "--target-gap", "near"],
            '--target-gap must be a whole number of at least 0 or "run"',
        ),
        (["--label", "state", "--width", "900"], "choose a width of at most 60"),
        (["--label", "state", "--channels", "sensor 1,,sensor 2"], "has an empty name"),
        (["--label", "state", "--max-gap", "3"], "needs the time of the steps (--time)"),
        (["--label", "sensor 1"], "is not a whole number"),
    ],
)
def test_fit_refuses(folder, in_folder, options, words):
    assert words in refused("fit", folder / "walk.csv", *options, "-o", "x.mlat")
    assert not list(in_folder.iterdir())


def test_fit_refuses_a_device_that_is_not_there(folder, in_folder):
    pytest.importorskip("torch")
    options = ("--label", "state", "--metric", "mlat", "--device", "nonsense")
    assert "'nonsense'" in refused("fit", folder / "walk.csv", *options, "-o", "x.mlat")


def test_fit_names_the_line_and_an_option_as_remedy(in_folder):
    Path("s.csv").write_text("a,note,state\n1,2,x\n2,oops,x\n")
    line = refused("fit", "s.csv", "--label", "state", "-o", "x.mlat")
    assert "s.csv, line 3" in line
    assert "'note'" in line
    assert "name the columns to use (--channels)" in line


def test_fit_refuses_a_column_without_states(in_folder):
    Path("s.csv").write_text("a,state\n1,\n2,\n")
    line = refused("fit", "s.csv", "--label", "state", "-o", "x.mlat")
    assert "column 'state' names no state" in line


def test_a_failed_fit_leaves_the_old_model(folder, tmp_path):
    model = tmp_path / "old.mlat"
    model.write_bytes(b"old")
    refused("fit", folder / "walk.csv", "--label", "state", "--width", "900", "-o", model)
    assert model.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [model]


def test_labels_of_a_table_give_the_same_model(folder, tmp_path):
    """The recording has no states of its own: they come from a table of spans."""
    stream = mlat.read_stream(folder / "walk.csv", label="state")
    bare, labels = tmp_path / "bare.csv", tmp_path / "labels.csv"
    lines = (folder / "walk.csv").read_text().splitlines()
    bare.write_text("\n".join(line.rpartition(",")[0] for line in lines) + "\n")
    spans = spans_of(stream)
    named = [span._replace(recording="bare.csv") for span in spans]
    options = ["--metric", "mlat", "--width", WIDTH, "-o", tmp_path / "m.mlat"]
    for table in (spans, [*named, spans[0]._replace(recording="other.csv")]):
        write_spans(labels, table)
        _, error = run("fit", bare, "--labels", labels, *options)
        assert (tmp_path / "m.mlat").read_bytes() == (folder / "walk.mlat").read_bytes()
    assert "labels of recordings that were not read are ignored: other.csv" in error
    by_table = run("evaluate", tmp_path / "m.mlat", bare, "--no-pictures", "--labels", labels)[0]
    where = (tmp_path / "m.mlat", folder / "walk.csv", "--label", "state")
    assert by_table == run("evaluate", *where, "--no-pictures")[0]
    some = tmp_path / "some.csv"
    write_spans(some, spans[:1])
    run("fit", folder / "walk.csv", "--label", "state", "--labels", some, *options)
    assert (tmp_path / "m.mlat").read_bytes() == (folder / "walk.mlat").read_bytes()


def test_labels_that_cannot_be_used_are_refused(folder, tmp_path):
    labels, where = tmp_path / "labels.csv", ["-o", tmp_path / "m.mlat"]
    labels.write_text("start,end,state\n0,999999,walk\n")
    assert "line 2 ends at step 999999, but the recording has only" in refused(
        "fit", folder / "walk.csv", "--label", "state", "--labels", labels, *where
    )
    assert "name their column (--label COL) or a table" in refused(
        "fit", folder / "walk.csv", *where
    )
    labels.write_text("start,end,state\n")
    assert "labels no span" in refused(
        "fit", folder / "walk.csv", "--labels", labels, "--channels", "sensor 1", *where
    )
    labels.write_text("start,end,state\n0,9,1\n")
    assert "the model's states are names" in refused(
        "evaluate", folder / "walk.mlat", folder / "walk.csv", "--labels", labels
    )
    assert "is what is read" in refused(
        "fit", folder / "walk.csv", "--labels", labels, "-o", labels
    )


def test_a_channel_that_gives_the_state_away_is_told(in_folder):
    rng = np.random.default_rng(0)
    states = np.tile(np.repeat(["a", "b", "c"], 60), 3)
    code = np.searchsorted(["a", "b", "c"], states) + 0.01 * rng.normal(size=len(states))
    noise = rng.normal(size=(len(states), 2))
    options = ("--label", "state", "--metric", "euclidean", "-o", "m.mlat")
    write_csv(Path("plain.csv"), mlat.Stream(noise, states))
    assert "alone tells" not in run("fit", "plain.csv", *options)[1]
    both = mlat.Stream(np.column_stack([noise, code]), states, channels=["x", "y", "code"])
    write_csv(Path("code.csv"), both)
    _, error = run("fit", "code.csv", *options)
    told = "channel 'code' alone tells the states, 100.0% of held-out steps by a single value"
    assert told in error
    assert error.count("alone tells") == 1
    easy = mlat.Stream(np.column_stack([code, code]), states)
    write_csv(Path("easy.csv"), easy)
    assert "alone tells" not in run("fit", "easy.csv", *options)[1]


@pytest.mark.parametrize(("rate", "width"), [(None, 10), (20, 20), (50, 40), (5, 10)])
def test_the_default_width_follows_the_rate_and_the_runs(tmp_path, rate, width):
    stream = rotating_states(run_length=240, runs_per_state=2, n_channels=2)
    file, model = write_csv(tmp_path / "walk.csv", stream), tmp_path / "m.mlat"
    given = [] if rate is None else ["--rate", rate]
    run("fit", file, "--label", "state", "-o", model, "--metric", "euclidean", *given)
    assert mlat.load(model).width_ == width


def test_a_width_in_seconds(tmp_path):
    stream = rotating_states(**SENSORS)
    timed = write_csv(tmp_path / "timed.csv", stream, time=np.arange(len(stream)) / 40)
    plain = write_csv(tmp_path / "plain.csv", stream)
    for file, more in ((timed, ()), (plain, ("--rate", 40))):
        arguments = (file, "--label", "state", "-o", tmp_path / "m.mlat", "--metric", "euclidean")
        run("fit", *arguments, "--width", "0.2s", *more)
        assert mlat.load(tmp_path / "m.mlat").width_ == 8
    line = refused("fit", plain, "--label", "state", "-o", tmp_path / "n.mlat", "--width", "0.2s")
    assert "--width 0.2s: nothing says how long a step is" in line
    assert "--rate" in line
    more = ("--label", "state", "-o", tmp_path / "n.mlat", "--rate", 40)
    line = refused("fit", plain, *more, "--width", "0.01s")
    assert "--width 0.01s is shorter than a step, which is 0.025 s" in line
    line = refused("fit", plain, *more, "--reach", "two")
    assert "--reach must be steps or seconds" in line
