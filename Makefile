# Tallyboard: `make run` starts everything, `make test` checks everything.
SYSTEM_PYTHON := $(shell command -v python3.11 || command -v python3 || echo python3.11)
PYTHON := .venv/bin/python

.PHONY: help environment setup run test test-fast lint types lock target-stop target-start status clean

help:
	@echo "make run           start everything (Ctrl-C stops it)"
	@echo "make test          all tests, with a real broker, Spark and browser"
	@echo "make test-fast     the tests that need none of these"
	@echo "make lint types    ruff, mypy"
	@echo "make target-stop   stop the target that the demo's probes watch (target-start: start it)"
	@echo "make status        what the supervisor says of each process"
	@echo "make setup lock clean"

environment:
	@$(SYSTEM_PYTHON) -m ops.setup

setup: environment
	@$(PYTHON) -m ops.jars

run: environment
	@exec $(PYTHON) -m ops.up --tied

test: environment
	@$(PYTHON) -m ops.test

test-fast: environment
	@$(PYTHON) -m ops.test fast

lint: environment
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .

types: environment
	@$(PYTHON) -m mypy .

lock: environment
	@$(PYTHON) -m uv pip compile pyproject.toml --group dev --generate-hashes --python-version 3.11 \
		--no-header --quiet -o requirements.lock

target-stop:
	@$(PYTHON) -m ops.control stop target

target-start:
	@$(PYTHON) -m ops.control start target

status:
	@$(PYTHON) -m ops.control status

clean:
	rm -rf .venv .jars .pytest_cache .mypy_cache .ruff_cache .hypothesis staticfiles test-results
