"""Learning on a Dask cluster: the same metric as on one machine, whatever happens to workers."""

import dataclasses
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("distributed")

from distributed import Client

import mlat
import mlat.cluster
from cluster_processes import SECONDS, Cluster, die, shared_cluster, too_much
from mlat import LMNN, MLAT, InputError, Stream, sliding_windows
from mlat.base import progress
from mlat.base.errors import ServiceError, WorkerError
from mlat.cluster.dask import tasks as team_module
from mlat.cluster.dask.problem import DaskProblem, cells_of, halves, loss_of_part, plan_parts
from mlat.cluster.dask.sources import source_of_windows
from mlat.cluster.dask.tasks import Team
from mlat.synthetic import rotating_states
from problems import random_problem


@pytest.fixture(scope="module")
def client():
    return shared_cluster().client


def small_windows(seed=0, width=5, d=3, run_length=30):
    stream = rotating_states(
        {"a": -0.3, "b": 0.1, "c": 0.4},
        n_channels=d,
        run_length=run_length,
        runs_per_state=2,
        random_state=seed,
    )
    return sliding_windows(stream, width)


def fit_here(metric, windows):
    from sklearn.base import clone

    return clone(metric).fit(windows.X, windows.y, start=windows.start, run=windows.run)


def assert_same(there, here):
    assert there.loss_ == pytest.approx(here.loss_, rel=1e-6)
    assert there.initial_loss_ == pytest.approx(here.initial_loss_, rel=1e-9)
    apart = np.linalg.norm(there.metric_ - here.metric_)
    assert apart <= 1e-6 * np.linalg.norm(here.metric_)
    assert there.n_iter_ == here.n_iter_
    assert there.message_ == here.message_


# ---------------------------------------------------------------- the plan


@given(st.integers(1, 60))
def test_every_pair_of_cells_meets_once_and_all_parts_have_the_same_work(n_shards):
    plans = plan_parts(n_shards)
    n_cells = n_shards * halves(n_shards)
    met = [tuple(sorted(tile)) for plan in plans for tile in plan.tiles]
    assert sorted(met) == [(a, b) for a in range(n_cells) for b in range(a, n_cells)]
    work = {sum(1 if a != b else 0.5 for a, b in plan.tiles) for plan in plans}
    assert len(work) == 1
    for plan in plans:
        assert {cell for tile in plan.tiles for cell in tile} <= set(plan.cells)
        # No part holds much more than the √2/√S of the windows that it must.
        assert len(plan.cells) <= 2.2 * np.sqrt(n_cells * halves(n_shards)) + 1
    assert sorted(cell for plan in plans for cell in plan.pulled) == list(range(n_cells))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=200), st.integers(1, 7))
def test_every_cell_has_its_share_of_every_state(codes, n_shards):
    codes = np.array(codes)
    cell = cells_of(codes, n_shards)
    n_cells = n_shards * halves(n_shards)
    assert 0 <= cell.min() <= cell.max() < n_cells
    for code in np.unique(codes):
        counts = np.bincount(cell[codes == code], minlength=n_cells)
        assert np.ptp(counts) <= 1
        assert (np.diff(cell[codes == code]) >= 0).all(), "a stretch in time"


# ---------------------------------------------------------------- the same sums


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(0, 2**16),
    st.integers(1, 5),
    st.sampled_from([0, 3, "run"]),
    st.booleans(),
)
def test_targets_loss_and_gradient_are_those_of_one_machine(client, seed, shards, gap, rounded):
    """For any number of shards; rounded values have ties, which must fall the same way."""
    local = random_problem(seed, gap=0, push_weight=0.3)
    windows = local.windows
    w, d = windows.width, windows.values.shape[1]
    if rounded:
        windows = replace(windows, values=np.round(windows.values * 2) / 4)
    source = source_of_windows(replace(windows, y=np.array(["a", "b", "c"])[local.codes]))
    windows = replace(windows, values=source.index.unit(windows.values))
    targets = mlat.metric.targets.select_targets(windows, 2, gap=gap)
    here = mlat.metric.Problem(windows, targets, 0.3)
    there = DaskProblem(
        client, source, shards, n_targets=2, gap=gap, push_weight=0.3, shrinkage=0.0
    )
    np.testing.assert_array_equal(there.targets, targets)
    assert there.scale == pytest.approx(here.scale, rel=1e-12)
    assert there.initial_loss == pytest.approx(here.initial_loss, rel=1e-12)
    rng = np.random.default_rng(seed)
    L, H = 0.4 * rng.normal(size=(7, w * d)), 0.4 * rng.normal(size=(3, 2, d))
    for mine, theirs, at in (
        (here.linear_loss(), there.linear_loss(), L),
        (here.filter_loss(), there.filter_loss(), H),
    ):
        value, gradient = mine(at)
        value_there, gradient_there = theirs(at)
        assert value_there == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(gradient_there, gradient, atol=1e-10 * np.abs(gradient).max())
    moments = here.step_moments
    np.testing.assert_allclose(there.step_moments, moments, atol=1e-10 * np.abs(moments).max())
    there.release()


