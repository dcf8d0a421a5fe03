"""Run the examples of a Markdown page as doctests."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def written_by_hand(*pages: Path) -> list[Path]:
    """The pages of the site and some others, without what is written from the code."""
    return [
        page
        for page in sorted([*pages, *DOCS.rglob("*.md")])
        if "_build" not in page.parts
        and not page.read_text(encoding="utf-8").startswith("<!-- Written by docs/generate.py")
    ]


def run_examples(page: Path) -> None:
    # A fence is a blank line to doctest, or it would be taken for expected output.
    text = re.sub(r"^```.*$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    assert test.examples, f"{page.name} has no examples"
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    said: list[str] = []
    runner.run(test, out=said.append)
    assert not runner.summarize(verbose=False).failed, "".join(said)
