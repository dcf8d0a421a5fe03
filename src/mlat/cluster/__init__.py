"""Beyond one machine, on engines that are already there; nothing in the core knows of them."""

from .spark.sessions import spark_wait
from .spark.streams import spark_classify

__all__ = ["spark_classify", "spark_wait"]
