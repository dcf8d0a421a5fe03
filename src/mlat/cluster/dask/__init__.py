"""Learning, predicting and searching on a Dask cluster."""
