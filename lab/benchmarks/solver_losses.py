"""The losses at which the solvers end, side by side, on the benchmark's two problems."""

from __future__ import annotations

import numpy as np

import mlat
from mlat.metric import Problem
from mlat.metric.targets import select_targets
from mlat_lab.bench.fit import SIZES, make_windows


def main() -> None:
    for name, size in SIZES.items():
        windows = make_windows(size)
        codes = np.unique(windows.y, return_inverse=True)[1]
        when = {"start": windows.start, "run": windows.run}
        targets = select_targets(windows.X.reshape(len(codes), -1), codes, 3, gap=0, **when)
        loss = Problem(np.asarray(windows.X), codes, targets, windows.start, windows.run)
        precise = {"target_gap": 0, "push_weight": 0.5, "tol": 1e-5, "max_iter": 300}
        print(f"{name}: {size}")
        print(
            f"  LMNN             {mlat.LMNN(**precise).fit(windows.X, windows.y, **when).loss_:.4g}"
        )
        admm = mlat.MLAT.as_in_paper(rho=1.0, max_iter=300)
        admm.fit(windows.X, windows.y, **when)
        both = mlat.metric.toeplitz.to_matrix(admm.blocks_)
        root = np.linalg.cholesky(both + 1e-10 * np.trace(both) / len(both) * np.eye(len(both)))
        print(f"  admm, M          {admm.loss_:.4g}")
        print(f"  admm, exact      {loss.margin_loss()(loss.flat @ root)[0]:.4g}")
        for q in (10, 20):
            metric = mlat.MLAT(n_taps=q, **precise).fit(windows.X, windows.y, **when)
            print(f"  filter, {q} taps  {metric.loss_:.4g}")


if __name__ == "__main__":
    main()
