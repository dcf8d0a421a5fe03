"""Experiments: which systems are compared, on which windows, and how the jobs are run."""
