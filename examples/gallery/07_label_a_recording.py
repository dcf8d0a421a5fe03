"""
Label a recording, asked for what helps most
============================================

Few labels are enough if they are the right ones. ``mlat label`` asks for the span whose label would
help most; here the same query is made in Python, and answered by the true states.
"""

import numpy as np
from matplotlib.figure import Figure

import mlat
from mlat.label import QueryStrategy
from mlat.synthetic import rotating_states

# %%
# A recording without a label, and a second one to judge by.

recording = rotating_states(noise=0.3, random_state=0, run_length=150)
test = rotating_states(noise=0.3, random_state=1)
strategy = QueryStrategy(recording, span=40)

# %%
# Each answer is a span of 40 steps at most; where the state switches inside, it ends there.

states = np.full(len(recording), "", dtype=recording.states.dtype)
seconds, accuracy, why = [], [], []
for _ in range(10):
    query = strategy.next_span(recording.with_states(states))
    span = slice(query.start, query.end)
    first = recording.states[query.start]
    same = int(np.argmin(np.append(recording.states[span] == first, False)))
    states[query.start : query.start + same] = first
    why.append(query.why)
    if len(set(states) - {""}) > 1:
        clf = mlat.StreamClassifier(width=16, metric="mlat").fit(recording.with_states(states))
        seconds.append(int((states != "").sum()))
        accuracy.append(100 * clf.score(test))
print(*why[:4], sep="\n")

# %%
# With a part of the steps labelled, as many are right as with all of them.

whole = mlat.StreamClassifier(width=16, metric="mlat").fit(recording)
figure = Figure(figsize=(6, 3))
ax = figure.subplots()
ax.plot(seconds, accuracy, "o-", label="asked for")
ax.axhline(100 * whole.score(test), color="grey", ls="--", label=f"all {len(recording)} labelled")
ax.set(xlabel="labelled steps", ylabel="% of new steps right", ylim=(0, 100))
ax.legend()
