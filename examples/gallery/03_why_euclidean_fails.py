"""
Why the Euclidean distance fails here
=====================================

The states of this stream have the same distribution at every single step, and a drift moves all
sensors together. To the Euclidean distance the drift is most of what differs. A learned metric
finds what does not drift: how a step follows from the one before.
"""

import mlat
from mlat import plots
from mlat.synthetic import rotating_states

# %%
# The same sensors, twice.

sensors = {"n_channels": 8, "drift": 0.7, "noise": 0.3}
train = rotating_states(random_state=0, run_length=55, runs_per_state=2, **sensors)
test = rotating_states(random_state=1, run_length=100, runs_per_state=3, **sensors)

# %%
# Both classify the window of the last 16 steps by its nearest neighbour. Only the distance differs.

euclidean = mlat.StreamClassifier(width=16, metric="euclidean").fit(train)
learned = mlat.StreamClassifier(width=16, metric="mlat").fit(train)
for name, clf in (("Euclidean", euclidean), ("MLAT", learned)):
    print(f"{name:10} {clf.score(test):.0%} of the steps right")

# %%

by_euclidean = plots.plot_timeline(test, euclidean.predict(test))

# %%

by_mlat = plots.plot_timeline(test, learned.predict(test))
