"""
Teach a state live
==================

A live session takes a new state while it runs: the last windows become references of it, at once
and without learning again.
"""

import numpy as np

import mlat
from mlat import plots
from mlat.synthetic import rotating_states

whole = rotating_states(noise=0.3, random_state=0)
train = whole[np.flatnonzero(whole.states != "fast")]
test = rotating_states(noise=0.3, random_state=1)
clf = mlat.StreamClassifier(width=16, metric="mlat").fit(train)
print("learned:", *clf.classes_)

# %%
# The session sees "fast" for the first time and takes it for something else. After a while somebody
# says what it was.

live = clf.live()
states, taught = [], None
for step, values in enumerate(test.values):
    states += [prediction.state for prediction in live.push(values[None])]
    began = np.flatnonzero(test.states == "fast")[0]
    if taught is None and step == began + 60:
        live.teach("fast", 16)
        taught = step
print(f"taught at step {taught}")

# %%
# From then on it is known, here and when it comes again.

figure = plots.plot_timeline(test, np.array(states))
