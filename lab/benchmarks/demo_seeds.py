"""How the demo comes out for other seeds, and with more labelled runs (docs/command-line/index.md).

python lab/benchmarks/demo_seeds.py
"""

from __future__ import annotations

import numpy as np
from sklearn.base import clone

from mlat.classifier.classifier import StreamClassifier
from mlat.cli.demo import AUTO, SENSORS, SYSTEMS, TEST, TRAIN, WIDTH, System
from mlat.metric.estimators import LMNN, MLAT
from mlat.synthetic import rotating_states


def accuracy(system, seed, reach=None, **train):
    learned_from = rotating_states(random_state=2 * seed, **SENSORS, **{**TRAIN, **train})
    tested_on = rotating_states(random_state=2 * seed + 1, **SENSORS, **TEST)
    metric = system.metric if isinstance(system.metric, str) else clone(system.metric)
    classifier = StreamClassifier(width=system.width, metric=metric, reach=reach)
    return 100 * classifier.fit(learned_from).score(tested_on)


def main():
    systems = (*SYSTEMS, AUTO)
    table = np.array([[accuracy(s, seed) for s in systems] for seed in range(10, 30)])
    for system, column in zip(systems, table.T, strict=True):
        print(f"{system.name:30s} {column.mean():.1f}")
    near = np.mean([accuracy(AUTO, seed, reach=10) for seed in range(10, 30)])
    print(f"{AUTO.name}, reach 10: {near:.1f}")
    for metric in (MLAT(), MLAT(n_targets=10), LMNN(n_targets=10)):
        plain = System("", "", WIDTH, metric)
        mean = np.mean([accuracy(plain, seed) for seed in range(10, 30)])
        print(f"{WIDTH} steps, {metric}: {mean:.1f}")
    lead = table[:, 4] - table[:, 2]
    print(
        f"MLAT by filters ahead of LMNN: {(lead > 0).sum()} of 20, by {lead.mean():.1f}"
        f" (sd {lead.std(ddof=1):.1f})"
    )
    chosen = [SYSTEMS[1], SYSTEMS[2], SYSTEMS[4], AUTO]
    for runs in (1, 2, 3, 4, 6):
        rows = np.array(
            [[accuracy(s, seed, runs_per_state=runs) for s in chosen] for seed in range(10, 20)]
        )
        ahead = (rows[:, 2] > rows[:, 1]).sum()
        print(f"{runs} runs per state: {np.round(rows.mean(axis=0), 1).tolist()}, ahead in {ahead}")


if __name__ == "__main__":
    main()
