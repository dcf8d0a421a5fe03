"""Every link and picture in README and docs exists."""

import re
import runpy
import subprocess
from pathlib import Path

import pytest

from doc_examples import written_by_hand

ROOT = Path(__file__).parents[1]
PAGES = written_by_hand(*ROOT.glob("*.md"))
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        words = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower())
        yield words.strip().replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links(page):
    broken = []
    for link in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        target, _, anchor = link.partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        file = (page.parent / target) if target else page
        if not file.exists() or (anchor and anchor not in set(anchors(file))):
            broken.append(link)
    assert not broken, broken


def test_nothing_that_a_page_shows_is_ignored_by_git():
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout: git does not say what it ignores")
    shown = {
        (page.parent / link.partition("#")[0]).resolve()
        for page in PAGES
        for link in LINK.findall(page.read_text(encoding="utf-8"))
        if "://" not in link and link.partition("#")[0]
    }
    names = "\n".join(str(path.relative_to(ROOT)) for path in sorted(shown) if path.exists())
    ignored = subprocess.run(
        ["git", "check-ignore", "--stdin"], input=names, cwd=ROOT, capture_output=True, text=True
    )
    assert ignored.stdout == ""


@pytest.mark.parametrize(("version", "tree"), [("1.2.0", "v1.2.0"), ("1.2.1.dev3+gabc", "HEAD")])
def test_a_description_elsewhere_links_to_the_repository(version, tree):
    pytest.importorskip("hatchling")
    build = runpy.run_path(str(ROOT / "hatch_build.py"))
    metadata = {"version": version}
    build["Metadata"](str(ROOT), {"repository": "https://host/mlat"}).update(metadata)
    links = LINK.findall(FENCE.sub("", metadata["readme"]["text"]))
    assert f"https://host/mlat/raw/{tree}/docs/images/overview.png" in links
    assert f"https://host/mlat/blob/{tree}/ARCHITECTURE.md" in links
    assert all("://" in link for link in links)
    assert metadata["urls"]["Source"] == "https://host/mlat"


def test_what_runs_with_any_versions_is_there():
    listed = (ROOT / "tests" / "any_versions.txt").read_text(encoding="utf-8").split()
    assert listed
    assert not [name for name in listed if not (ROOT / name).exists()]
