"""MLAT: metric learning for k nearest neighbours in streaming time series."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .adapters.panel import PanelClassifier, series_windows
    from .base.errors import InputError
    from .classifier import StreamClassifier
    from .classifier.model_file import load
    from .features import Lift
    from .metric import LMNN, MLAT, toeplitz
    from .stream import Runs, Stream, Windows, sliding_windows
    from .stream.read import read_stream
    from .stream.write import write_states, write_stream

    __version__: str

__all__ = [
    "LMNN",
    "MLAT",
    "InputError",
    "Lift",
    "PanelClassifier",
    "Runs",
    "Stream",
    "StreamClassifier",
    "Windows",
    "load",
    "read_stream",
    "series_windows",
    "sliding_windows",
    "toeplitz",
    "write_states",
    "write_stream",
]

# Names are imported on use: numba, scikit-learn and Arrow each take long to import.
_MODULE_OF = {
    "LMNN": "metric",
    "MLAT": "metric",
    "InputError": "base.errors",
    "Lift": "features",
    "PanelClassifier": "adapters.panel",
    "Runs": "stream",
    "Stream": "stream",
    "StreamClassifier": "classifier",
    "Windows": "stream",
    "load": "classifier.model_file",
    "read_stream": "stream.read",
    "series_windows": "adapters.panel",
    "sliding_windows": "stream",
    "toeplitz": "metric",
    "write_states": "stream.write",
    "write_stream": "stream.write",
}

_ROOMS = (
    *("base", "synthetic", "stream", "features", "metric", "neighbours", "classifier"),
    *("model_selection", "explain", "live", "label", "adapters", "plots", "export"),
)


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        value = getattr(import_module(f".{_MODULE_OF[name]}", __name__), name)
        globals()[name] = value
        return value
    if name in _ROOMS:
        return import_module(f".{name}", __name__)
    if name == "__version__":  # of the tag that it was built from
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("mlat")
        except PackageNotFoundError:
            return "0+not-installed"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
