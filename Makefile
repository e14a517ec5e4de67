# Every target makes its own environment; see scripts/setup.sh. Set ARES_PYTHON to choose the interpreter.
SHELL := /bin/bash
BIN := .venv/bin
.DEFAULT_GOAL := help
PARALLEL := -n auto --dist worksteal
.PHONY: help demo app test test-slow check docs bench torture mutants judges nightly verify-exports lock clean run-env dev-env app-env

help: ## Say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: run-env ## Run the whole job on the sample, then open the dashboard (ARGS="--no-serve --json")
	@$(BIN)/ares demo $(ARGS)

app: app-env ## Open the dashboard of a workspace, without models where there are none (ARGS="-w FOLDER")
	@$(BIN)/ares app $(ARGS)

test: dev-env ## Quick tests: every module, command, format and page once, some minutes (ARGS="-k NAME -x")
	@scripts/test_system.sh
	@scripts/node.sh test
	@$(BIN)/pytest $(PARALLEL) --ignore tests/house --ignore tests/test_docs.py $(ARGS)

test-slow: dev-env ## Slow tests: processes, kills, browsers, journeys, long lists (ARGS="-k NAME -x")
	@scripts/test_system.sh
	@scripts/node.sh test
	@$(BIN)/pytest $(PARALLEL) -m 'slow and not nightly' --ignore tests/house --ignore tests/test_docs.py $(ARGS)

check: dev-env ## Lint, format, types, and the tests of the house rules
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@scripts/node.sh check
	@$(BIN)/pytest -q $(PARALLEL) tests/house tests/test_docs.py

docs: dev-env ## Build the manual and the reference of Python as web pages, strict (.cache/site)
	@$(BIN)/python -m scripts.docs_site $(ARGS)

bench: run-env ## Run the benchmarks (ARGS="16")
	@$(BIN)/python -m benchmarks.run $(ARGS)

torture: dev-env ## Hostile files, damaged files, kills and faults (ARGS="--minutes 30", "--short", "--seed SEED")
	@$(BIN)/python -m tests.torture $(ARGS)

mutants: dev-env ## Random changes of ARES that its tests must notice (ARGS="--count 50 --match ares/rubric", "--seed SEED")
	@$(BIN)/python -m tests.mutants $(ARGS)

judges: dev-env ## Let judges with known faults grade made-up worlds (ARGS="--match obeys", "--draws 200 --seed 3")
	@$(BIN)/python -m tests.judges $(ARGS)

nightly: dev-env ## What takes too long for every change: marked tests, an hour of torture, mutants, a million rows (ARGS="small")
	@scripts/nightly.sh $(ARGS)

verify-exports: run-env ## Open exports in lerobot 0.6.1 and TensorFlow, in environments of their own (ARGS="FOLDER" for your own)
	@scripts/verify_exports.sh $(ARGS)

lock: dev-env ## Write the lock files again from pyproject.toml
	@scripts/lock.sh

clean: ## Remove the environment and every cache; workspaces stay
	@rm -rf .venv node_modules .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

run-env:
	@scripts/setup.sh run

dev-env:
	@scripts/setup.sh dev

app-env:
	@scripts/setup.sh app
