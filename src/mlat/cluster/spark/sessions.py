"""The package of Spark, imported on use, and the error of a query in one line."""

from __future__ import annotations

import re
from typing import Any

from ...base.errors import InputError, WorkerError, require_package

_REFUSED = re.compile(r"^\s*(?:[\w.]+\.)?InputError: (.+)$", re.MULTILINE)


def import_pyspark(what: str = "spark_classify") -> Any:
    """The package ``pyspark``, imported on use, and pandas, which it needs."""
    require_package("pandas", "spark", what)
    return require_package("pyspark", "spark", what)


def spark_wait(query: Any, timeout: float | None = None) -> bool:
    """Wait until a streaming query ends, or for so many seconds; whether it has ended.

    An `InputError` of a worker is raised here with its own message, without Spark's trace.

    Raises
    ------
    InputError
        If the query ended because of it; any other end is raised as Spark does.
    """
    from pyspark.errors import StreamingQueryException

    try:
        ended = query.awaitTermination(timeout) if timeout is not None else None
        if timeout is None:
            query.awaitTermination()
    except StreamingQueryException as error:
        raise _plain(error) from None
    return ended is not False


def _plain(error: Exception) -> Exception:
    """The error of mlat that Spark's message holds; otherwise Spark's own."""
    refused = _REFUSED.search(str(error))
    if refused is not None:
        return InputError(refused.group(1).strip())
    if "No module named 'mlat'" in str(error):
        return WorkerError(
            "the Python of Spark's workers has no mlat; install it on every executor, or name the "
            "right one with PYSPARK_PYTHON"
        )
    return error
