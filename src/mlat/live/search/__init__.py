"""The nearest references of live windows: exactly, or from those of the step before."""
