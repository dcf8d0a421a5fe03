"""Keep the pictures of gallery examples whose packages are not installed where the site is built.

    python docs/keep_pictures.py examples/gallery/09_eeg_from_mne.py

runs an example here, where its packages are installed, and writes its pictures to
``docs/images/gallery``, each with the digest of the example that drew it: a test compares the two,
so that no picture is kept of an example that has changed.
"""

from __future__ import annotations

import hashlib
import runpy
import sys
from pathlib import Path

from matplotlib.figure import Figure

KEPT = Path(__file__).parent / "images" / "gallery"
DIGEST = "Source"  # the text of the PNG that holds it


def digest_of(example: Path) -> str:
    """Of all but the comments that are for the gallery alone."""
    lines = example.read_text(encoding="utf-8").splitlines()
    code = "\n".join(line for line in lines if not line.startswith("# sphinx_gallery"))
    return hashlib.blake2b(code.encode(), digest_size=16).hexdigest()


def kept(stem: str) -> list[Path]:
    """The pictures of an example, in their order."""
    return sorted(KEPT.glob(f"{stem}-*.png"))


def main(example: Path) -> None:
    for old in kept(example.stem):
        old.unlink()
    KEPT.mkdir(parents=True, exist_ok=True)
    found: list[Figure] = []
    for thing in runpy.run_path(str(example), run_name="__main__").values():
        if isinstance(thing, Figure) and not any(thing is one for one in found):
            found.append(thing)
    for number, figure in enumerate(found, 1):
        file = KEPT / f"{example.stem}-{number}.png"
        metadata = {DIGEST: digest_of(example)}
        figure.savefig(file, dpi=80, bbox_inches="tight", metadata=metadata)
        print(file)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
