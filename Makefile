# Two commands are enough: `make demo` and `make test`. Both set up .venv first.
PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := demo
.PHONY: demo test lint checked slow data browser extras flare crash flower bench docs package clean

.venv/.installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[test]"
	touch $@

# What some of the targets need besides.
.venv/.docs .venv/.flare .venv/.flower: .venv/.%: .venv/.installed
	$(BIN)/python -m pip install --quiet --editable ".[$*]"
	touch $@

.venv/.extras: .venv/.installed
	$(BIN)/python -m pip install --quiet --editable ".[tensorboard,mlflow,onnx,onnxruntime,lightgbm]" torch==2.13.0 "pandas>=2,<4" "polars>=1,<2"
	$(BIN)/python -m pip install --quiet "xgboost-cpu>=3,<4"  # the module of the extra xgboost without libraries for GPUs
	touch $@

demo: .venv/.installed  ## ZO-HFL beside FedAvg, SCAFFOLD and server-only on embedded data
	$(BIN)/fedtier demo

test: .venv/.installed  ## everything that needs no data and no network; beside the tests `make lint`, which speaks at the end
	@mkdir -p build; $(MAKE) --no-print-directory lint >build/lint.log 2>&1 & lint=$$!; \
	$(BIN)/python -m pytest; tests=$$?; \
	wait $$lint && echo "lint: style, types and imports hold" || { cat build/lint.log; exit 1; }; exit $$tests

lint: .venv/.installed
	$(BIN)/ruff check src tests examples bench docs/conf.py docs/_ext
	$(BIN)/ruff format --check src tests examples bench docs/conf.py docs/_ext
	$(BIN)/basedpyright
	$(BIN)/lint-imports

checked: .venv/.installed  ## quick and heavier tests once more: compiled as for users, every annotation checked; an hour
	FEDTIER_TESTS=thorough $(BIN)/python -m pytest -m "not flare and not flower and not data and not browser and not extras"

slow: .venv/.installed  ## the heavier checks
	$(BIN)/python -m pytest -m "slow and not checked and not flare and not flower and not data and not browser and not extras"

data: .venv/.installed  ## tests on the real data sets; FEDTIER_DATA names their folder
	FEDTIER_TESTS=thorough $(BIN)/python -m pytest -m data

browser: .venv/.installed  ## reports in headless Chromium: apt-get install chromium chromium-driver
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || { echo "no chromium: apt-get install chromium chromium-driver" >&2; exit 1; }
	FEDTIER_TESTS=thorough $(BIN)/python -m pytest -n 0 -m browser

extras: .venv/.extras  ## the trackers, ONNX, boosted trees and the PyTorch client against their real packages
	FEDTIER_TESTS=thorough $(BIN)/python -m pytest -m extras -W default

flare: .venv/.flare  ## three sites and a server over NVIDIA FLARE on loopback
	FEDTIER_TESTS=thorough $(BIN)/python -m pytest -n 0 -m "flare and not slow"

crash: .venv/.flare .venv/.flower .venv/.extras  ## all that can fail does, and the table of docs/operations.md is written from it; an hour
	FEDTIER_TESTS=thorough $(BIN)/python -m tests.flare.fault_table
	FEDTIER_TESTS=thorough $(BIN)/python -m pytest -n 0 -m "flower and slow"

flower: .venv/.flower  ## three sites and a server over Flower on loopback
	FEDTIER_TESTS=thorough $(BIN)/python -m pytest -n 0 -m "flower and not slow"

bench: .venv/.installed  ## fedtier beside its peers, about 25 minutes; RESUME=1 goes on with the last sitting
	$(BIN)/python bench/run.py $(if $(RESUME),--resume)
	$(BIN)/python bench/table.py

docs: .venv/.docs  ## the documentation into build/docs: notebooks are run, warnings are errors
	$(BIN)/python -m sphinx -W --keep-going -b html docs build/docs

package: .venv/.installed  ## the wheel and the source distribution, each installed into an empty environment that runs the demo
	rm -rf build/package && mkdir -p build/package
	$(BIN)/python -m build --outdir build/package . >build/package/build.log
	for kind in whl tar.gz; do \
	  $(PYTHON) -m venv --clear build/package/venv && \
	  build/package/venv/bin/python -m pip install --quiet build/package/*.$$kind && \
	  (cd build/package && venv/bin/fedtier --version && venv/bin/fedtier demo --out demo-$$kind) || exit 1; \
	done

clean:
	rm -rf .venv build dist
