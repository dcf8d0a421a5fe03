"""
Ten lines from a CSV to states
==============================

A recording of eight sensors, with the state of every step in the column ``state``, is all that
there is. The classifier learns from it and tells the states of a second recording.
"""

import tempfile
from pathlib import Path

import pandas as pd

import mlat
from mlat import plots
from mlat.synthetic import rotating_states

# %%
# Two files, as a logger would write them: a column for each sensor, and one for the state.

folder = Path(tempfile.mkdtemp())
for name, seed in (("walk.csv", 0), ("today.csv", 1)):
    stream = rotating_states(noise=0.3, runs_per_state=4, random_state=seed)
    table = pd.DataFrame(stream.values, columns=stream.channels).assign(state=stream.states)
    table.to_csv(folder / name, index=False)
print(pd.read_csv(folder / "walk.csv").head(3).round(2))

# %%
# Learn, predict, and count. ``fit`` judges itself by runs that it did not learn from.

clf = mlat.StreamClassifier(width=16).fit(mlat.read_stream(folder / "walk.csv", label="state"))
today = mlat.read_stream(folder / "today.csv", label="state")
states = clf.predict(today)
print(f"held out {clf.committee_.accuracy:.0%}, right {clf.score(today):.0%} of the steps")

# %%
# Before the first whole window there is no state; just after a switch a window still looks back
# into the state before.

figure = plots.plot_timeline(today, states)
