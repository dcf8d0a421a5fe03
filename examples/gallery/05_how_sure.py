"""
How sure, and "unknown" is an answer
====================================

Every prediction has a probability, learned on runs that were held out. And a window unlike
everything labelled can be called unknown instead.
"""

import numpy as np

import mlat
from mlat import plots
from mlat.synthetic import rotating_states

train = rotating_states(noise=0.5, random_state=0)
test = rotating_states(noise=0.5, random_state=1)
clf = mlat.StreamClassifier(width=16, unknown_rate=0.01).fit(train)

# %%
# How sure it is over time: least at the switches, where a window sees two states.

proba = clf.predict_proba(test)
sure = np.nanmax(np.where(np.isnan(proba), -np.inf, proba), axis=1)
figure = plots.plot_timeline(test, clf.predict(test), confidence=np.clip(sure, 0, 1))

# %%
# Of steps about equally sure, how many are right? Here more than it says: it errs on the side of
# caution where few runs were there to judge by.

states, known = clf.predict(test), np.isfinite(sure)
for low in (0.4, 0.6, 0.8, 0.9):
    some = known & (sure >= low) & (sure < {0.4: 0.6, 0.6: 0.8, 0.8: 0.9, 0.9: 1.01}[low])
    if some.sum() > 20:
        print(
            f"sure {sure[some].mean():.0%}: {np.mean(states[some] == test.states[some]):.0%} right"
        )

# %%
# Something that nobody labelled, ten times as strong, is unknown.

strange = clf.predict(10 * test.values[:200])
print(f"{np.mean(strange == clf.unknown_):.0%} of the strange steps are unknown")
