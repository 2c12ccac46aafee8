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

C_CODE := $(filter-out csrc/test_% csrc/fuzz%,$(wildcard csrc/*.c))
C_HEADERS := $(wildcard csrc/*.h)
C_TESTS := $(wildcard csrc/test_*.c)
C_FUZZ := $(filter-out csrc/fuzz_driver.c,$(wildcard csrc/fuzz_*.c))
PACKAGE := setup.py pyproject.toml MANIFEST.in $(C_CODE) $(C_HEADERS) \
	$(shell find src -name '*.py' -o -name '*.py[xi]' -o -name '*.pxd' -o -name py.typed)

.PHONY: help demo test test-c test-python test-light test-portable test-dev test-leaks test-random fuzz \
	chaos sanitize dist dist-test wheels matrix bench compare peers table conformance conformance-checkout \
	lint types docs format clean

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

demo: $(VENV)/with-compare ## Gymnasium's functions and gymvec's, then CartPole on each kind of vector environment
	$(PY) bench/demo.py
	$(PY) -m gymvec compare CartPole-v1 --num-envs 8,32 --seconds 0.2 --rounds 3 $(ARGS)

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
THREADED := test_control test_wait test_handovers
C_PROGRAMS := $(C_TESTS:csrc/%.c=build/c/%.plain) $(C_TESTS:csrc/%.c=build/c/%.address) \
	$(if $(HAS_THREAD),$(THREADED:%=build/c/%.thread))
# Hand-overs; ThreadSanitizer makes each of them many times slower.
ARGUMENTS_test_handovers.thread := 10000

test-c: $(C_PROGRAMS) ## Run the C tests: plain, with sanitizers of addresses and of threads
	$(foreach program,$^,$(program) $(ARGUMENTS_$(notdir $(program))) &&) true

# Seconds for each file, and which inputs: the same seed makes the same ones.
SECONDS ?= 10
SEED ?= 1
build/c/fuzz_%: csrc/fuzz_%.c csrc/fuzz_driver.c $(C_CODE) $(C_HEADERS)
	$(COMPILE_C) -fsanitize=address,undefined -fno-sanitize-recover=undefined $(FROM_C)

fuzz: $(C_FUZZ:csrc/%.c=build/c/%) ## Random input to the C code under sanitizers: make fuzz SECONDS=60 SEED=7
	$(foreach program,$^,ASAN_OPTIONS=abort_on_error=1 UBSAN_OPTIONS=abort_on_error=1 \
		$(program) $(SECONDS) $(SEED) &&) true

test-python: $(VENV)/with-test
	$(PY) -m pytest $(ARGS)

# Where MuJoCo and other environments cannot be installed.
test-light: $(VENV)/with-test-light ## Run the Python tests that need no other packages' environments
	$(PY) -m pytest tests/utils tests/install tests/kernels tests/property $(ARGS)

chaos: $(VENV)/with-test ## Deaths, stops, errors and time-outs at random: make chaos SECONDS=600 SEED=1
	cd tests/vector && PYTHONPATH=.. $(abspath $(PY)) chaos.py --seconds $(SECONDS) --seed $(SEED) $(ARGS)

# `make test` draws the same examples in every run; these are new ones, unless SEED is given.
EXAMPLES ?= 2000
test-random: $(VENV)/with-test ## New examples for every property test: make test-random EXAMPLES=2000 SEED=7
	@seed=$(if $(filter file,$(origin SEED)),$$($(PY) -c 'import secrets; print(secrets.randbits(32))'),$(SEED)); \
	replay="To replay: make test-random SEED=$$seed EXAMPLES=$(EXAMPLES)"; echo "$$replay"; \
	FUZZ_SEED=$$seed EXAMPLES=$(EXAMPLES) HYPOTHESIS_PROFILE=random \
		$(PY) -m pytest -m hypothesis --hypothesis-seed=$$seed --timeout=0 $(ARGS) \
		|| { echo "$$replay"; exit 1; }

# Everything that is written for macOS and Windows and also runs here: naps in place of futexes, a
# watchdog that asks, pipes with threads.
PORTABLE := $(CURDIR)/build/portable/site
build/portable/site: build/portable/made
	$(PY) -m pip install --quiet --no-deps --upgrade --target $@ build/portable/wheel/*.whl
	touch $@

test-portable: build/portable/site $(VENV)/with-test ## Run the tests of processes as on macOS and Windows
	for name in $(THREADED); do \
		$(CC) -std=c11 -Wall -Wextra -g -O1 -pthread -DGV_PORTABLE csrc/$$name.c $(C_CODE) -lm -o build/portable/$$name \
		&& build/portable/$$name || exit 1; done
	PYTHONPATH="$(PORTABLE)" $(PY) -m pytest tests/vector $(ARGS)

# It finds what is never closed or awaited; every warning is an error.
test-dev: $(VENV)/with-test ## Run the Python tests in Python's development mode
	$(PY) -X dev -W error -m pytest $(NOT_IN_DEV) $(ARGS)

# Its checks of memory make sizes and counts of blocks unsteady.
NOT_IN_DEV := --deselect=tests/kernels/test_leaks.py::test_leaks \
	--ignore=tests/hostile/test_call_leaks.py --ignore=tests/vector/test_async_limits.py \
	--deselect=tests/vector/test_control.py::test_memory_is_flat

test-leaks: $(VENV)/with-test ## Run the tests of references, memory and descriptors
	$(PY) -m pytest tests/kernels/test_leaks.py tests/hostile/test_call_leaks.py \
		tests/vector/test_async_limits.py tests/vector/test_control.py::test_memory_is_flat $(ARGS)

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
# limits, partial batches, chaos and what measures are about time and memory, which the sanitizers
# change. Hostile sizes are MemoryErrors, as without them.
NOT_SANITIZED := --deselect=tests/kernels/test_leaks.py::test_leaks \
	--deselect=tests/vector/test_control.py::test_memory_is_flat \
	--ignore=tests/vector/test_async_limits.py --ignore=tests/vector/test_async_programs.py \
	--ignore=tests/vector/test_recv.py --ignore=tests/vector/test_recv_contract.py \
	--ignore=tests/kernels/test_csrc.py --ignore=tests/conformance --ignore=tests/compare \
	--ignore=tests/hostile/test_call_leaks.py --ignore=tests/vector/test_little_memory.py \
	--ignore=tests/vector/test_restart_time.py --ignore=tests/vector/test_chaos.py --ignore=tests/cli

sanitize: build/sanitize/site $(VENV)/with-test ## Run the Python tests with sanitizers of addresses and undefined behaviour
	LD_PRELOAD="$(PRELOAD)" PYTHONPATH="$(SANITIZED)" PYTHONMALLOC=malloc \
	ASAN_OPTIONS=detect_leaks=0:handle_segv=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 HYPOTHESIS_PROFILE=few \
	$(PY) -m pytest $(NOT_SANITIZED) $(ARGS)

# A wheel for this machine's Python. auditwheel gives it the tag of the oldest systems it runs on.
dist: $(VENV)/with-dist ## Build sdist and wheel into dist, and check them
	rm -rf build/dist dist
	$(PY) -m build --outdir build/dist . > build/dist.log || { cat build/dist.log; exit 1; }
	mkdir dist
	cp build/dist/*.tar.gz dist
ifeq ($(shell uname -s),Linux)
	PATH="$(abspath $(BIN)):$$PATH" auditwheel repair --wheel-dir dist build/dist/*.whl
else
	cp build/dist/*.whl dist
endif
	$(PY) tools/check_dist.py dist
	$(BIN)/check-wheel-contents dist/*.whl
	$(BIN)/twine check --strict dist/*

# As a user has it: the tests of the sdist, on the wheel, in a new environment, without a compiler.
dist-test: dist ## Test the wheel in dist in a new environment without a compiler
	rm -rf build/dist-test
	mkdir -p build/dist-test/sdist
	tar -xzf dist/*.tar.gz -C build/dist-test/sdist --strip-components=1
	$(PYTHON) -m venv build/dist-test/venv
	build/dist-test/venv/bin/python -m pip install --quiet "$$(echo dist/*.whl)[test]"
	cd build/dist-test/sdist && PATH="$(CURDIR)/build/dist-test/venv/bin" \
		python -m pytest $(ARGS)

matrix: $(VENV)/with-dist ## Test on PYTHONS="3.10 ..." with CELLS="oldest newest" dependencies
	$(PY) tools/matrix.py $(if $(PYTHONS),--pythons "$(PYTHONS)") $(if $(CELLS),--cells "$(CELLS)") $(ARGS)

# What `make table` puts into README.md and docs/benchmarks.md.
RESULTS := bench/results

bench: $(VENV)/with-bench ## Measure gymvec beside Gymnasium: functions, then vector environments
	$(PY) bench/functions.py --json $(RESULTS)/functions.json $(ARGS)
	$(PY) bench/vector_envs.py --rounds 61 --seconds 0.12 --json $(RESULTS)/vector_envs.json

# Other packages in an environment of their own, as far as they can be installed here.
PEERS := $(VENV)-peers
PEERS_PY := $(PEERS)/$(notdir $(BIN))/python
$(PEERS)/made: build/release/made $(wildcard bench/peers/*.txt)
	$(PYTHON) -m venv $(PEERS)
	$(PEERS_PY) -m pip install --quiet 'pip>=23.2'
	$(PEERS_PY) -m pip install --quiet --force-reinstall --no-deps build/release/wheel/*.whl
	$(PEERS_PY) -m pip install --quiet "$$(echo build/release/wheel/*.whl)[compare]"
	$(PEERS_PY) bench/peers/install.py
	touch $@

compare: $(PEERS)/made ## Measure CartPole on all kinds of vector environment, other packages' too
	$(PEERS_PY) -m gymvec compare CartPole-v1 --seconds 0.4 --rounds 5 \
		--json build/compare.json --plot build/compare.png $(ARGS)
	$(PEERS_PY) bench/peers/run.py --reduce build/compare.json $(RESULTS)/compare.json

peers: $(PEERS)/made ## Measure six environments on all kinds of vector environment
	$(PEERS_PY) bench/peers/run.py $(ARGS)

table: $(VENV)/with-bench ## Put the last measurements into README.md and docs/benchmarks.md
	$(PY) bench/table.py

# Needs Docker on Linux; elsewhere it installs Pythons. Its settings are in pyproject.toml.
wheels: $(VENV)/with-dist ## Build wheels for all Pythons on this system into wheelhouse
	$(PY) -m cibuildwheel --output-dir wheelhouse $(ARGS)

# What Gymnasium's tests need beside its extras.
FOR_GYMNASIUM_TESTS := moviepy array-api-compat array_api_extra scipy dill pytest

conformance-checkout: $(VENV)/package ## The same with the checkout's Gymnasium installed
	$(PY) -m pip install --quiet "$(GYMNASIUM)[mujoco,box2d,classic-control,toy-text]" $(FOR_GYMNASIUM_TESTS)
	$(PY) tests/conformance/run.py $(GYMNASIUM) $(ARGS)

conformance: $(VENV)/with-test ## Run Gymnasium's own tests on gymvec: make conformance GYMNASIUM=checkout
	$(PY) -m pip install --quiet $(FOR_GYMNASIUM_TESTS)
	$(PY) tests/conformance/run.py $(GYMNASIUM) $(ARGS)

lint: types ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PATH="$(abspath $(BIN)):$$PATH" cython-lint src
	$(BIN)/clang-format --dry-run --Werror $(C_CODE) $(C_HEADERS) $(C_TESTS) csrc/fuzz_*.c
	$(BIN)/zizmor --offline --quiet .github
	$(PY) tools/check_pre_commit.py

# The stubs against the modules as they are compiled.
types: $(VENV)/with-lint ## Check the types and the stubs of the extension modules
	$(BIN)/mypy
	$(PY) -m mypy.stubtest --concise --allowlist tests/typing/stubtest_allowlist.txt \
		--ignore-unused-allowlist $(subst /,.,$(patsubst src/%.pyx,%,$(shell find src -name "*.pyx")))

docs: $(VENV)/with-docs ## Build the documentation into site; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

format: $(VENV)/with-lint ## Rewrite what lint would find fault with, where a tool can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(C_CODE) $(C_HEADERS) $(C_TESTS) csrc/fuzz_*.c

clean: ## Remove everything that was built
	rm -rf $(VENV) build dist site wheelhouse *.egg-info src/*.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache
