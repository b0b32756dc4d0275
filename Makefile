# The daily commands. Each works in a fresh clone; PYTHON chooses the interpreter.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: setup check format lint types layers test docs outlines countries vendored pictures bench clean

setup: $(BIN)/geolookup  ## a virtual environment with everything for development
$(BIN)/geolookup: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet -e '.[dev]'
	touch $@

check: lint types layers test  ## all that CI checks

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: setup
	$(BIN)/mypy

layers: setup
	$(BIN)/lint-imports

test: setup
	$(BIN)/pytest -q -n auto

docs: setup  ## write the pages that are generated from the code
	$(BIN)/python -m tests.docs

outlines: setup  ## get the outlines of the countries anew (npm, node)
	$(BIN)/python tools/outlines.py

countries: setup  ## get the names of countries in eight languages anew (npm, pip)
	$(BIN)/python tools/countries.py

vendored:  ## get anew what the pages of the console are made with; needs npm
	$(PYTHON) tools/vendored.py

pictures: setup  ## draw the pages of the console for docs/pictures (Chromium)
	$(BIN)/python -m tests.console.pictures

bench: setup  ## print the benchmark tables, on a data set shaped like a city database
	$(BIN)/python -m benchmarks.run

clean:
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
