"""The nearest references of a live window: exactly, or at a cost that does not grow with it."""
