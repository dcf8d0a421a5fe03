"""Speed and memory, against other libraries in one run."""
