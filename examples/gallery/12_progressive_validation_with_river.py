"""
Progressive validation with river
=================================

river judges a model as it learns: each step is predicted first, and its label comes afterwards. So
does ``MLATClassifier``, which starts from nothing.

Needs ``pip install river`` beside mlat.
"""

from matplotlib.figure import Figure
from river import dummy, evaluate, metrics, neighbors, preprocessing

from mlat.adapters.river import MLATClassifier
from mlat.synthetic import rotating_states

stream = rotating_states(noise=0.3, runs_per_state=3, random_state=0)
steps = [dict(zip(stream.channels, row, strict=True)) for row in stream.values.tolist()]
labels = stream.states.tolist()

# %%
# Three models. The first repeats the label that came last; the second compares single steps; ours
# compares windows.

models = {
    "last label": dummy.NoChangeClassifier,
    "kNN of steps": lambda: preprocessing.StandardScaler() | neighbors.KNNClassifier(),
    "MLAT": lambda: MLATClassifier(width=16, learn_from=0, delay=60),
}
LOOKS = {
    "last label": ("#7f7f7f", ":"),
    "kNN of steps": ("#e69f00", "--"),
    "MLAT": ("#0072b2", "-"),
}

# %%
# A label that comes at once makes it easy: states last, so the last label is nearly always right.
# Where it comes a whole run of 60 steps later, it is the label of another state; and nobody can
# know a state before its first label, which takes 240 steps here.

figure = Figure(figsize=(10, 3.4), layout="constrained")
panels = figure.subplots(1, 2, sharey=True)
for ax, delay in zip(panels, (1, 60), strict=True):
    for name, make in models.items():
        scores = evaluate.iter_progressive_val_score(
            zip(steps, labels, strict=True), make(), metrics.Accuracy(), delay=delay, step=30
        )
        points = [(score["Step"], score["Accuracy"].get()) for score in scores]
        colour, line = LOOKS[name]
        ax.plot(*zip(*points, strict=True), color=colour, linestyle=line, label=name)
        print(f"labels {delay} steps late, {name}: {points[-1][1]:.0%}")
    ax.set(
        xlabel="step", ylim=(-0.02, 1.02), title=f"labels come {delay} step{'s'[: delay > 1]} late"
    )
    ax.spines[["top", "right"]].set_visible(False)
panels[0].set_ylabel("accuracy so far")
panels[1].legend(frameon=False)
# sphinx_gallery_thumbnail_path = 'images/gallery/12_progressive_validation_with_river-1.png'
