# Every target does its own set-up: a virtual environment in .venv, from pinned requirements.
# It is made once, and again when the requirements or pyproject.toml change.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: help demo test lint docs coverage track versions wheel audit release clean

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name what; do \
	  printf '%-14s %s\n' "$$name" "$$what"; done

demo: $(VENV)/.runtime ## learn a synthetic stream, print accuracies, draw pictures into demo/
	$(BIN)/mlat demo

test: lint ## lint, types and all tests that need nothing else; says what it left out
	$(BIN)/python -m pytest -n 2 -rs  # and says what was left out, and why

lint: $(VENV)/.tools ## ruff and mypy
	$(BIN)/ruff check
	$(BIN)/ruff format --check --extend-exclude '*.md'  # pages align their comments by hand
	$(BIN)/mypy

docs: $(VENV)/.docs ## the site, in docs/_build/html; a warning is an error
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

coverage: $(VENV)/.tools ## which lines of mlat the tests run; compiled kernels count by their Python
	$(BIN)/python -m pytest -n 2 --cov=mlat --cov-report=term:skip-covered tests

track: $(VENV)/.tools ## accuracy of the default over its seeds, and speed as ratios: against what is recorded
	$(BIN)/python lab/benchmarks/track.py

versions: ## which versions of other packages resolve together, and that the newest work
	lab/benchmarks/versions.sh
	lab/benchmarks/versions.sh $(PYTHON)

wheel: ## sdist and wheel into dist/, installed in a bare environment, and the demo run from there
	PYTHON=$(PYTHON) .ci/wheel

audit: ## known weaknesses of what is pinned (asks PyPI), and a bill of materials in dist/
	PYTHON=$(PYTHON) .ci/release audit

release: ## all that a person forgets before a version is tagged: make release VERSION=0.1.0
	PYTHON=$(PYTHON) .ci/release $(VERSION)

clean: ## take away all that is made
	rm -rf $(VENV) demo build dist docs/_build docs/api docs/gallery .pytest_cache .hypothesis .mypy_cache .ruff_cache
	find src tests lab -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/.runtime: requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "mlat needs Python 3.11 or later; name one: make PYTHON=python3.12"; exit 2; }
	@echo "Setting up $(VENV), which takes a minute the first time"
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -r requirements.txt
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.tools: requirements-dev.txt lab/pyproject.toml $(VENV)/.runtime
	$(PIP) install -r requirements-dev.txt
	$(PIP) install --no-deps --no-build-isolation --editable ./lab  # the laboratory, which has tests too
	@touch $@

$(VENV)/.docs: requirements-docs.txt $(VENV)/.tools
	$(PIP) install -r requirements-docs.txt
	@touch $@