@pytest.mark.parametrize("power", [-900, 700])
def test_windows_in_any_unit_are_learned_from_on_the_cluster(client, power):
    windows, metric = small_windows(), MLAT(max_iter=5)
    scaled = dataclasses.replace(windows, values=np.ldexp(windows.values, power))
    there = mlat.cluster.fit(client, metric, scaled, shards=2)
    here = mlat.cluster.fit(client, metric, windows, shards=2)
    np.testing.assert_array_equal(there.taps_, np.ldexp(here.taps_, -power))


@pytest.mark.parametrize(
    ("metric", "shards"),
    [
        (MLAT(max_iter=12), 2),
        (MLAT(max_iter=8, shrinkage=0.3, n_filters=2), 5),
        (MLAT(solver="admm", max_iter=3), 3),
        (LMNN(max_iter=8, shrinkage=0.1), 4),
        (LMNN(max_iter=8, target_gap=0), 1),
    ],
)
def test_a_fit_on_the_cluster_is_the_fit_here(client, metric, shards):
    windows = small_windows(seed=shards)
    there = mlat.cluster.fit(client, metric, windows, shards=shards)
    assert_same(there, fit_here(metric, windows))
    assert not hasattr(metric, "loss_"), "a copy is fitted"
    assert there.transform(windows.X[:2]).shape[0] == 2


def test_long_windows_take_the_way_along_diagonals_there_too(client):
    windows = small_windows(width=20, run_length=90)
    metric = MLAT(max_iter=4)
    here = fit_here(metric, windows)
    assert_same(mlat.cluster.fit(client, metric, windows, shards=2), here)


def test_traffic_of_an_evaluation_is_a_small_multiple_of_the_parameters(client):
    """Neither parameters nor results hold anything of the windows' number."""
    from mlat_lab.bench.dask import bytes_moved

    windows = small_windows(run_length=150)
    problem = DaskProblem(
        client, source_of_windows(windows), 2, n_targets=3, gap="run", push_weight=0.1,
        shrinkage=0.0,
    )  # fmt: skip
    loss = problem.linear_loss()
    L = np.eye(15)
    loss(L)
    before = bytes_moved()
    for _ in range(5):
        loss(L)
    moved = (bytes_moved() - before) / 5
    # To two parts and back, and what Dask itself says of every task.
    assert 4 * L.nbytes <= moved <= 4 * L.nbytes + 25_000
    assert moved < windows.X.nbytes / 4
    problem.release()


# ---------------------------------------------------------------- deaths


@pytest.fixture(scope="module")
def mortal():
    """A cluster whose workers are killed."""
    with Cluster(2) as cluster:
        yield cluster


def test_a_worker_killed_in_the_middle_of_an_evaluation_changes_nothing(mortal):
    windows = small_windows(run_length=200)
    metric = LMNN(max_iter=6, tol=0.0)
    victim = mortal.workers[0]
    address = mortal.address_of(victim)
    watching = Client(mortal.address, timeout=SECONDS, set_as_default=False)

    def kill_while_busy():
        end = time.monotonic() + SECONDS
        while not watching.processing([address])[address] and time.monotonic() < end:
            time.sleep(0.001)
        mortal.kill(victim)

    def listen(report):
        if report.step == 2:
            thread.start()
        if report.step == 4:
            mortal.add_worker()

    thread = threading.Thread(target=kill_while_busy)
    with watching, progress.listen(listen):
        there = mlat.cluster.fit(mortal.client, metric, windows)
        thread.join(SECONDS)
    assert address not in mortal.client.nthreads()
    assert_same(there, fit_here(metric, windows))


def test_want_of_memory_and_workers_that_keep_dying_are_said_in_a_line(mortal, monkeypatch):
    client = mortal.client
    client.wait_for_workers(2, timeout=SECONDS)
    monkeypatch.setattr(team_module, "MOST_DEATHS", 2)
    team = Team(client, 1, lambda _, worker: client.scatter(0, workers=[worker]), "More.")
    with pytest.raises(WorkerError, match="a worker is out of memory; More"):
        team.ask(too_much)
    with pytest.raises(
        WorkerError, match=r"workers died 2 times over the same work, .* memory; Mo"
    ):
        team.ask(die)


# ---------------------------------------------------------------- streams and files


def recordings():
    streams = []
    for seed in range(3):
        stream = rotating_states({"a": -0.3, "b": 0.2}, n_channels=3, run_length=40,
                                 random_state=seed)  # fmt: skip
        values = stream.values.copy()
        values[17 + seed] = np.nan
        streams.append(Stream(values, stream.states, channels=("x", "y", "z")))
    return streams


