"""
What the metric learned, lag by lag
===================================

MLAT learns one block for each lag: how a channel now goes together with a channel some steps
before. Lag 0 is what a single step could tell. Here the states differ in their order in time
alone, so what tells them apart is in the lags.
"""

import mlat
from mlat import plots
from mlat.synthetic import rotating_states

# %%
# A point runs around a circle, forwards, backwards, fast, or not at all; four sensors see it.

stream = rotating_states(n_channels=4, noise=0.3, random_state=0)
windows = mlat.sliding_windows(stream, width=8)
metric = mlat.MLAT().fit(windows)
print(metric.blocks_.shape, "blocks: lags, channels, channels")

# %%
# Each picture is a lag. Red pairs of channels make windows more distant where they differ together,
# blue ones less.

figure = plots.plot_blocks(metric, channels=stream.channels)

# %%
# How much of the metric is at each lag.

lags = plots.plot_lags(metric)
