"""The loss on PyTorch is the loss in numpy, and so is what is learned."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from mlat import LMNN, MLAT, InputError, StreamClassifier, sliding_windows
from mlat.metric import torch_problem
from mlat.metric.problem import Problem
from mlat.metric.targets import select_targets
from mlat.metric.torch_problem import TorchProblem
from mlat.synthetic import rotating_states


@pytest.fixture(scope="module")
def windows():
    return sliding_windows(rotating_states(n_channels=3, run_length=40, random_state=0), 5)


@pytest.fixture(scope="module")
def problem(windows):
    codes = np.unique(windows.y, return_inverse=True)[1]
    windows = replace(windows, y=codes)
    targets = select_targets(windows, 3, gap=5)
    targets[::7, 2] = -1  # some have fewer
    return Problem(windows, targets, 0.4)


WAYS = {
    "one tile": (4096, 16384, 10**6, 0.0, 0.0, False),
    "many tiles": (16, 50, 99, 0.0, 0.0, False),
    "many tiles, pairs in products": (16, 50, 99, 0.0, 1.0, False),
    "many tiles, pairs one by one": (16, 50, 99, 1.0, 1.0, False),
    "pairs at once": (99, 99, 10**6, 1.0, 1.0, False),
    "split": (16, 50, 99, 0.0, 0.3, True),
    "split, pairs one by one": (16, 50, 99, 1.0, 1.0, True),
}


DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


@pytest.fixture(params=WAYS.values(), ids=WAYS)
def on_torch(request, problem, device, monkeypatch):
    names = ("ROWS", "COLUMNS", "PAIRS", "FEW", "MOST")
    *values, split = request.param
    for name, value in zip(names, values, strict=True):
        monkeypatch.setattr(torch_problem, name, value)
    if "many tiles" in request.node.callspec.id:  # and targets in many parts
        monkeypatch.setattr(torch_problem, "VALUES", 15 * 100)
    on_torch = TorchProblem(problem, device)
    on_torch.split = split
    return on_torch


@pytest.mark.parametrize("seed", range(3))
def test_of_linear_maps(problem, on_torch, seed):
    L = np.random.default_rng(seed).normal(size=(15, 15)) * [0.1, 0.3, 0.6][seed]
    value, gradient = on_torch.linear_loss()(L)
    wanted, slope = problem.linear_loss()(L)
    assert value == pytest.approx(wanted, rel=1e-4)
    np.testing.assert_allclose(gradient, slope, atol=1e-4 * np.abs(slope).max())


@pytest.mark.parametrize("n_filters", [2, 3])
def test_of_filter_taps(problem, on_torch, n_filters):
    H = np.random.default_rng(n_filters).normal(size=(7, n_filters, 3)) * 0.2
    value, gradient = on_torch.filter_loss()(H)
    wanted, slope = problem.filter_loss()(H)
    assert value == pytest.approx(wanted, rel=1e-4)
    np.testing.assert_allclose(gradient, slope, atol=1e-4 * np.abs(slope).max())


def test_far_apart_nothing_is_pushed(problem, on_torch):
    value, gradient = on_torch.linear_loss()(1e3 * np.eye(15))
    wanted, slope = problem.linear_loss()(1e3 * np.eye(15))
    assert value == pytest.approx(wanted, rel=1e-4)
    np.testing.assert_allclose(gradient, slope, atol=1e-4 * np.abs(slope).max())


def test_the_start_is_the_same(problem, on_torch):
    assert on_torch.initial_loss == pytest.approx(problem.initial_loss, rel=1e-4)


@pytest.mark.parametrize("metric", [MLAT(max_iter=15), LMNN(max_iter=15)], ids=["mlat", "lmnn"])
def test_what_is_learned(windows, metric, device):
    when = {"start": windows.start, "run": windows.run}
    plain = metric.fit(windows.X, windows.y, **when)
    loss, distances = plain.loss_, plain.transform(windows.X)
    other = metric.fit(windows.X, windows.y, **when, device=device)
    assert other.loss_ == pytest.approx(loss, rel=1e-2)
    nearest = [
        np.argsort(((Z[:1] - Z[30:]) ** 2).sum(axis=1))[0]
        for Z in (distances, other.transform(windows.X))
    ]
    assert nearest[0] == nearest[1]


def test_a_device_that_is_not_there(windows):
    with pytest.raises(InputError, match="PyTorch cannot use the device 'nonsense' here"):
        MLAT().fit(windows.X, windows.y, device="nonsense")


@pytest.mark.parametrize("n_targets", [3, 63, 64, 200])
def test_any_number_of_margins_is_counted(n_targets):
    margin, D = torch.ones(4, n_targets), torch.zeros(4, 4)
    violations = torch.zeros(4, n_targets, dtype=torch.int32)
    W = torch_problem._violated(margin, D, violations)
    assert set((W + W.T).unique().tolist()) == {2 * n_targets}
    assert (violations == 4).all()


def test_the_parts_of_a_number_are_all_of_it():
    numbers = torch.tensor([1 / 3, -1e-30, 7.0, 1e30, 0.0])
    kept, rest = torch_problem._split(numbers)
    assert torch.equal(kept + rest, numbers)
    # What the matrix units keep: a sign, 8 binary digits of the exponent, 10 more of the number.
    assert not (kept.view(torch.int32) & (2**13 - 1)).any()


def test_a_classifier_learns_its_metric_on_the_device():
    stream = rotating_states(random_state=0)
    plain = StreamClassifier(8, metric="mlat").fit(stream)
    on_device = StreamClassifier(8, metric="mlat", device="cpu").fit(stream)
    assert on_device.metric_.loss_ == pytest.approx(plain.metric_.loss_, rel=1e-2)
    assert on_device.metric_.loss_ != plain.metric_.loss_  # single precision: it was the device


def test_a_classifier_refuses_a_device_that_is_not_there():
    with pytest.raises(InputError, match="PyTorch cannot use the device 'nonsense' here"):
        StreamClassifier(8, device="nonsense").fit(rotating_states(random_state=0))
