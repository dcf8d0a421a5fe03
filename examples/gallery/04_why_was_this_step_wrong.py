"""
Why was this step wrong?
========================

A committee adds up what its experts say. For any step you can see who said what, with which weight,
and which labelled window the step was taken for.
"""

import numpy as np

import mlat
from mlat import plots
from mlat.synthetic import rotating_states

train = rotating_states(n_channels=4, noise=0.6, random_state=0)
test = rotating_states(n_channels=4, noise=0.6, random_state=1)
clf = mlat.StreamClassifier(width=8).fit(train)

# %%
# The mistakes, and the first of them well inside a run.

states = clf.predict(test)
wrong = np.flatnonzero((states != test.states) & (states != clf.unknown_))
inside = [step for step in wrong if len(set(test.states[step - 20 : step + 1])) == 1]
step = int(inside[0])
print(
    f"{len(wrong)} of {len(states)} steps; step {step} is {test.states[step]}, not {states[step]}"
)

# %%
# Bars to the right speak for the predicted state, bars to the left against it.

figure = plots.explain_prediction(clf, test, step)
