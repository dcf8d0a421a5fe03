"""Sweeps on a Dask cluster: the results that processes of this machine give."""

from functools import partial

import pytest

pytest.importorskip("distributed")

import cli_runs
from cluster_processes import shared_cluster
from imitations import broken, compute, experiment, timeless
from mlat import InputError
from mlat.base.errors import ServiceError
from mlat_lab.cli.commands import app
from mlat_lab.cli.jobs import Workers, do_jobs, start_workers
from mlat_lab.experiments.dask_jobs import connect
from mlat_lab.experiments.experiment import plan
from mlat_lab.experiments.journal import Journal


@pytest.fixture(scope="module")
def address():
    return shared_cluster().address


def test_results_on_a_cluster_are_those_of_processes(address, tmp_path, capsys):
    exp = experiment(n_people=2)
    here, _ = compute(exp, tmp_path, n_runs=1)
    path = tmp_path / "there.jsonl"
    jobs = plan(exp, ("holdout", "within"), 1)
    with (
        start_workers(None, address) as by,
        Journal(path) as journal,
    ):
        assert by.n_workers == 2
        there = do_jobs(exp, jobs, journal, by)
        assert "2 threads of the Dask cluster" in capsys.readouterr().err
        # What is in the journal is not done again, wherever it was done.
        assert do_jobs(exp, jobs, journal, Workers(1)) == there
    assert timeless(there) == timeless(here)


def test_a_fault_of_the_data_is_said_in_a_line(address, tmp_path):
    exp = experiment(load=broken)
    with (
        start_workers(None, address) as by,
        Journal(tmp_path / "journal.jsonl") as journal,
        pytest.raises(InputError, match=r"p2\.csv, line 7"),
    ):
        do_jobs(exp, plan(exp, ["holdout"], 1), journal, by)


def test_a_wrong_address_is_an_error_of_one_line(tmp_path, gestures):
    table = ("--table", "streams", "--sets", "gesture_phase", "--data", gestures)
    command = ("reproduce", *table, "--systems", "ED", "--out", tmp_path)
    refused = partial(cli_runs.refused, command=app)
    line = refused(*command, "--scheduler", "tcp://127.0.0.1:9")
    assert "no Dask scheduler at tcp://127.0.0.1:9" in line
    assert "dask scheduler" in line
    assert "--jobs is for processes here" in refused(
        *command, "--scheduler", "tcp://127.0.0.1:9", "--jobs", 2
    )
    with pytest.raises(ServiceError, match="no Dask scheduler at nonsense://x"):
        connect("nonsense://x")
