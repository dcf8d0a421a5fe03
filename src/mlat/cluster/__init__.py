"""Beyond one machine, on engines that are already there; nothing in the core knows of them."""

from .dask_fit import fit
from .dask_predict import predict
from .sharded_neighbors import ShardedNeighbors
from .spark_sessions import spark_wait
from .spark_streams import spark_classify

__all__ = ["ShardedNeighbors", "fit", "predict", "spark_classify", "spark_wait"]
