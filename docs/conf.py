"""How the site is built: Sphinx with MyST, the pydata theme and sphinx-gallery.

Nothing is fetched: the site works from a folder, without a network.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from importlib.metadata import version as version_of
from importlib.util import find_spec
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path.insert(0, str(DOCS))

import generate  # noqa: E402
from docutils import nodes  # noqa: E402
from keep_pictures import kept  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from sphinx.addnodes import pending_xref  # noqa: E402
from sphinx_gallery.scrapers import figure_rst  # noqa: E402

project = "mlat"
author = copyright = "The mlat developers"
release = version = version_of("mlat")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "gallery/*.ipynb", "gallery/*.md5"]

# Pages
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4  # links to headings, as in the repository
# Reports skip levels of headings; words of a type such as "array of shape (n, d)" look like names.
suppress_warnings = ["myst.header", "config.cache", "ref.python"]

# Reference
autodoc_default_options = {"members": True}
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_member_order = "bysource"
autosummary_generate = True
# Adapters are shown where their packages are missing, too.
autodoc_mock_imports = [name for name in ("aeon", "sktime", "river") if find_spec(name) is None]
autosummary_ignore_module_all = False
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_google_docstring = False

# Gallery


def new_figures(block: Any, block_vars: Any, gallery_conf: Any) -> str:
    """Figures of the variables of an example: those of mlat are made without pyplot."""
    seen = block_vars["example_globals"].setdefault("__figures__", [])
    names = []
    for thing in list(block_vars["example_globals"].values()):
        if isinstance(thing, Figure) and not any(thing is old for old in seen):
            seen.append(thing)
            names.append(next(block_vars["image_path_iterator"]))
            thing.savefig(names[-1], dpi=100, bbox_inches="tight")
    return figure_rst(names, gallery_conf["src_dir"])


EXAMPLES = generate.EXAMPLES


def runnable() -> list[Path]:
    """The examples that have what they need; the others are shown without their pictures."""
    imported = re.compile(r"^(?:import|from) (\w+)", re.MULTILINE)
    found = []
    for example in sorted(EXAMPLES.glob("*.py")):
        text = example.read_text(encoding="utf-8")
        names = imported.findall(text)
        java = "pyspark" not in names or "JAVA_HOME" in os.environ or shutil.which("java")
        compiler = '"cc"' not in text or shutil.which("cc")
        if java and compiler and all(map(find_spec, names)):
            found.append(example)
    return found


sphinx_gallery_conf = {
    "image_scrapers": (new_figures,),
    "examples_dirs": str(EXAMPLES),
    "gallery_dirs": "gallery",
    "filename_pattern": "|".join(re.escape(example.stem) for example in runnable()),
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "backreferences_dir": "gallery/backreferences",  # the examples of each class
    "doc_module": ("mlat",),
    "show_signature": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "min_reported_time": 10_000,
    "matplotlib_animations": False,
    "show_memory": False,
}

# Theme
html_theme = "pydata_sphinx_theme"
html_title = "mlat"
html_static_path = ["_static", "../src/mlat/live/web/static/icon.svg"]
html_favicon = "../src/mlat/live/web/static/icon.svg"
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
# Pages with nothing below them need no navigation at their side.
html_context = {"default_mode": "auto"}  # light or dark as the system has it
html_sidebars = {"index": [], "start/index": [], "paper-to-code": []}
html_theme_options: dict[str, Any] = {
    "logo": {
        "text": "mlat",
        "image_light": "icon.svg",
        "image_dark": "icon.svg",
        "alt_text": "mlat",
    },
    "navbar_align": "left",
    "header_links_before_dropdown": 8,  # up to the evidence
    "show_prev_next": True,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def skip_routing(app: Any, kind: str, name: str, thing: Any, skip: bool, options: Any) -> Any:
    """Leave out what scikit-learn adds to every estimator to route metadata."""
    return True if name.endswith(("_request", "metadata_routing")) else None


def with_kept_pictures(app: Any, name: str, source: list[str]) -> None:
    """Give an example that cannot run here the pictures that were kept of it."""
    stem = name.removeprefix("gallery/")
    if stem == name or stem in {example.stem for example in runnable()}:
        return
    for picture in kept(stem):
        source[0] += f"\n.. image:: /images/gallery/{picture.name}\n   :alt: {stem}\n"


def unlink_plain_words(app: Any, doctree: Any) -> None:
    """The word "shape" in the type of a parameter is no name of anything."""
    for link in list(doctree.findall(pending_xref)):
        if link.get("reftype") in ("class", "obj") and link.get("reftarget") in PLAIN_WORDS:
            link.replace_self(nodes.inline("", "", *link.children))


PLAIN_WORDS = {"shape", "start", "width", "run", "rate", "step", "time", "states", "values"}


def setup(app: Any) -> None:
    generate.write_pages()
    app.connect("source-read", with_kept_pictures)
    app.connect("doctree-read", unlink_plain_words)
    app.connect("autodoc-skip-member", skip_routing)
