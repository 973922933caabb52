# `make help` lists what there is. Each target sets up what it needs in .venv, once.

.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules
SHELL := /bin/sh

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
SESSIONS ?= 8
# one more than two cores: the tests wait for other processes as much as they work
WORKERS ?= 3
# how many tests with real hosts run at once: each starts several processes of its own
HOSTS ?= 2

# the tests start many hundred processes: none of them compiles the package anew, whatever the shell says
export PYTHONDONTWRITEBYTECODE :=

# the tests count syncs and do not time them: their files lie in memory where there is a gigabyte of it
SCRATCH := $(if $(TMPDIR),,$(shell test -w /dev/shm && df -Pk /dev/shm 2>/dev/null | awk 'END {if ($$4 > 1000000) print "TMPDIR=/dev/shm"}'))

# the first of these that is new enough; `make PYTHON=/path/to/python3 ...` names another
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$p" && break; done)

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(VENV)/.demo ## two sessions, one inbox: without the gate and with it (under a minute)
	@$(BIN)/callosum demo

.PHONY: test
test: ## everything that must pass: style, types, direction of imports, tests, a minute of fuzzing, a minute of faults
	@# the faults wait more than they compute, so the others run beside them
	@$(MAKE) --no-print-directory --jobs=4 lint fuzz-minute chaos-minute rewritten
	@$(MAKE) --no-print-directory unit

.PHONY: lint
lint: $(VENV)/.test ## style, spelling, types and direction of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/codespell callosum clients docs examples release website *.md */README.md
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

.PHONY: unit
unit: $(VENV)/.test ## the tests alone; ARGS="-k name" picks some, WORKERS=0 runs them in one process
	$(SCRATCH) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

.PHONY: rewritten
rewritten: $(VENV)/.test # the asserts of all tests, once: each worker of pytest would rewrite them by itself
	-@$(BIN)/python -m pytest --collect-only --quiet --quiet >/dev/null

.PHONY: budget
budget: $(VENV)/.test ## measure what budget.toml limits, lower the figures that fell, print the table; ARGS=--add adds rows for what is new
	@$(BIN)/python -m bench.budget $(ARGS)

.PHONY: docs
docs: $(VENV)/.docs ## the documentation site, in build/site; a broken link, anchor or reference fails
	@$(BIN)/python -m website

.PHONY: native
native: $(VENV)/.native ## the native hook client for this machine, compiled by the pinned compiler

.PHONY: wheels
wheels: $(VENV)/.native ## a wheel for each platform, the pure wheel and the source distribution, with their hashes, in dist
	@$(BIN)/python -m release.wheels

.PHONY: release
release: $(VENV)/.native ## build what would be published, check versions, metadata and description, test the wheel; publishes nothing
	@$(BIN)/python -m release.check $(ARGS)

.PHONY: e2e
e2e: $(VENV)/.test ## the real hosts, installed from their registries, with scripted models, and the wheels; ARGS="tests/e2e/codex" picks some, HOSTS=1 runs one at a time
	$(BIN)/python -m pytest -m e2e -n $(HOSTS) --dist loadfile $(or $(ARGS),tests/e2e)

.PHONY: adapters
adapters: $(VENV)/.test ## each agent framework in environments of its own, at its oldest and newest version; ARGS="langchain --age newest" picks some
	$(SCRATCH) $(BIN)/python -m tests.adapters.environments $(ARGS)

.PHONY: fuzz
fuzz: $(VENV)/.test ## ten minutes of whatever can be sent to the gate; ARGS="--only shell" picks some
	$(BIN)/python -m fuzz $(ARGS)

.PHONY: fuzz-minute
fuzz-minute: $(VENV)/.test ## a minute of it, the same inputs every time
	$(BIN)/python -m fuzz --minute $(ARGS)

.PHONY: chaos
chaos: $(VENV)/.test ## ten minutes of faults under load, and a checker over what all saw; ARGS="--only redis" picks some
	$(BIN)/python -m chaos $(ARGS)

