"""The nearest series on the sets that come with aeon: Euclidean distance, DTW and MLAT.

    python lab/benchmarks/panels.py        # with ecosystem-aeon.txt and mlat installed

Learned on the training part of each set and judged on its test part; everything at its defaults.
"""

from aeon import datasets
from aeon.classification.distance_based import KNeighborsTimeSeriesClassifier

from mlat.adapters.aeon import MLATClassifier

SETS = {
    "BasicMotions": datasets.load_basic_motions,
    "UnitTest": datasets.load_unit_test,
    "ItalyPowerDemand": datasets.load_italy_power_demand,
    "GunPoint": datasets.load_gunpoint,
    "ArrowHead": datasets.load_arrow_head,
}


def main() -> None:
    systems = {
        "Euclidean": KNeighborsTimeSeriesClassifier(distance="euclidean", n_neighbors=1),
        "DTW": KNeighborsTimeSeriesClassifier(distance="dtw", n_neighbors=1),
        "MLAT": MLATClassifier(),
    }
    print(f"| set | series, channels, steps | {' | '.join(systems)} |")
    print("|---|---|---|---|---|")
    for name, load in SETS.items():
        X, y = load(split="train")
        test, truth = load(split="test")
        scores = [f"{clf.fit(X, y).score(test, truth):.3f}" for clf in systems.values()]
        print(f"| {name} | {', '.join(map(str, X.shape))} | {' | '.join(scores)} |", flush=True)


if __name__ == "__main__":
    main()
