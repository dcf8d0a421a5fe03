"""Runs the examples of the page of an ecosystem: ``python run_snippets.py river``."""

import doctest
import re
import sys
import warnings
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def examples_of(ecosystem):
    """The examples in the section of the page that the ecosystem has."""
    text = (DOCS / "how-to/ecosystem.md").read_text(encoding="utf-8")
    section = re.search(rf"^## {ecosystem}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)[1]
    return re.sub(r"^```.*$", "", section, flags=re.MULTILINE)


def main(ecosystem):
    warnings.simplefilter("ignore")
    test = doctest.DocTestParser().get_doctest(examples_of(ecosystem), {}, ecosystem, None, 0)
    results = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test)
    print(f"{ecosystem}: {results.attempted} examples")
    return int(results.failed > 0 or results.attempted == 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
