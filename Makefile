# `make` alone lists what can be done. Every target works from a fresh clone: it makes .venv first where needed.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
PY := .venv/bin/python
# Options for pytest, e.g. make test ARGS='-k cron'
ARGS ?=
# One more than two cores, as the slow tests mostly wait.
TEST_WORKERS ?= 3
# What mypy looks at, as far as it exists.
TYPED := src tests tools $(foreach folder,benchmarks examples,$(if $(wildcard $(folder)/*.py),$(folder))) scripts/services scripts/generate_docs.py scripts/prose.py deploy/compose/jobs.py deploy/image/healthy.py

# What `make chaos` runs: one product on SQLite, or a cluster on PostgreSQL.
CHAOS := tests.chaos.campaign --kills $(or $(KILLS),50) --zombies $(or $(ZOMBIES),0)
ifneq ($(TRIALS)$(FAULT),)
CHAOS := tests.chaos.cluster --trials $(or $(TRIALS),14) --fault $(or $(FAULT),all)
endif
ifneq ($(STORM),)
CHAOS := tests.chaos.cluster.storm --seconds $(STORM) --rate $(or $(RATE),2000) --outage $(or $(OUTAGE),0) --kill-every $(or $(KILL_EVERY),10) --pauses $(or $(PAUSES),2)
endif

ifneq ($(TRANSACTIONS),)
CHAOS := tests.chaos.transactions --crashes --kills $(TRANSACTIONS) $(if $(CONTROL),--control)
endif

# What brings a cluster of its own: some faults, and a workflow that runs so often.
OWN := $(filter F40 F41,$(FAULT)) $(if $(WORKFLOW),workflow)
OWN := $(strip $(OWN))
ifeq ($(OWN),workflow)
CHAOS := tests.chaos.etl --kills $(WORKFLOW) --seed $(or $(SEED),1)
endif
ifeq ($(OWN),F40)
CHAOS := tests.chaos.alerting.watchdog_kills --kills $(or $(KILLS),100) --seed $(or $(SEED),1)
endif
ifeq ($(OWN),F41)
CHAOS := tests.chaos.revoking --rounds $(or $(ROUNDS),10) --slow $(or $(SLOW),1)
endif

.PHONY: help setup demo test lint fmt types arch docs docs-generate dist bench bench-table bench-scale bench-idle chaos fuzz simulate show-alerts show-restore show-trace proof proof-peer ci lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## make .venv from the lock file (installs python3-venv where it is missing)
	@PYTHON=$(PYTHON) scripts/setup

demo: setup ## run the main job on SQLite, live, with a verdict at the end (90 s at most)
	@$(PY) examples/demo.py

test: setup ## all tests, with a private PostgreSQL (ARGS='-k cron' to choose)
	@scripts/services run -- $(PY) -m pytest -n$(TEST_WORKERS) --dist loadgroup --no-loadscope-reorder $(ARGS)

lint: setup ## ruff (rules and format) and the prose of the pages (scripts/prose.toml)
	@.venv/bin/ruff check
	@.venv/bin/ruff format --check
	@$(PY) scripts/prose.py

fmt: setup ## put the code into ruff's format and apply its safe fixes
	@.venv/bin/ruff check --fix-only
	@.venv/bin/ruff format

types: setup ## mypy --strict
	@$(PY) -m mypy $(TYPED)

arch: setup ## import contracts, module sizes, public names, complete docs, both dialects alike
	@.venv/bin/lint-imports --no-logo
	@scripts/services run -- $(PY) -m pytest -q -p no:xdist tests/architecture

docs: setup ## make the site of the pages in build/docs; a warning fails
	@$(PY) -m sphinx --quiet --fail-on-warning --keep-going --jobs auto -b html -c docs . build/docs
	@echo "open build/docs/docs/index.html"

dist: setup ## make the files of a release, a wheel and the source, in dist
	@$(PY) -m hatchling build

docs-generate: setup ## write the pages that are made from code
	@$(PY) scripts/generate_docs.py

bench: setup ## benchmarks on SQLite and a durable private PostgreSQL (QUICK=1 for a short run)
	@scripts/services run --durable -- $(PY) -m benchmarks $(if $(QUICK),--quick)

bench-table: setup ## every line of the table beside the peers in one sitting, half an hour (LONG=1: with the long parts; PARTS="rest ...")
	@scripts/services run --durable -- $(PY) -m benchmarks.sitting $(PARTS) $(if $(LONG),--long)

bench-scale: setup ## statements over LIVE=1000000 live and FINISHED=10000000 finished runs, a transaction open for OPEN=600 s; LETTERS=1000000 dead ones; a day of as many finished ones dropped, and archived
	@scripts/services run --durable -- $(PY) -m benchmarks.scale --live $(or $(LIVE),1000000) \
		--finished $(or $(FINISHED),10000000) --open $(or $(OPEN),600)
	@scripts/services run --durable -- $(PY) -m benchmarks.dead_letters --letters $(or $(LETTERS),1000000)
	@scripts/services run --durable -- $(PY) -m benchmarks.drops --rows $(or $(FINISHED),10000000)
	@scripts/services run --durable -- $(PY) -m benchmarks.archived --rows $(or $(FINISHED),10000000)

bench-idle: setup ## what SESSIONS=500 idle remote workers cost one server and two, for SECONDS=60
	@scripts/services run --durable -- $(PY) -m benchmarks.idle --sessions $(or $(SESSIONS),500) \
		--seconds $(or $(SECONDS),60)

chaos: setup ## harm the real product: KILLS, ZOMBIES on SQLite; TRIALS, FAULT=F1.. in a cluster; STORM=seconds; TRANSACTIONS=kills; WORKFLOW=kills
	@$(if $(TRANSACTIONS),scripts/services run --durable -- ,$(if $(OWN),scripts/services run -- ))$(PY) -m $(CHAOS) $(if $(OWN),,--seed $(or $(SEED),1))

fuzz: setup ## attack a server of two tenants with tokens of three roles (SECONDS=600)
	@$(PY) -m tests.security.fuzz --seconds $(or $(SECONDS),600)

simulate: setup ## search SEEDS seeds of the simulator for a broken rule, on all cores (STORE=sqlite, FIRST=n); OUTAGE=86400: replay one outage of so many seconds with JOBS=60
	@$(PY) -m tools.simulator --seeds $(or $(SEEDS),2000) --first $(or $(FIRST),0) --store $(or $(STORE),memory) $(if $(OUTAGE),--outage $(OUTAGE) --jobs $(or $(JOBS),60))

show-alerts: setup ## make faults in a real cluster: each is told once by webhook, mail and Alertmanager, and ended (AS_SHIPPED=1: default periods)
	@scripts/services run -- $(PY) -m tests.chaos.alerting $(if $(AS_SHIPPED),--as-shipped)

show-restore: setup ## back a loaded store up, kill the server, restore, and judge (RUNS=2000), on SQLite and PostgreSQL
	@scripts/services run -- $(PY) -m tests.chaos.restoring --runs $(or $(RUNS),2000)

show-trace: setup ## send one run's trace through a real OpenTelemetry collector, and check its parents (builds the collector once, with Go: minutes)
	@$(PY) -m tests.show_trace --collector "$${COLLECTOR:-$$(scripts/collector)}"

proof: setup ## switch each guard off, see whether the judge notices, and write docs/explanation/guards.md
	@$(PY) -m tests.simulation.proof

proof-peer: setup ## have the judge judge Celery on Redis, which is known to fail (installs Redis where it is missing)
	@$(PY) -m tests.chaos.peers.celery_on_redis

ci: ## what the merge gate runs: lint, types and arch, two at a time, then the tests that arch has not run
	@$(MAKE) --no-print-directory -j2 --output-sync=target types lint arch
	@$(MAKE) --no-print-directory test ARGS='$(ARGS) --ignore=tests/architecture'

lock: setup ## renew requirements/*.lock (hashes, no index addresses)
	@scripts/lock

clean: ## remove .venv, caches and build output
	@rm -rf .venv .setup.lock .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
