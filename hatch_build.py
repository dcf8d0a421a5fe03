"""What the package's metadata takes from the one address in pyproject.toml, when it is built.

The README shows pictures and pages of the checkout. In a package's description nothing lies beside
it, so there they are links to the repository, at the tag of the version.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)\s]+)\)")


class Metadata(MetadataHookInterface):
    """Hatchling asks it for ``readme`` and ``urls``."""

    def update(self, metadata: dict[str, Any]) -> None:
        repository, version = self.config["repository"], metadata["version"]
        released = re.fullmatch(r"[\d.]+", version)
        tree = f"v{version}" if released else "HEAD"

        def absolute(link: re.Match[str]) -> str:
            way = "raw" if link[1] else "blob"
            return f"{link[1]}[{link[2]}]({repository}/{way}/{tree}/{link[3]})"

        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": _LINK.sub(absolute, text)}
        metadata["urls"] = {
            "Source": repository,
            "Changelog": f"{repository}/blob/{tree}/CHANGELOG.md",
            "Issues": f"{repository}/issues",
        }
