"""Checks of the user's Dask client: its type, its workers, and their versions."""

from __future__ import annotations

from typing import Any

from ... import __version__
from ...base.errors import InputError, ServiceError, WorkerError, require_package

# What must not differ: mlat itself, and what decides how its objects travel and how it rounds.
SAME = ("mlat", "numpy", "numba", "distributed")
CONNECT_SECONDS = 5.0
FETCH_SECONDS = 120.0  # to fetch a result that a worker has
WORKER_SECONDS = 60.0  # to wait for a worker when there is none left


def import_distributed() -> Any:
    """The package ``distributed``, imported on use."""
    return require_package("distributed", "dask", "mlat.cluster", title="dask and distributed")


def check_client(client: Any) -> None:
    """Refuse what is no client, one without workers, and workers with other versions."""
    distributed = import_distributed()
    if not isinstance(client, distributed.Client):
        raise InputError(
            f"client must be a dask.distributed.Client, not {type(client).__name__}; make one: "
            "Client('tcp://scheduler:8786')"
        )
    if client.asynchronous:
        raise InputError("the client is asynchronous; give one made without asynchronous=True")
    if client.status != "running":
        raise InputError(f"the client is {client.status}; connect a new one")
    if not client.nthreads():
        raise ServiceError(
            f"the scheduler at {client.scheduler.address} has no workers; start some: "
            f"dask worker {client.scheduler.address}"
        )
    check_versions(client)


def check_versions(client: Any) -> None:
    """Refuse workers whose versions differ from the client's."""
    here: dict[str, str | None] = {"python": _python(), "mlat": __version__}
    for name in SAME[1:]:
        here[name] = _version(name)
    for address, there in client.run(_versions).items():
        for name, version in here.items():
            if there.get(name) != version:
                raise WorkerError(
                    f"worker {address} has {name} {there.get(name) or 'not installed'}, this "
                    f"client {version}; install the same version on both"
                )


def _versions() -> dict[str, str | None]:
    return {"python": _python(), **{name: _version(name) for name in SAME}}


def _python() -> str:
    import sys

    return f"{sys.version_info[0]}.{sys.version_info[1]}"


def _version(name: str) -> str | None:
    from importlib import import_module

    try:
        return str(import_module(name).__version__)
    except ModuleNotFoundError:
        return None


def await_workers(client: Any) -> dict[str, int]:
    """The workers and their threads. Where none is left, wait for one."""
    alive: dict[str, int] = client.nthreads()
    if not alive:
        try:
            client.wait_for_workers(1, timeout=WORKER_SECONDS)
        except TimeoutError:
            raise WorkerError(
                f"no worker is left; start one: dask worker {client.scheduler.address}"
            ) from None
        alive = client.nthreads()
    return alive


def connect(address: str) -> Any:
    """A client of the scheduler at the address, checked."""
    distributed = import_distributed()
    try:
        client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ServiceError(
            f"no Dask scheduler at {address} ({why}); start one with `dask scheduler`, and give "
            "the address that it prints"
        ) from None
    try:
        check_client(client)
    except BaseException:
        client.close()
        raise
    return client
