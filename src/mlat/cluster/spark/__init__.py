"""Keyed live streams on Spark."""
