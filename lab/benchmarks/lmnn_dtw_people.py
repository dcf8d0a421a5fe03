"""LMNN-DTW on the people that defaults are chosen on: the literature's form and ours.

    python lab/benchmarks/lmnn_dtw_people.py DATA

DATA is the folder with the UCI archives, as for ``mlat-lab reproduce``. 1-NN accuracy under
``holdout``, in percent, the mean over two splits of each person, on 100 windows per label (few) and
on all; and the longest fit of LMNN-DTW, in CPU seconds.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict

import numpy as np
from threadpoolctl import threadpool_limits

from mlat import LMNN
from mlat_lab.experiments.people import uci_people
from mlat_lab.experiments.protocol import split, split_seed
from mlat_lab.experiments.systems import DEVELOPMENT
from mlat_lab.rivals import LMNNDTW, MDTW, MetricKNN

SEEDS = (0, 1)


def main(data: str) -> None:
    scores: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    longest = 0.0
    for name, names in DEVELOPMENT.items():
        people = uci_people([name], None, data)[name]
        for person in names:
            stream = people.load(person)
            for seed in SEEDS:
                parts = split(stream, "holdout", split_seed(name, person, seed), given=people.given)
                for size in ("few", "all"):
                    rows = parts.few if size == "few" else np.arange(len(parts.train))
                    train = parts.train
                    when = {"start": train.start[rows], "run": train.run[rows]}
                    for label, model in {
                        "MDTW": MDTW(),
                        "LMNN, literature": MetricKNN(
                            metric=LMNN(n_targets=3, target_gap=0, push_weight=0.5)
                        ),
                        "LMNN-DTW, literature": LMNNDTW.as_in_paper(),
                        "LMNN-DTW, default": LMNNDTW(),
                    }.items():
                        begin = time.process_time()
                        more = {} if label == "MDTW" else when
                        model.fit(train.X[rows], train.y[rows], **more)
                        if label.startswith("LMNN-DTW"):
                            longest = max(longest, time.process_time() - begin)
                        score = 100 * model.score(parts.test.X, parts.test.y)
                        scores[name, size, label].append(score)
    for (name, size, label), found in scores.items():
        print(f"{name:6} {size:4} {label:21} {np.mean(found):5.1f}")
    print(f"longest fit {longest:.1f} s")


if __name__ == "__main__":
    with threadpool_limits(1):
        main(sys.argv[1])
