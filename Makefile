# Every target sets up what it needs in .venv; nothing outside the folder is touched.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := cctrace collectors analyzers app tests sample_traces bench docs
NATIVE := $(wildcard collectors/native/*.h collectors/native/*.cpp tests/native/mock/*.h tests/native/mock/*.cpp tests/native/apps/*.cpp bench/*.cpp)
PACKAGE_FILES := pyproject.toml CMakeLists.txt $(shell find cctrace collectors analyzers app -name '*.py' -o -name '*.toml' -o -name '*.json' -o -name '*.cpp' -o -name '*.h' -o -name '*.def' -o -name '*.map' -o -path '*/assets/*.*' 2>/dev/null | grep -v __pycache__)

.DEFAULT_GOAL := help
.PHONY: help demo view test test-gpu lint format bench docs clean

help: ## print what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.installed ## compare two shipped recordings: what would confidential computing cost this server?
	@$(BIN)/cctrace diff sample_traces/server-graph-overlap-emulated.parquet sample_traces/server-graph-overlap-off.parquet
	@echo
	@echo "More: $(BIN)/cctrace summary sample_traces/vllm-8b-full-off.parquet, docs/, sample_traces/README.md"

view: $(VENV)/.installed ## open two of the shipped recordings in a browser; Ctrl-C ends it
	@$(BIN)/cctrace view sample_traces/server-graph-overlap-emulated.parquet sample_traces/server-graph-overlap-off.parquet

test: $(VENV)/.tested $(VENV)/.browser ## run all tests (no GPU needed) with a coverage report
	$(BIN)/pytest -p no:cacheprovider -n auto --dist loadfile --cov --cov-report=term --cov-report=xml

test-gpu: $(VENV)/.tested ## run also what needs a real GPU and torch
	$(BIN)/pytest -m gpu

# Types and imports are checked where the four folders are one package: in the installation.
lint: $(VENV)/.linted ## ruff, mypy --strict, clang-format, import directions
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/clang-format --dry-run --Werror $(NATIVE)
	cd $(VENV) && bin/mypy --config-file ../pyproject.toml --cache-dir ../.mypy_cache -p cctrace
	cd $(VENV) && bin/lint-imports --config ../pyproject.toml --no-cache

format: $(VENV)/.linted ## bring all sources into the house style
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/clang-format -i $(NATIVE)

bench: $(VENV)/.tested $(VENV)/.browser ## measure conversion, analysis, attribution and the viewer on this machine (bench/RESULTS.md has the numbers of record)
	$(BIN)/python bench/convert.py
	$(BIN)/python bench/analysis.py
	$(BIN)/python bench/attribution.py
	$(BIN)/python bench/attribution_scores.py
	$(BIN)/python bench/false_alarms.py
	$(BIN)/python bench/viewport.py
	$(BIN)/python bench/viewer.py

docs: $(VENV)/.tested $(VENV)/.browser ## write the generated parts and pictures of docs/ anew
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/screenshots.py

clean: ## remove everything that was made here
	rm -rf $(VENV) build .coverage coverage.xml .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.installed: $(BIN)/python $(PACKAGE_FILES)
	$(BIN)/python -m pip install --quiet .
	@touch $@

# The tests run against the installed package, as a user has it: `python -m pytest` would find this folder first.
$(VENV)/.tested: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet '.[test]'
	@touch $@

# Pages of the viewer are tested in a Chromium: the machine's own, or one that is fetched into .venv, once.
$(VENV)/.browser: | $(VENV)/.tested
	@$(BIN)/python tests/support/chromium.py || echo "no browser: the tests of the viewer's pages are skipped"
	@touch $@

$(VENV)/.linted: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet '.[lint,test]'
	@touch $@
