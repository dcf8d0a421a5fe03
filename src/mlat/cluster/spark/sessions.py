"""A Spark session on this machine, and the error of a query in one line."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from ...base.errors import (
    InputError,
    MissingPackageError,
    ServiceError,
    WorkerError,
    require_package,
)

JAVA = 17  # the oldest that Spark 4 runs on
_REFUSED = re.compile(r"^\s*(?:[\w.]+\.)?InputError: (.+)$", re.MULTILINE)


def import_pyspark(what: str = "spark_classify") -> Any:
    """The package ``pyspark``, imported on use, and pandas, which it needs."""
    require_package("pandas", "spark", what)
    return require_package("pyspark", "spark", what)


def local_spark(cores: int = 1, *, memory: str = "1g", **settings: Any) -> Any:
    """A session on this machine, for trials and tests; nothing listens beyond it.

    Parameters
    ----------
    cores : int, default=1
    memory : str, default="1g"
        Of the driver, which in local mode does all the work of the JVM.
    **settings
        Of Spark, with ``_`` for ``.``; they go before those that are made here.
    """
    pyspark = import_pyspark("Spark")
    _check_java()
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Else the workers are the first python3 of the PATH, which may not have what this one has.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    given = {
        "spark.driver.memory": memory,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(2 * cores),
        **{name.replace("_", "."): str(value) for name, value in settings.items()},
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName("mlat")
    for name, value in given.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise ServiceError(
            f"Java did not start Spark {pyspark.__version__} ({str(error).splitlines()[0]}); it "
            f"needs Java {JAVA} or later: see `java -version`"
        ) from None


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = Path(home) / "bin" / "java" if home else shutil.which("java")
    if java is None or not Path(java).exists():
        where = f"JAVA_HOME={home}" if home else "the PATH"
        raise MissingPackageError(
            f"Spark needs Java {JAVA} or later, and there is none in {where}; install one, such as "
            "openjdk-17-jre-headless, or set JAVA_HOME"
        )


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
