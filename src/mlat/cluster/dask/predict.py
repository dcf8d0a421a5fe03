"""States of many streams at once, on a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ...base.errors import InputError
from ...stream.stream import Stream
from .client import check_client
from .tasks import flow

ADVICE = "give the workers more memory, or cut the streams into shorter ones"


def predict(
    client: Any,
    clf: Any,
    streams: Sequence[Any],
    *,
    filtered: bool = False,
    **columns: Any,
) -> list[NDArray[Any]]:
    """The states of streams, each as ``clf.predict`` gives them.

    The classifier is sent to the workers once, each stream to one of them. What is lost with a
    worker is sent again.

    Parameters
    ----------
    client : distributed.Client
    clf : fitted StreamClassifier
    streams : sequence of Stream, arrays, or paths of files
        Files are read by the workers; ``columns`` are then as for :func:`mlat.read_stream`, the
        channels by default those of the classifier.
    filtered : bool, default=False
        As for :meth:`mlat.StreamClassifier.predict`.

    Returns
    -------
    states : list of arrays
        One for each stream, in their order.
    """
    check_client(client)
    check_is_fitted(clf)
    if isinstance(streams, Stream | str | os.PathLike):
        raise InputError("streams must be a list of streams or of files; put the one into a list")
    given = list(streams)
    model = _Model(client, clf)

    def submit(number: int) -> Any:
        one = given[number]
        if isinstance(one, str | os.PathLike):
            sent: Any = os.path.abspath(one)
        else:
            # Not through the graph, which the scheduler would keep.
            sent = client.scatter([one], hash=False)[0]
        task = (model.future(), sent, filtered, columns)
        return client.submit(predict_one, *task, pure=False)

    found = dict(flow(client, len(given), submit, advice=ADVICE))
    return [found[number] for number in range(len(given))]


class _Model:
    """A classifier on every worker, sent again if all that had it are gone."""

    def __init__(self, client: Any, clf: Any) -> None:
        self._client, self._clf, self._future = client, clf, None

    def future(self) -> Any:
        if self._future is None or self._future.status != "finished":
            self._future = self._client.scatter([self._clf], broadcast=True, hash=False)[0]
        return self._future


def predict_one(clf: Any, stream: Any, filtered: bool, columns: Mapping[str, Any]) -> NDArray[Any]:
    """The states of one stream. Runs on a worker."""
    if isinstance(stream, str):
        from ...stream.read import read_channels, read_stream

        if columns.get("channels") is None:
            known = {name: value for name, value in columns.items() if name != "channels"}
            stream = read_channels(stream, clf.channels_, **known)
        else:
            stream = read_stream(stream, **columns)
    states: NDArray[Any] = clf.predict(stream, filtered=filtered)
    return states
