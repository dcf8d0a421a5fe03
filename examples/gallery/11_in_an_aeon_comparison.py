"""
mlat in an aeon comparison
==========================

aeon classifies series that are cut already. ``MLATClassifier`` is one of its classifiers, so that
it stands in the same table as aeon's own.

Needs ``pip install aeon`` beside mlat; aeon brings the data.
"""

import numpy as np
from aeon.classification.distance_based import KNeighborsTimeSeriesClassifier
from aeon.datasets import load_basic_motions
from matplotlib.figure import Figure

from mlat.adapters.aeon import MLATClassifier

# %%
# Forty series of a smart watch to learn from and forty to judge by: standing, walking, running,
# badminton. Six channels, of whose 100 steps every second one is taken to be quick.

X, y = load_basic_motions(split="train")
test, truth = load_basic_motions(split="test")
X, test = X[:, :, ::2], test[:, :, ::2]
print(X.shape, *np.unique(y))

# %%
# The nearest series decides for each of them; they differ in the distance alone.

systems = {
    "Euclidean": KNeighborsTimeSeriesClassifier(distance="euclidean", n_neighbors=1),
    "DTW": KNeighborsTimeSeriesClassifier(distance="dtw", n_neighbors=1),
    "MLAT": MLATClassifier(),
}
right = {name: clf.fit(X, y).predict(test) == truth for name, clf in systems.items()}

# %%
# A column for each test series, sorted by class; a gap where it was taken for another. A stride
# begins anywhere in a series: step by step, two walks look different, while DTW may shift them and
# MLAT goes by the lag between two moments, wherever these are. Which of these two is ahead differs
# from set to set: `five of them <../how-to/ecosystem.html#panels>`_.

order = np.argsort(truth, kind="stable")
figure = Figure(figsize=(9, 2.6), layout="constrained")
ax = figure.subplots()
for row, (name, ok) in enumerate(right.items()):
    ax.bar(np.flatnonzero(ok[order]), 0.8, bottom=-row, width=0.8, color="#0072b2")
    print(f"{name}: {ok.mean():.1%}")
ax.set_yticks([0.4, -0.6, -1.6], [f"{name}\n{ok.mean():.1%} right" for name, ok in right.items()])
classes = np.unique(truth, return_index=True)
begins = np.searchsorted(truth[order], classes[0])
ax.set_xticks(begins, classes[0], ha="left")
ax.spines[["top", "right", "left", "bottom"]].set_visible(False)
ax.tick_params(length=0)
# sphinx_gallery_thumbnail_path = 'images/gallery/11_in_an_aeon_comparison-1.png'
