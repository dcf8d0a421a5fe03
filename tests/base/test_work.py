"""Threads of our own: each item once, errors as they are, one thread of linear algebra each."""

import threading

import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from mlat.base.work import n_threads, run_each


def blas_threads():
    return max(
        pool["num_threads"] for pool in ThreadpoolController().select(user_api="blas").info()
    )


@pytest.mark.parametrize("n", [1, 2, 5])
def test_each_item_is_taken_once(n):
    seen, lock = [], threading.Lock()

    def take(item):
        with lock:
            seen.append(item)

    run_each(take, range(20), n)
    assert sorted(seen) == list(range(20))


@pytest.mark.parametrize("n", [1, 3])
def test_an_error_is_raised_and_the_rest_is_left(n):
    seen = []

    def take(item):
        seen.append(item)
        if item == 2:
            raise ValueError("this one")

    with pytest.raises(ValueError, match="this one"):
        run_each(take, range(10_000), n)
    assert len(seen) < 10_000


def test_linear_algebra_has_one_thread_each_and_as_many_as_before_after_it():
    with threadpool_limits(2):
        assert n_threads() == 2
        within = []
        run_each(lambda _: within.append(blas_threads()), range(4), 2)
        assert within == [1] * 4
        assert n_threads() == 2
    with threadpool_limits(1):
        assert n_threads() == 1
