# Every target does its own set-up, in a virtual environment made with $(PYTHON).
PYTHON ?= python3
VENV ?= .venv
ARGS ?=

ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
PY := $(BIN)/python

# The tests run against the package that is installed, whatever PYTHONPATH says.
unexport PYTHONPATH
export PIP_DISABLE_PIP_VERSION_CHECK := 1

C_CODE := $(filter-out csrc/test_%,$(wildcard csrc/*.c))
C_HEADERS := $(wildcard csrc/*.h)
C_TESTS := $(wildcard csrc/test_*.c)
PACKAGE := setup.py pyproject.toml MANIFEST.in $(C_CODE) $(C_HEADERS) \
	$(shell find src -name '*.py' -o -name '*.py[xi]' -o -name '*.pxd' -o -name py.typed)

.PHONY: help demo test test-c test-python chaos sanitize bench table conformance lint format clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

# --- set-up ------------------------------------------------------------------------------

$(VENV)/made:
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 10) or sys.exit("Python 3.10 or later is needed")'
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet 'pip>=23.2'
	touch $@

# A wheel of each build: release, debug, sanitize. What is gone from src must not come back
# from the build before.
build/%/made: $(PACKAGE) $(VENV)/made
	rm -rf build/$*
	GYMVEC_BUILD=$* $(PY) -m pip wheel --quiet --no-deps --wheel-dir build/$*/wheel .
	touch $@

# A wheel of the same version is only installed again when told so.
$(VENV)/package: build/release/made
	$(PY) -m pip install --quiet --force-reinstall --no-deps build/release/wheel/*.whl
	$(PY) -m pip install --quiet build/release/wheel/*.whl
	touch $@

# The package with one of its extras.
$(VENV)/with-%: $(VENV)/package
	$(PY) -m pip install --quiet "$$(echo build/release/wheel/*.whl)[$*]"
	touch $@

# --- targets -----------------------------------------------------------------------------

demo: $(VENV)/package ## Step 64 CartPoles on Gymnasium's functions and on gymvec's
	$(PY) bench/demo.py $(ARGS)

test: test-c test-python ## Run the C tests, then the Python tests on the installed package

# Each C test is linked with all C code, and runs once for each way to compile it.
COMPILE_C = @mkdir -p $(@D) && $(CC) -std=c11 -Wall -Wextra -g -O1 -pthread
FROM_C = $(filter %.c,$^) -lm -o $@
build/c/%.plain: csrc/%.c $(C_CODE) $(C_HEADERS)
	$(COMPILE_C) $(FROM_C)
build/c/%.address: csrc/%.c $(C_CODE) $(C_HEADERS)
	$(COMPILE_C) -fsanitize=address,undefined -fno-sanitize-recover=undefined $(FROM_C)
build/c/%.thread: csrc/%.c $(C_CODE) $(C_HEADERS)
	$(COMPILE_C) -fsanitize=thread $(FROM_C)

# Not every compiler comes with ThreadSanitizer, and only the control words use threads.
HAS_THREAD := $(shell echo 'int main(void) { return 0; }' \
	| $(CC) -fsanitize=thread -x c - -o /dev/null 2> /dev/null && echo yes)
C_PROGRAMS := $(C_TESTS:csrc/%.c=build/c/%.plain) $(C_TESTS:csrc/%.c=build/c/%.address) \
	$(if $(HAS_THREAD),$(patsubst csrc/%.c,build/c/%.thread,$(filter %/test_bell.c,$(C_TESTS))))
# Hand-overs; ThreadSanitizer makes each of them many times slower.
ARGUMENTS_test_bell.thread := 10000

test-c: $(C_PROGRAMS) ## Run the C tests: plain, with sanitizers of addresses and of threads
	$(foreach program,$^,$(program) $(ARGUMENTS_$(notdir $(program))) &&) true

test-python: $(VENV)/with-test
	$(PY) -m pytest $(ARGS)

SECONDS ?= 60
SEED ?=
chaos: $(VENV)/with-test ## Deaths, stops, errors and time-outs at random: make chaos SECONDS=600 SEED=1
	cd tests/vector && PYTHONPATH=.. $(abspath $(PY)) chaos.py --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(ARGS)

# Python itself leaks at its end, and some tests want a worker to die of a segmentation fault.
# The sanitized package shadows the release that is installed. C++ exceptions of other
# packages need their library to be there when AddressSanitizer starts.
SANITIZED := $(CURDIR)/build/sanitize/site
PRELOAD = $(foreach name,asan ubsan stdc++,$(shell $(CC) -print-file-name=lib$(name).so))
build/sanitize/site: build/sanitize/made
	$(PY) -m pip install --quiet --no-deps --upgrade --target $@ build/sanitize/wheel/*.whl
	touch $@

# AddressSanitizer keeps freed memory for a while, so sizes are not flat; it would also run in the
# compiler of test_csrc, which test-c makes up for; tests/conformance runs other suites. Programs,
# limits, partial batches and chaos are about time and memory, which the sanitizers change.
NOT_SANITIZED := --deselect=tests/kernels/test_leaks.py::test_leaks \
	--deselect=tests/vector/test_bell.py::test_memory_is_flat \
	--ignore=tests/vector/test_async_limits.py --ignore=tests/vector/test_async_programs.py \
	--ignore=tests/vector/test_recv.py --ignore=tests/vector/test_recv_contract.py \
	--ignore=tests/vector/test_restart_time.py --ignore=tests/vector/test_chaos.py \
	--ignore=tests/kernels/test_csrc.py --ignore=tests/conformance

sanitize: build/sanitize/site $(VENV)/with-test ## Run the Python tests with sanitizers of addresses and undefined behaviour
	LD_PRELOAD="$(PRELOAD)" PYTHONPATH="$(SANITIZED)" PYTHONMALLOC=malloc \
	ASAN_OPTIONS=detect_leaks=0:handle_segv=0 UBSAN_OPTIONS=print_stacktrace=1 HYPOTHESIS_PROFILE=few \
	$(PY) -m pytest $(NOT_SANITIZED) $(ARGS)

bench: $(VENV)/with-bench ## Measure gymvec beside Gymnasium
	$(PY) -m pytest bench/test_utils.py -q -W default --benchmark-quiet --benchmark-json=build/bench.json $(ARGS)
	$(PY) bench/table.py reduce build/bench.json bench/results/utils.json
	$(PY) bench/table.py show bench/results/utils.json

table: ## Put the last measurements into README.md
	$(PYTHON) bench/table.py paste bench/results/utils.json README.md

conformance: $(VENV)/with-test ## Run Gymnasium's own tests on gymvec: make conformance GYMNASIUM=checkout
	$(PY) tests/conformance/run.py $(GYMNASIUM) $(ARGS)

lint: $(VENV)/with-lint ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PATH="$(abspath $(BIN)):$$PATH" cython-lint src
	$(BIN)/clang-format --dry-run --Werror $(C_CODE) $(C_HEADERS) $(C_TESTS)
	$(BIN)/mypy

format: $(VENV)/with-lint ## Rewrite what lint would find fault with, where a tool can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(C_CODE) $(C_HEADERS) $(C_TESTS)

clean: ## Remove everything that was built
	rm -rf $(VENV) build *.egg-info src/*.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache
