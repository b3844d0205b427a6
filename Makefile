# Two commands for a fresh clone: `make run` and `make test`. They need Python 3.11 or newer, and make.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: run test test-all lint docs figures release-check bench clean

run: .venv/installed
	$(BIN)/presage demo

test: .venv/developing lint
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "not slow" --durations 25

test-all: .venv/developing lint
	$(BIN)/python -m pytest -n 3 --dist worksteal

lint: .venv/developing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The site, in build/site. The figures of the pages, made anew by the code beside them.
docs: .venv/developing
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

figures: .venv/developing
	$(BIN)/python tests/pages.py

# Wheel and sdist, clean environments, lowest versions, extras, import time; benchmarks/results/release.json.
release-check: .venv/developing
	$(BIN)/python benchmarks/release.py

# Needs the other libraries: pip install -e ".[peers]" in an environment given as PEERS=path/to/python.
PEERS ?= $(BIN)/python
bench:
	$(PEERS) benchmarks/regret.py run presage
	$(PEERS) benchmarks/regret.py run botorch
	$(PEERS) benchmarks/regret.py table
	$(PEERS) benchmarks/latency.py

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

.venv/developing: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
