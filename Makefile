# C programs are built here; Python runs in environments that nox makes (noxfile.py).
PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2

NOX := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)/nox
SESSION = $(NOX) --envdir $(VENV) $(NOXFLAGS) -s
TESTS = $(SESSION) tests --
PARALLEL := -n $(JOBS) --dist loadfile

C_CODE := $(wildcard csrc/*.c)
C_TESTS := $(notdir $(basename $(wildcard csrc/tests/test_*.c)))
C_FUZZ := $(filter-out fuzz_driver,$(notdir $(basename $(wildcard csrc/fuzz/fuzz_*.c))))
# Named like their sessions in noxfile.py.
SESSIONS := demo test-light test-portable sanitize matrix dist dist-test wheels bench table docs types format

.SILENT:
.PHONY: help test test-c test-python test-long test-leaks test-dev test-random fuzz chaos compare \
	peers conformance conformance-checkout lint clean $(SESSIONS)

help: $(NOX) ## List the targets, then the sessions that make passes on
	awk -F ':.*## ' '/^[a-z-]+.*:.*## / { printf "make %-30s %s\n", $$1, $$2 }' Makefile
	$(NOX) --list

$(NOX):
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 10) or sys.exit("Python 3.10 or later is needed")'
	$(PYTHON) -m venv $(VENV)
	$(VENV)/$(notdir $(@D))/python -m pip install --quiet --disable-pip-version-check 'nox>=2025.2.9'

$(SESSIONS): $(NOX)
	$(SESSION) $@ -- $(ARGS)

test: test-c test-python ## The C tests, then the Python tests on the installed package

test-python: $(NOX) ## The Python tests: make test-python ARGS="-k concat"
	$(TESTS) -m pytest $(PARALLEL) -m "not long" $(ARGS)

test-long test-leaks: $(NOX) ## The tests that test-python leaves out; those that look for leaks
	$(TESTS) -m pytest -m $(@:test-%=%) $(ARGS)

# It finds what is never closed or awaited. Its checks of memory make sizes and counts unsteady.
test-dev: $(NOX) ## The Python tests in Python's development mode; every warning is an error
	$(TESTS) -X dev -W error -m pytest $(PARALLEL) -m "not leaks" $(ARGS)

# `make test` draws the same examples in every run; these are new ones, unless SEED is given.
EXAMPLES ?= 2000
test-random: $(NOX) ## New examples for every property test: make test-random EXAMPLES=2000 SEED=7
	seed=$(if $(filter file,$(origin SEED)),$$($(PYTHON) -c 'import secrets; print(secrets.randbits(32))'),$(SEED)); \
	replay="To replay: make test-random SEED=$$seed EXAMPLES=$(EXAMPLES)"; echo "$$replay"; \
	FUZZ_SEED=$$seed EXAMPLES=$(EXAMPLES) HYPOTHESIS_PROFILE=random \
		$(TESTS) -m pytest -m hypothesis --hypothesis-seed=$$seed --timeout=0 $(ARGS) \
		|| { echo "$$replay"; exit 1; }

# Seconds for each part, and which inputs: the same seed makes the same ones.
SECONDS ?= 10
SEED ?= 1
chaos: $(NOX) ## Deaths, stops, errors and time-outs at random: make chaos SECONDS=600 SEED=1
	$(TESTS) tests/vector/chaos.py --seconds $(SECONDS) --seed $(SEED) $(ARGS)

# Each C test is linked with all C code, and runs once for each way to compile it. The portable way
# is that of macOS and Windows. Not every compiler comes with ThreadSanitizer, and only the control
# words use threads.
FLAGS.address := -fsanitize=address,undefined -fno-sanitize-recover=undefined
FLAGS.thread := -fsanitize=thread
FLAGS.portable := -DGV_PORTABLE
HAS_THREAD := $(shell echo 'int main() { }' | $(CC) -fsanitize=thread -x c - -o /dev/null 2> /dev/null && echo yes)
THREADED := test_control test_wait test_handovers
C_PROGRAMS := $(C_TESTS:=.plain) $(C_TESTS:=.address) $(THREADED:=.portable) $(if $(HAS_THREAD),$(THREADED:=.thread))
# Hand-overs; naps and ThreadSanitizer make each of them many times slower.
ARGUMENTS_test_handovers.thread := 10000
ARGUMENTS_test_handovers.portable := 10000

.SECONDEXPANSION:
build/c/%: $$(wildcard csrc/*/$$(basename $$*).c) $$(if $$(findstring fuzz_,$$*),csrc/fuzz/fuzz_driver.c) $(C_CODE) $(wildcard csrc/*.h csrc/*/*.h)
	mkdir -p $(@D)
	$(CC) -std=c11 -Wall -Wextra -Wconversion -Werror -g -O1 -pthread -Icsrc -Icsrc/tests $(FLAGS$(suffix $@)) $(filter %.c,$^) -lm -o $@

test-c: $(C_PROGRAMS:%=build/c/%) ## The C tests: plain, portable, with sanitizers of addresses and of threads
	$(foreach program,$^,$(program) $(ARGUMENTS_$(notdir $(program))) &&) true

fuzz: $(C_FUZZ:%=build/c/%.address) ## Random input to the C code under sanitizers: make fuzz SECONDS=60 SEED=7
	$(foreach program,$^,ASAN_OPTIONS=abort_on_error=1 UBSAN_OPTIONS=abort_on_error=1 $(program) $(SECONDS) $(SEED) &&) true

compare: $(NOX) ## CartPole beside other packages, for 1 to 128 environments
	$(SESSION) peers -- -m gymvec compare CartPole-v1 --seconds 0.4 --rounds 5 \
		--json build/compare.json --plot build/compare.png $(ARGS)
	$(SESSION) peers -- bench/peers/run.py --reduce build/compare.json bench/results/compare.json

peers: $(NOX) ## Six environments beside other packages
	$(SESSION) peers -- bench/peers/run.py $(ARGS)

conformance conformance-checkout: $(NOX) ## Gymnasium's own tests: GYMNASIUM=checkout
	$(SESSION) $@ -- $(GYMNASIUM) $(ARGS)

lint: $(NOX) ## Style and types
	$(SESSION) lint types

clean: ## Remove everything that was built
	rm -rf $(VENV) build dist site wheelhouse *.egg-info src/*.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache
