"""The paper's experiments: who is compared, on which windows, and what came of it."""
