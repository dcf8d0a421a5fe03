"""Beyond one machine, on engines that are already there; nothing in the core knows of them."""

from .dask import predict
from .spark.sessions import spark_wait
from .spark.streams import spark_classify

__all__ = ["predict", "spark_classify", "spark_wait"]
