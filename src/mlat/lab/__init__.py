"""The laboratory: data sets, rivals, experiments, reports, benchmarks. No other room knows it."""