def write_folder(folder, streams):
    import pyarrow as pa
    import pyarrow.parquet as pq

    for i, stream in enumerate(streams):
        columns = {name: stream.values[:, c] for c, name in enumerate(stream.channels)}
        table = pa.table({**columns, "state": stream.states.astype(str)})
        pq.write_table(table, folder / f"person{i}.parquet")


def test_streams_and_a_folder_of_parquet_files_are_learned_from(client, tmp_path):
    streams = recordings()
    metric = MLAT(6, max_iter=5)
    here = fit_here(metric, sliding_windows(Stream.join(streams), 6, stride=2))
    assert_same(mlat.cluster.fit(client, metric, streams, stride=2), here)
    write_folder(tmp_path, streams)
    assert_same(mlat.cluster.fit(client, metric, tmp_path, stride=2, label="state", shards=3), here)


def test_bad_folders_are_refused_in_a_line(client, tmp_path):
    def fit(folder=tmp_path, metric=None, **columns):
        mlat.cluster.fit(client, metric or MLAT(6), folder, **columns)

    with pytest.raises(InputError, match="holds no Parquet file"):
        fit(label="state")
    with pytest.raises(InputError, match="nowhere is no folder"):
        fit(tmp_path / "nowhere", label="state")
    write_folder(tmp_path, recordings())
    with pytest.raises(
        InputError, match=r"person\d.parquet.*no column 'stat' \(label\); did you me"
    ):
        fit(label="stat")
    with pytest.raises(InputError, match="label="):
        fit()
    with pytest.raises(InputError, match="give the metric a width"):
        fit(metric=MLAT(), label="state")
    with pytest.raises(InputError, match="is 60 steps long"):
        fit(metric=MLAT(60), label="state")
    (tmp_path / "other.parquet").write_bytes((tmp_path / "person0.parquet").read_bytes())
    import pyarrow.parquet as pq

    table = pq.read_table(tmp_path / "other.parquet").rename_columns(["x", "y", "w", "state"])
    pq.write_table(table, tmp_path / "other.parquet")
    with pytest.raises(InputError, match=r"has channels x, y, z, .*other.parquet has x, y, w"):
        fit(label="state")


def test_bad_arguments_are_refused_in_a_line(client):
    windows = small_windows()
    with pytest.raises(InputError, match=r"must be a dask.distributed.Client, not str"):
        mlat.cluster.fit("tcp://127.0.0.1:8786", MLAT(), windows)
    with pytest.raises(InputError, match="metric must be MLAT or LMNN"):
        mlat.cluster.fit(client, mlat.StreamClassifier(), windows)
    with pytest.raises(InputError, match="shards must be a whole number"):
        mlat.cluster.fit(client, MLAT(), windows, shards=0)
    with pytest.raises(InputError, match="windows have 5 steps but the metric's width is 7"):
        mlat.cluster.fit(client, MLAT(7), windows)
    with pytest.raises(InputError, match="all 26 windows are of one class"):
        mlat.cluster.fit(client, MLAT(), windows.take(np.arange(26)))
    with pytest.raises(InputError, match="fewer windows"):
        mlat.cluster.fit(client, MLAT(n_targets=60), windows)
    with pytest.raises(InputError, match="label: only a folder"):
        mlat.cluster.fit(client, MLAT(), windows, label="state")


def test_a_worker_of_another_version_is_refused(tmp_path):
    other = tmp_path / "other.py"
    other.write_text("import mlat\nmlat.__version__ = '9.9'\n")
    with Cluster(0) as cluster:
        with pytest.raises(ServiceError, match="has no workers; start some: dask worker tcp://"):
            mlat.cluster.fit(cluster.client, MLAT(), small_windows())
        cluster.add_worker("--preload", str(other))
        cluster.client.wait_for_workers(1, timeout=SECONDS)
        with pytest.raises(WorkerError, match=r"has mlat 9.9, this client 0\.\d"):
            mlat.cluster.fit(cluster.client, MLAT(), small_windows())


def test_a_part_keeps_its_losses_between_evaluations(client):
    """What a loss prepares stays on the worker: it is what makes steps cheap."""
    problem = DaskProblem(
        client, source_of_windows(small_windows(run_length=60)), 2, n_targets=3, gap="run",
        push_weight=0.1, shrinkage=0.0,
    )  # fmt: skip
    problem.team.ask(loss_of_part, "linear", 0.1 * np.eye(15))
    first = problem.team.ask(known_losses)
    problem.team.ask(loss_of_part, "linear", 0.1 * np.eye(15))
    assert problem.team.ask(known_losses) == first
    problem.release()


def known_losses(problem):
    return id(problem.linear_loss())
