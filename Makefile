# The daily commands. Each works in a fresh clone; PYTHON chooses the interpreter.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
RESOLVE := $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate \
	--custom-compile-command 'make constraints'

.PHONY: setup check format lint types layers test docs outlines countries vendored pictures bench \
	constraints dist wheels sbom image clean

setup: $(BIN)/geolookup  ## a virtual environment with everything for development
$(BIN)/geolookup: pyproject.toml setup.py constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes -r constraints.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
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

constraints: setup  ## choose the newest releases of all dependencies anew, with their checksums
	$(RESOLVE) --extra dev --output-file constraints.txt pyproject.toml
	echo setuptools | $(RESOLVE) --extra postgres --extra fleet --constraints constraints.txt --output-file constraints-image.txt pyproject.toml -

dist: setup  ## build the source distribution and wheels of the last commit, twice, and compare their bytes
	rm -rf dist
	$(BIN)/python tools/dist.py dist --twice

wheels: dist  ## all wheels that this machine can make, each tried where there is no compiler
	$(BIN)/python tools/wheels.py dist

sbom: dist  ## the bill of materials, in CycloneDX
	$(BIN)/python tools/sbom.py dist/geolookup-*-any.whl dist/geolookup.cdx.json

image: setup  ## lint the Dockerfile; build and try the image where Docker runs
	$(BIN)/python tools/image.py

clean:
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
