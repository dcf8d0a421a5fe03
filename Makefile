# Every target does its own set-up: a virtual environment in .venv, from pinned requirements.
# It is made once, and again when the requirements or pyproject.toml change.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: demo test lint docs versions clean

demo: $(VENV)/.runtime
	$(BIN)/mlat demo

test: lint
	$(BIN)/python -m pytest -n 2 -rs  # and says what was left out, and why

lint: $(VENV)/.tools
	$(BIN)/ruff check
	$(BIN)/ruff format --check --extend-exclude '*.md'  # pages align their comments by hand
	$(BIN)/mypy

docs: $(VENV)/.docs  # the site, in docs/_build/html; a warning is an error
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

# Which versions of other packages resolve together, and that the newest work (docs/develop/versions.md).
versions:
	lab/benchmarks/versions.sh
	lab/benchmarks/versions.sh $(PYTHON)

clean:
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