.PHONY: chaos-minute
chaos-minute: $(VENV)/.test ## each of them shortly, the same faults every time
	$(BIN)/python -m chaos --minute $(ARGS)

.PHONY: model
model: $(VENV)/.test ## every state that small worlds can reach, and what must hold in it; ARGS="--only queue" picks some
	$(BIN)/python -m model $(ARGS)

.PHONY: mutants
mutants: $(VENV)/.test ## break each promise of docs/promises.md on purpose, in a copy, and see that its tests fail; ARGS="p-turns" picks some
	$(SCRATCH) $(BIN)/python -m tests.mutants $(ARGS)

.PHONY: format
format: $(VENV)/.test ## put the code into form
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

.PHONY: bench
bench: $(VENV)/.bench ## figures beside named peers; ARGS="--only pair" picks some
	$(BIN)/python -m bench.run $(ARGS)

.PHONY: bench-hosts
bench-hosts: $(VENV)/.bench $(VENV)/.test ## what Callosum adds to a call of the real hosts, as a table; ARGS="--only codex" picks some
	@$(BIN)/python -m bench.hosts.table $(ARGS)

.PHONY: bench-scale
bench-scale: $(VENV)/.bench ## how far it scales, simulated from measured service times; ARGS="--measure" measures anew
	$(BIN)/python -m bench.scale $(ARGS)

.PHONY: bench-quality
bench-quality: $(VENV)/.demo ## how well it judges, beside baselines; ARGS="--only shell" picks some
	$(BIN)/python -m bench.quality $(ARGS)

.PHONY: replay
replay: $(VENV)/.demo ## recorded tool traffic through the gate: make replay FILE=traces.jsonl [SESSIONS=8]
	@test -n "$(FILE)" || { echo "make replay needs FILE=traces.jsonl" >&2; exit 2; }
	@$(BIN)/python -m bench.replay $(FILE) --sessions $(SESSIONS)

.PHONY: clean
clean: ## remove what the other targets made
	rm -rf $(VENV) build dist .chaos .fuzz .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.python:
	@test -n "$(PYTHON)" || { echo "Callosum needs Python 3.11 or later: install it, or name it with make PYTHON=..." >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) has no venv: install it (on Debian and Ubuntu: apt install python3-venv)" >&2; exit 1; }
	@echo "setting up $(VENV) with $$("$(PYTHON)" --version)"
	@"$(PYTHON)" -m venv --clear $(VENV)
	@touch $@

# one stamp for each set of packages, older than pyproject.toml when the set has changed
$(VENV)/.demo: $(VENV)/.python pyproject.toml
	@echo "installing callosum[demo]"
	@$(PIP) install --editable '.[demo]'
	@touch $@

$(VENV)/.test: $(VENV)/.python pyproject.toml
	@echo "installing callosum[demo,dev,examples,fastmcp,fuzz,mcp,opentelemetry,server]"
	@$(PIP) install --editable '.[demo,dev,examples,fastmcp,fuzz,mcp,opentelemetry,server]'
	@touch $@ $(VENV)/.demo
	@$(MAKE) --no-print-directory $(VENV)/.native || echo "without the compiler the native hook client is NOT tested, only the script" >&2

$(VENV)/.docs: $(VENV)/.python pyproject.toml
	@echo "installing callosum[docs]"
	@$(PIP) install --editable '.[docs]'
	@touch $@

# remade when the source has changed
$(VENV)/.native: $(VENV)/.python pyproject.toml callosum/hosts/native/hook.c callosum/hosts/native/client.h $(wildcard callosum/programs/*.py) release/client.py
	@echo "installing callosum[wheels] and compiling the hook client"
	@$(PIP) install --editable '.[wheels]'
	@$(BIN)/python -m release.client
	@touch $@

$(VENV)/.bench: $(VENV)/.python pyproject.toml
	@echo "installing callosum[bench,server]"
	@$(PIP) install --editable '.[bench,server]'
	@touch $@
