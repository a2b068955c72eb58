# Everything a developer runs. It needs Python 3.11 or newer, pip and make, and nothing else.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.NOTPARALLEL:

# A caller's settings for other Pythons must not leak into this project's environment.
unexport PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE VIRTUAL_ENV CONDA_PREFIX
unexport PIP_TARGET PIP_PREFIX PIP_ROOT PIP_CONSTRAINT PIP_REQUIREMENT PIP_NO_BINARY PIP_NO_DEPS
unexport PIP_REQUIRE_VIRTUALENV PIP_PYTHON PIP_DRY_RUN PIP_IGNORE_INSTALLED
export PIP_USER := 0
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1

VENV := .venv
BIN := $(VENV)/bin
SEEDS ?= 1000
MINUTES ?= 2
SECONDS ?= 20
RUNS ?= -1
CASES ?= 1000
JOBS ?= 2
# Tests wait as much as they work, for leases, servers and browsers: half as many processes again as there are cores.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) \* 3 / 2)
ARGS ?=

# A stamp is named after the content of the locks and the place of the tree: as long as neither
# changes, no target touches pip or the network.
lock_key = $(shell { pwd; cat $(1); } | cksum | cut -d ' ' -f 1)
RUNTIME_LOCKS := requirements/runtime.lock requirements/build.lock
DEV_LOCKS := requirements/dev.lock
RUNTIME_STAMP := $(VENV)/.runtime-$(call lock_key,$(RUNTIME_LOCKS))
DEV_STAMP := $(VENV)/.dev-$(call lock_key,$(DEV_LOCKS))

NODE_LOCK := requirements/node.lock

# The development environment holds everything the runtime one does.
ifneq ($(wildcard $(DEV_STAMP)),)
RUNTIME := $(DEV_STAMP)
else
RUNTIME := $(RUNTIME_STAMP)
endif

.PHONY: help
help:  ## Print the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: up
up: $(RUNTIME) $(VENV)/.installed dashboard  ## Start Homeostat on embedded engines, with a simulated fleet in it (ARGS=--no-demo for none)
	@$(BIN)/homeostat up --demo $(ARGS)

# Only a changed source is built again, and only a changed lock asks npm; Node is the machine's, or comes from a wheel.
.PHONY: dashboard
dashboard: | $(VENV)/bin/python  ## Build the dashboard
	@$(BIN)/python ui/build.py --check || $(BIN)/python -m pip install --quiet --require-hashes -r $(NODE_LOCK)
	@$(BIN)/python ui/build.py

.PHONY: test
test: $(DEV_STAMP) $(VENV)/.installed dashboard  ## Run all tests on all cores, real servers included (ARGS="-k name")
	@$(BIN)/python -m homeostat.testing.packages
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(ARGS)

.PHONY: check
check: $(DEV_STAMP) $(VENV)/.installed  ## Check format, lint, types and import contracts
	@echo "ruff format" && $(BIN)/ruff format --check --quiet .
	@echo "ruff check" && $(BIN)/ruff check --quiet .
	@echo "basedpyright" && $(BIN)/basedpyright --warnings
	@echo "lint-imports" && { $(BIN)/lint-imports >$(VENV)/imports.log 2>&1 || { cat $(VENV)/imports.log; exit 1; }; }
	@tail -n 1 $(VENV)/imports.log

.PHONY: format
format: $(DEV_STAMP)  ## Format the source and apply safe fixes
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet .

.PHONY: bench
bench: $(DEV_STAMP) $(VENV)/.installed  ## Measure against floors taken in the same run (ARGS="kernel")
	@$(BIN)/python -m benchmarks $(ARGS)

.PHONY: peers
peers: $(DEV_STAMP)  ## Install LiteLLM and Portkey's gateway into .peers, so that `make bench ARGS=gateway` finds them
	@test -x .peers/litellm/bin/litellm || { echo "peers: LiteLLM" && $(BIN)/python -m venv --clear .peers/litellm \
		&& .peers/litellm/bin/python -m pip install --quiet 'litellm[proxy]'; }
	@if command -v npm >/dev/null; then \
		test -d .peers/portkey/node_modules || { echo "peers: Portkey" \
			&& npm install --silent --no-audit --no-fund --prefix .peers/portkey @portkey-ai/gateway; }; \
	else echo "peers: there is no npm, so Portkey is left out"; fi

