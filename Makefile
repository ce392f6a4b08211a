# Two commands are enough: `make demo` and `make test`. Both set up .venv first.
PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := demo
.PHONY: demo test lint slow data clean

.venv/.installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[test]"
	touch $@

demo: .venv/.installed  ## ZO-HFL beside FedAvg, SCAFFOLD and server-only on embedded data
	$(BIN)/fedtier demo

test: .venv/.installed lint  ## everything that needs no data and no network
	$(BIN)/python -m pytest

lint: .venv/.installed
	$(BIN)/ruff check src tests
	$(BIN)/ruff format --check src tests
	$(BIN)/pyright
	$(BIN)/lint-imports

slow: .venv/.installed  ## the heavier checks
	$(BIN)/python -m pytest -m slow

data: .venv/.installed  ## tests on the real data sets; FEDTIER_DATA names their folder
	$(BIN)/python -m pytest -m data

clean:
	rm -rf .venv build dist
