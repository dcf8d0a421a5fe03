"""What the commands say, as JSON for programs: one object on standard output.

Numbers are as they are, fractions from 0 to 1; what is not known is null.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..classifier.classifier import StreamClassifier
from ..classifier.held_out import RECORDING, RUN
from ..explain import Expert, experts_of, learned
from ..explain.confusions import LEVEL, Confusions
from ..metric.embedding import unmix_blocks
from ..metric.forest import Forest
from ..stream.stream import Stream

AsJson = Annotated[
    bool, typer.Option("--json", help="Print JSON on standard output, and nothing else there.")
]


def print_json(content: Any) -> None:
    """Print an object of plain values and arrays; NaN and infinity are null."""
    typer.echo(json.dumps(_plain(content), ensure_ascii=False, allow_nan=False, indent=1))


def score_of(found: Confusions, level: float = LEVEL) -> dict[str, Any]:
    """Accuracies, what guessing gives, and the figures of each state."""
    frequent, share = found.most_frequent
    rows = zip(found.states, found.n_steps, found.recall, found.precision, strict=True)
    return {
        "accuracy": found.accuracy,
        "most_frequent": {"state": frequent, "accuracy": share},
        "balanced_accuracy": found.balanced_accuracy,
        "interval": found.interval,
        "interval_of": RECORDING if found.by_recording else RUN,
        "recordings": [
            {"recording": name, "steps": one.n_judged, "balanced_accuracy": one.balanced_accuracy}
            for name, one in found.by_recording.items()
        ],
        "guessing": found.guessing,
        "verdict": found.verdict(level),
        "p_value": found.p_value,
        "n_judged": found.n_judged,
        "n_unjudged": found.n_unjudged,
        "n_runs": found.n_runs,
        "states": [
            {"state": state, "steps": steps, "recall": recall, "precision": precision}
            for state, steps, recall, precision in rows
        ],
        "confusions": {"states": found.states, "counts": found.counts, "unknown": found.unknown},
    }


def stream_of(stream: Stream) -> dict[str, Any]:
    """What a stream has to learn from, by state."""
    runs = stream.runs
    return {
        "steps": len(stream) + stream.n_left_out,
        "channels": stream.channels,
        "notes": stream.notes,
        "states": [
            {
                "state": state,
                "runs": (runs.code == code).sum(),
                "steps": (stream.codes == code).sum(),
            }
            for code, state in enumerate(stream.classes)
        ],
    }


def model_of(classifier: StreamClassifier, file: Path) -> dict[str, Any]:
    """What a model is: its states, features, committee and experts."""
    features, threshold = classifier.features_, classifier.confidence_.threshold
    committee = classifier.committee_
    return {
        "model": str(file),
        "bytes": file.stat().st_size,
        "width": classifier.width_,
        "n_neighbors": classifier.n_neighbors_,
        "channels": classifier.channels_,
        "depends_on_steps": classifier.width_ + features.lift.memory,
        "features": {"maps": features.lift.maps, "count": features.n_features},
        "unknown": {"rate": classifier.unknown_rate, "distance": threshold},
        "states": [
            {"state": state, "references": (classifier.windows_.y == state).sum()}
            for state in classifier.classes_
        ],
        "thinned": None if classifier.thinned_ is None else classifier.thinned_._asdict(),
        "committee": {
            "balanced_accuracy_held_out": committee.accuracy,
            "n_runs": committee.n_runs,
            "why": committee.why,
            "expected": None if committee.expected is None else committee.expected._asdict(),
            "members": [
                {
                    "name": member.name,
                    "weight": member.weight,
                    "balanced_accuracy_held_out": member.accuracy,
                }
                for member in committee.members
            ],
        },
        "experts": [_expert_of(expert) for expert in experts_of(classifier)],
    }


def _expert_of(expert: Expert) -> dict[str, Any]:
    metric = expert.references.metric
    told: dict[str, Any] = {
        "name": expert.name,
        "width": expert.width,
        "weight": expert.weight,
        "features": expert.features,
        "whitened": expert.mixing is not None,
        "metric": "euclidean" if metric is None else type(metric).__name__.lower(),
    }
    if metric is None:
        return told
    if isinstance(metric, Forest):
        n_leaves = int((metric.feature_ < 0).sum())
        return told | {"trees": len(metric.roots_), "leaves": n_leaves}
    blocks = unmix_blocks(learned.blocks_of(metric), expert.mixing)
    spectrum = learned.spectrum(metric)
    return told | {
        "solver": getattr(metric, "solver", None),
        "initial_loss": metric.initial_loss_,
        "loss": metric.loss_,
        "iterations": metric.n_iter_,
        "converged": metric.converged_,
        "message": metric.message_,
        "size_by_lag": learned.lag_norms(blocks),
        "weight_by_feature": learned.channel_fractions(blocks),
        "eigenvalues": None if spectrum is None else spectrum.eigenvalues,
        "effective_rank": None if spectrum is None else spectrum.effective_rank,
    }


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(entry) for name, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
