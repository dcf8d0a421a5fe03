"""The conda package of dist/'s sdist by recipe.yaml, and the recipe's own tests, into dist/conda.

    make wheel && pip install py-rattler-build && python packaging/conda.py [CHANNEL...]

Before a release the recipe's source is nowhere to be downloaded from: the sdist is taken instead.
"""

import hashlib
import re
import sys
from pathlib import Path

from rattler_build import Stage0Recipe, ToolConfiguration

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Build and test it with packages of the channels, conda-forge where none is named."""
    (sdist,) = (ROOT / "dist").glob("*.tar.gz")
    text = (ROOT / "packaging" / "recipe.yaml").read_text(encoding="utf-8")
    for line, value in (
        (r"(?m)^  version: \"(.*)\"", sdist.name.removesuffix(".tar.gz").removeprefix("mlat-")),
        (r"(?m)^  url: (.*)", sdist.as_uri()),
        (r"(?m)^  sha256: \"(.*)\"", hashlib.sha256(sdist.read_bytes()).hexdigest()),
    ):
        (old,) = re.findall(line, text)
        text = text.replace(old, value)
    results = Stage0Recipe.from_yaml(text).run_build(
        tool_config=ToolConfiguration(test_strategy="native"),
        output_dir=ROOT / "dist" / "conda",
        channels=sys.argv[1:] or ["conda-forge"],
    )
    for result in results:
        print(*result.packages, sep="\n")


if __name__ == "__main__":
    main()
