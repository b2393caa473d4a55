# Every target starts from a bare machine: it makes a virtual environment, installs what it needs, and runs.
# PYTHON picks the interpreter (3.11 or newer), VENV the place of the environment.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help demo test slow check format lint types walls bench docs system constraints clean

help:
	@echo "make demo     run the main job       make check   format, lint, types, walls, tests"
	@echo "make test     run the tests          make slow    the tests that take minutes"
	@echo "make bench    run the benchmarks     make docs    build the documentation into site/"
	@echo "make clean    remove what was made, .venv included"

$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || \
	  { echo "There is no interpreter '$(PYTHON)'; try: make PYTHON=/path/to/python3.12 ..."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "pufferflow needs Python 3.11 or newer, $(PYTHON) is older; try: make PYTHON=/path/to/python3.12 ..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
	  { echo "No virtual environment could be made; on Debian or Ubuntu: apt-get install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all,dev]'
	@touch $@

demo: $(STAMP)
	$(BIN)/python examples/district_of_meters.py

test: $(STAMP)
	$(BIN)/python -m pytest -q

slow: $(STAMP)
	$(BIN)/python -m pytest -q -m slow

check: format lint types walls test

format: $(STAMP)
	$(BIN)/ruff format --check .

lint: $(STAMP)
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/pyright --pythonpath $(BIN)/python

walls: $(STAMP)
	$(BIN)/python .ci/walls.py

bench: $(STAMP)
	$(BIN)/python benchmarks/run.py

docs: $(STAMP)
	$(BIN)/mkdocs build --strict --quiet

# What tests need beside Python: the programs of a PostgreSQL server, which they start themselves.
system:
	@if ! command -v initdb >/dev/null && ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 && \
	  command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql; \
	fi

# Pins every package to what is installed now; run it in a fresh environment after changing pyproject.toml.
constraints:
	rm -rf $(VENV)/pins && $(PYTHON) -m venv $(VENV)/pins
	$(VENV)/pins/bin/python -m pip install --quiet --upgrade -e '.[all,dev]'
	{ echo "# The versions that are tested together; made by 'make constraints'."; \
	  $(VENV)/pins/bin/python -m pip freeze --exclude-editable; } > constraints.txt

clean:
	rm -rf $(VENV) build dist site .pytest_cache .ruff_cache .hypothesis benchmarks/results
