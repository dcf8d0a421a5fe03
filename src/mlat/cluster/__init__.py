"""Beyond one machine, on engines that are already there; nothing in the core knows of them."""

from .spark import spark_classify, spark_wait

__all__ = ["spark_classify", "spark_wait"]