.PHONY: frameworks
frameworks: $(DEV_STAMP)  ## Run the examples of LangGraph, OpenAI Agents and PydanticAI, in an environment of their own
	@test -f .peers/frameworks/.installed -a .peers/frameworks/.installed -nt pyproject.toml || { \
		echo "frameworks: installing" && $(BIN)/python -m venv --clear .peers/frameworks \
		&& .peers/frameworks/bin/python -m pip install --quiet -e '.[test,langgraph,openai-agents,pydantic-ai]' \
		&& touch .peers/frameworks/.installed; }
	@.peers/frameworks/bin/python -m pytest -n 0 tests/docs/test_frameworks.py tests/docs/test_adopting.py tests/docs/test_howtos.py $(ARGS)

.PHONY: simulate
simulate: $(DEV_STAMP) $(VENV)/.installed  ## Run the deterministic simulator over SEEDS=1000 seeds
	@$(BIN)/python -m homeostat.testing.simulation --seeds $(SEEDS) $(ARGS)

.PHONY: chaos
chaos: $(DEV_STAMP) $(VENV)/.installed  ## Hurt real installations for MINUTES=2 on each engine, and see what they keep
	@$(BIN)/python -m homeostat.testing.chaos --minutes $(MINUTES) $(ARGS)

# Ten minutes are said here, and not above: two are enough for chaos.
.PHONY: soak
soak: $(DEV_STAMP) $(VENV)/.installed  ## Put every kind of load on one server at once for MINUTES=10
	@$(BIN)/python -m benchmarks._soak --minutes $(if $(filter command line,$(origin MINUTES)),$(MINUTES),10) $(ARGS)

.PHONY: fuzz
fuzz: $(DEV_STAMP) $(VENV)/.installed  ## Fuzz every decoder of foreign bytes for SECONDS=20 each, or RUNS= at most (ARGS="bundles")
	@$(BIN)/python -m tests.fuzz --seconds $(SECONDS) --runs $(RUNS) $(ARGS)

.PHONY: schema
schema: $(DEV_STAMP) $(VENV)/.installed  ## Ask every route for CASES=1000 requests that its description allows, in JOBS=2 processes; goes on where it was stopped
	@HOMEOSTAT_SCHEMA_EXAMPLES=$(CASES) nice -n 19 $(BIN)/python -m pytest -n $(JOBS) --timeout 0 tests/e2e/test_schema.py $(ARGS)

.PHONY: compare
compare: $(DEV_STAMP) $(VENV)/.installed  ## Measure beside other systems, each in its own environment (ARGS="--data DIR")
	@$(BIN)/python -m benchmarks._compare $(ARGS)

.PHONY: docs
docs: $(DEV_STAMP) $(VENV)/.installed  ## Write the generated reference pages anew
	@$(BIN)/python docs/generate.py && $(BIN)/python docs/scaling.py

.PHONY: lock
lock: $(DEV_STAMP)  ## Resolve the dependencies anew and write requirements/*.lock
	@sh requirements/lock.sh $(BIN)/uv

.PHONY: clean
clean:  ## Remove the environment and everything that was generated
	@rm -rf $(VENV) .peers .schema build dist ui/node_modules src/homeostat/server/bundle .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# The newest Python that really works: a shim without a version behind it does not.
WORKS := import ensurepip, sqlite3, ssl, sys, venv; sys.exit(sys.version_info < (3, 11))
$(VENV)/bin/python:
	@for python in $(PYTHON) python3.13 python3.12 python3.11 python3 python; do \
		if "$$python" -c '$(WORKS)' >/dev/null 2>&1; then \
			echo "environment: creating $(VENV) with $$("$$python" -V)"; \
			exec "$$python" -m venv --clear $(VENV); \
		fi; \
	done; \
	echo "No Python 3.11 or newer with venv and pip was found (set PYTHON=/path/to/python)." >&2; exit 1

$(RUNTIME_STAMP): $(RUNTIME_LOCKS) | $(VENV)/bin/python
	@echo "environment: installing the runtime lock"
	@$(BIN)/python -m pip install --quiet --require-hashes $(RUNTIME_LOCKS:%=-r %)
	@rm -f $(VENV)/.runtime-* && touch $@

$(DEV_STAMP): $(DEV_LOCKS) | $(VENV)/bin/python
	@echo "environment: installing the development lock"
	@$(BIN)/python -m pip install --quiet --require-hashes $(DEV_LOCKS:%=-r %)
	@rm -f $(VENV)/.dev-* && touch $@

# Editable, so the source is what runs; only a changed pyproject.toml asks for a new installation.
$(VENV)/.installed: pyproject.toml
	@echo "environment: installing homeostat"
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --no-index -e .
	@touch $@
