"""
Enrol a new wearer
==================

What was learned of one person, the features, the metrics and the weights, is kept for another. Of
the new one a few seconds of each state are enough: they join the references, and those that
contradict them go.
"""

import numpy as np

import mlat
from mlat import plots
from mlat.synthetic import rotating_states

# %%
# The sensors of the second wearer sit elsewhere: the same movements, another mixture of them.

first = rotating_states(noise=0.3, random_state=0)
second = rotating_states(noise=0.3, random_state=5, run_length=120, mixture_state=1)
clf = mlat.StreamClassifier(width=16).fit(first)

# %%
# One run of each state to enrol with, the rest to judge by.

runs = second.runs
cut = int(runs.stop[np.unique(runs.code, return_index=True)[1]].max())
few, rest = second[:cut], second[cut:]
enrolled = clf.enrol(few)
for name, each in (("not enrolled", clf), ("enrolled", enrolled)):
    print(f"{name:13} {each.score(rest):.0%} of the steps right")

# %%

figure = plots.plot_timeline(rest, enrolled.predict(rest))
