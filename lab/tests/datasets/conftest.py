"""A tiny copy that counts as whole."""

import pytest

from mlat_lab.datasets import SETS, files
from mlat_lab.datasets.files import describe
from uci_copies import EMG, SCMA, TWO, imitation_scma, write


@pytest.fixture
def whole(tmp_path, monkeypatch):
    """A tiny copy of SCMA and EMG that counts as the whole of them."""
    root = imitation_scma(tmp_path / "uci")
    for person in SETS["scma"].people[2:]:
        write(root, {f"{SCMA}/{person}.csv": TWO})
    for person in SETS["emg"].people:
        write(root, {f"{EMG}/{person}/Normal/txt/Bowing.txt": "1 2 3 4 5 6 7 8\r\n" * 3})
    known = {name: {} for name in SETS}
    for name in ("scma", "emg"):
        folder = root / SETS[name].folder
        for path in sorted(folder.glob(SETS[name].layout)):
            known[name][path.relative_to(folder).as_posix()] = describe(path.read_bytes())
    monkeypatch.setattr(files, "_shipped", lambda: known)
    return root
