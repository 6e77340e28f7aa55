# Everything is made under this clone (.venv, .bat) and ~/.cache; `make` alone says what there is.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

BIN := .venv/bin
READY := .venv/.ready
SOAK ?= 10
WORKERS ?= 2
SEEDS ?= 11 12 13

.PHONY: help setup demo test lint types unit soak soak-tests bench bench-learning schemas clean

help: ## say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv, fetch Kafka's jars, see to bubblewrap; does nothing when nothing changed

$(READY): pyproject.toml constraints.txt compose/kafka/pom.xml tools/setup.sh
	@tools/setup.sh
	@touch $@

demo: $(READY) ## run a campaign on the built-in benchmark (ARGS=--quick for one short round)
	@$(BIN)/bat-events demo $(ARGS)

test: lint types unit ## linter, type checker and all tests

lint: $(READY) ## ruff, rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY) ## mypy, strict
	$(BIN)/mypy

unit: $(READY) ## all tests, two files at a time, each process with a broker of its own (ARGS="tests/kafka -x" for some)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

soak: $(READY) ## chaos on the real Kafka: over 100 kills, then compare (ARGS="--seed 7 --kills 200 --json"); docs/chaos.md
	@$(BIN)/python -m tests.soak.chaos $(ARGS)

soak-tests: $(READY) ## the broker and crash tests, and what takes long, SOAK=10 times over
	@for round in $$(seq $(SOAK)); do echo "soak: round $$round of $(SOAK)"; \
		$(BIN)/python -m pytest tests/kafka tests/simulation tests/chaos tests/soak $(ARGS); done

bench: $(READY) ## list the benchmarks, or run one (NAME=...)
ifdef NAME
	@$(BIN)/python bench/$(NAME).py $(ARGS)
else
	@for file in bench/*.py; do [ -e "$$file" ] || continue; \
		printf 'make bench NAME=%-12s %s\n' "$$(basename "$$file" .py)" "$$(sed -n '1s/^"""//p' "$$file")"; done
endif

bench-learning: $(READY) ## does the policy learn? the demo with SEEDS="11 12 13", then both checkpoints on the confirmation split
	@$(BIN)/python bench/learning.py --seeds $(SEEDS) $(ARGS)

schemas: $(READY) ## write schemas/*.avsc from the typed events
	@$(BIN)/python -m bat_events.events.schema_files

clean: ## remove .venv and every build output; runs stay (bat-events clean removes those)
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis compose/kafka/target
	find . -name __pycache__ -prune -exec rm -rf {} +
