# Everything a newcomer types. `make setup` needs Python 3.11 or newer and the network; the rest needs only what it installed.
PYTHON ?= python3
PORT ?= 8000
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup serve test check analyze lock format clean

setup: $(STAMP)

$(STAMP): requirements/test.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/test.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(BIN)/python -m compileall -q analyzer
	touch $@

serve: setup
	$(BIN)/vramledger serve --host 127.0.0.1 --port $(PORT)

test: setup
	$(BIN)/python -m pytest -n auto

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/vramledger patterns check

analyze: setup
	@$(BIN)/vramledger analyze $(LOG)

# Pins every dependency with its hashes. Registry hosts do not belong into the files.
lock:
	$(PYTHON) -m uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate --extra telemetry pyproject.toml -o requirements/run.lock
	$(PYTHON) -m uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate --extra telemetry --extra test pyproject.toml -o requirements/test.lock

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis

# The interface's catalogues: messages from the code, then by hand in analyzer/locale/zh/LC_MESSAGES/vramledger.po, then compiled.
# What marks a message: a function, or an error whose first or second argument is one.
MARKS := -k N_ -k _ -k Message -k fail -k Problem:2 -k IntakeError:2 -k CodecError -k CursorError -k FileError -k WhatIfError
.PHONY: messages
messages: setup
	$(BIN)/pybabel -q extract -F babel.cfg $(MARKS) --no-wrap --sort-output --no-location -o $(VENV)/vramledger.pot analyzer
	$(BIN)/pybabel -q update -i $(VENV)/vramledger.pot -d analyzer/locale -D vramledger --no-wrap --no-fuzzy-matching --ignore-obsolete
	$(BIN)/pybabel -q compile -d analyzer/locale -D vramledger

# Measures what docs/performance.md says, and writes it anew: under five minutes.
.PHONY: bench
bench: setup
	$(BIN)/python -m benchmarks.bench
