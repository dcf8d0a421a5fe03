"""The laboratory of mlat: data sets, rivals, experiments, reports, benchmarks."""
