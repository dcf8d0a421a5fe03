"""How wrong a running distance can be: a bound from norms, stated and used.

A running sum is added up over at most ``period`` steps from a value that was worked out directly.
With u and v the roundings of single and double precision, the step s adds at most

    e_s = γ Σ_part ‖left_part‖ ‖right_part‖  +  κ ‖M‖ ‖X_s‖ (‖X_s‖ + ‖Y‖)  +  φ ‖X_s‖ (…)  +  tiny

to the error of an inner product and to that of ``xᵀ M x``: γ for sums of d products in single
precision, κ for all that is done in double (filters, direct values, adding up), φ where the filters
themselves are stored in single precision; ``X_s`` is the window with the step that leaves it, Y the
largest reference. Over a period these add up to S, and a squared distance is within
``3 S + r`` of the true one, r being what the references' own ``yᵀ M y`` may be wrong by.

``predict`` rounds too. Its squared distances are within ``2 (2 √D z + 16 z² + ρ D)`` of the true
ones, z being the rounding of a window in the learned space. Two states are told apart where they
differ by more than both bounds together.

All figures here are in the units of :class:`~mlat.live.search.flat_references.References`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .flat_references import References

SINGLE, DOUBLE = 2.0**-24, 2.0**-53
# What numbers too small for single precision may lose, for each product, in units near 1.
TINY = 2.0**-120
# A query this far out would overflow single precision; its distances are worked out exactly.
FAR = 1e15
N_BLOCKS = 10  # stretches of steps whose errors are summed; nine of them are at least a period


class Bound(NamedTuple):
    """The constants above: γ, κ‖M‖, φ, tiny, r, then z per unit of norm, ρ, Y and the offset.

    ``block`` is how many steps a stretch has, ``offset`` the norm of a window of the centre.
    """

    gamma: float
    kappa: float
    phi: float
    tiny: float
    of_squared: float
    embedding: float
    rho: float
    largest: float
    offset: float
    block: int


def bound_of(references: References) -> Bound:
    """From the sizes and norms of the references."""
    d, w = references.n_features, references.width
    metric, n_lags = references.metric, references.n_lags
    n = (d + 8) * SINGLE  # a product's factors and itself, d - 1 sums, those of the parts
    in_double = (4 * (w * d + 2 * n_lags * d) + 64) * DOUBLE
    kappa = (in_double + metric.residual * np.sqrt(w * d)) * references.norm
    blocks = metric.blocks / references.weight
    phi = 2 * SINGLE * float(np.sqrt((blocks**2).sum())) if references.single_filters else 0.0
    n_terms = metric.n_terms + 8 * np.log2(metric.n_coordinates + 2) + 32
    return Bound(
        gamma=n / (1 - n),
        kappa=kappa,
        phi=phi,
        tiny=references.right.shape[1] * TINY,
        of_squared=(references.period + 4) * kappa * references.largest**2,
        embedding=2 * n_terms * DOUBLE * metric.embedding / np.sqrt(references.weight),
        rho=(metric.n_coordinates + 16) * DOUBLE,
        largest=references.largest,
        offset=float(np.sqrt(w) * np.linalg.norm(references.centre)) / references.scale,
        block=-(-references.period // (N_BLOCKS - 2)),
    )
