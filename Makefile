# Tallyboard: `make run` starts everything, `make test` checks everything.
# A distribution's build comes first: it is optimised by profiles, which pyenv's is not unless asked to
# (1.5 times as fast in a loop of calls). `make SYSTEM_PYTHON=...` chooses another.
IS_311 := import ensurepip, sys, venv; sys.exit(sys.version_info[:2] != (3, 11))
SYSTEM_PYTHON = $(shell for python in /usr/bin/python3.11 python3.11 python3 python; do \
	$$python -c '$(IS_311)' 2>/dev/null && echo $$python && break; done)
PYTHON := .venv/bin/python

# Ten processes start together: without it each would compile all that it imports, at every start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help environment setup run test test-all test-fast test-changed lint types lock jars-lock sbom audit agents-wheel release target-stop target-start status pictures \
	bench bench-drain bench-recovery bench-live bench-pauses bench-materialise bench-summary bench-scale bench-emission bench-sessions bench-stores bench-standby bench-peers bench-growth bench-quick clean

help:
	@echo "make run           start everything (Ctrl-C stops it)"
	@echo "make run ONLY=a,b  start some of the processes: broker, job, web, ..."
	@echo "make test          every stage of the tests, with a real broker, Spark and browser"
	@echo "make test-all      every case of them, and the long trials"
	@echo "make test-fast     the stage that needs none of these"
	@echo "make test-changed  the tests of what has changed since origin/main"
	@echo "make lint types    ruff and import-linter, mypy"
	@echo "make target-stop   stop the target that the demo's probes watch (target-start: start it)"
	@echo "make status        what the supervisor says of each process"
	@echo "make pictures      take the pictures of README and tour from a running copy"
	@echo "make bench         measure everything for bench/results/tables.md (some hours on a quiet machine)"
	@echo "make bench-drain   or one of it: bench-recovery, bench-live, bench-pauses, bench-materialise, bench-summary,"
	@echo "                   bench-scale, bench-emission, bench-sessions, bench-stores, bench-standby,"
	@echo "                   bench-growth, bench-peers (Kafka Streams, Flink, Quix Streams: fetches them first)"
	@echo "make bench-quick   the main ratios to the peers, in under five minutes"
	@echo "make lock          pin the Python packages anew (jars-lock: the Java archives)"
	@echo "make sbom          write down every part of the product (CycloneDX)"
	@echo "make agents-wheel  build the package with which other programs report and log"
	@echo "make release       build wheel, image context, list of parts and release notes into dist/"
	@echo "make audit ADVISORIES=PATH  look the parts up in a copy of known vulnerabilities"
	@echo "make setup clean"

environment:
	@python=$(SYSTEM_PYTHON); \
	if [ -z "$$python" ]; then \
		echo "setup: Python 3.11 is missing: install it (on Debian: python3.11 and python3.11-venv)." >&2; \
		exit 1; \
	fi; \
	exec $$python -m ops.setup

setup: environment
	@$(PYTHON) -m ops.jars
	@$(PYTHON) -m streaming.kernel
	@$(PYTHON) -m ops.class_archive

run: environment
	@exec $(PYTHON) -m ops.up --tied --only=$(ONLY)

test: environment
	@$(PYTHON) -m ops.test

test-all: environment
	@$(PYTHON) -m ops.test all

test-changed: environment
	@$(PYTHON) -m ops.test changed

test-fast: environment
	@$(PYTHON) -m ops.test unit

lint: environment
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .
	@.venv/bin/lint-imports

types: environment
	@$(PYTHON) -m mypy .

lock: environment
	@$(PYTHON) -m uv pip compile pyproject.toml --group dev --generate-hashes --python-version 3.11 \
		--no-header --quiet -o requirements-dev.lock
	@$(PYTHON) -m uv pip compile pyproject.toml --generate-hashes --python-version 3.11 \
		--no-header --no-annotate --quiet -c requirements-dev.lock -o requirements.lock
	@$(PYTHON) -m uv pip compile --group build --generate-hashes --python-version 3.11 \
		--no-header --no-annotate --quiet -o requirements-build.lock
	@$(PYTHON) -m uv pip compile --group java --generate-hashes --python-version 3.11 \
		--no-header --no-annotate --quiet -o requirements-java.lock

jars-lock: environment
	@$(PYTHON) -m ops.jars_lock

sbom: environment
	@$(PYTHON) -m ops.jars
	@$(PYTHON) -m ops.sbom

audit: environment
	@$(PYTHON) -m ops.jars
	@$(PYTHON) -m ops.vulnerability_audit $(ADVISORIES)

agents-wheel: environment
	@$(PYTHON) -m ops.agents_wheel

release: environment
	@$(PYTHON) -m ops.jars
	@$(PYTHON) -m ops.release

target-stop:
	@$(PYTHON) -m ops.control stop target

target-start:
	@$(PYTHON) -m ops.control start target

status:
	@$(PYTHON) -m ops.control status

pictures:
	@$(PYTHON) -m ops.pictures

# One after the other, also with -j: they would slow each other. OPTIONS="--engines kernel", for one.
BENCHES := drain recovery live pauses materialise summary scale emission sessions stores standby peers growth

bench:
	@for name in $(BENCHES); do $(MAKE) --no-print-directory bench-$$name || exit 1; done

$(BENCHES:%=bench-%): bench-%: setup
	@$(PYTHON) -m bench.$* $(OPTIONS)
	@$(PYTHON) -m bench.report

bench-quick: setup
	@$(PYTHON) -m bench.peers --quick $(OPTIONS)

clean:
	rm -rf .venv .jars dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis test-results
