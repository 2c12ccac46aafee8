"""Hostile arguments to every compiled callable: an exception at most, and no byte outside.

A program of its own, since a crash must be seen as a failure: ``python fuzz_kernels.py
examples [seed]``. The last call is in the file that the environment variable ``LAST_CALL`` names.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import warnings

import hostile_values as hostile
import kernel_calls
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

# A call that waits is ended as a user would end it; one that cannot be ended is a hang.
PATIENCE_SECONDS = 0.5
LONGEST_SECONDS = 260


class Interrupted(Exception):
    """The call took too long."""


def interrupt(number, frame):
    raise Interrupted


@st.composite
def calls(draw):
    """A call: its name, its good arguments, and what to put in place of some of them."""
    name = draw(st.sampled_from(sorted(kernel_calls.CALLS)))
    spoiled = draw(st.dictionaries(st.integers(0, 6), hostile.anything, max_size=3))
    more = draw(st.lists(hostile.anything, max_size=1)) if draw(st.integers(0, 9)) == 0 else []
    inside = draw(st.booleans())
    return name, spoiled, more, inside


def spoil(arguments, spoiled, inside):
    """Put hostile values in place of arguments, or of a part of them."""
    arguments = list(arguments)
    for position, value in spoiled.items():
        if position >= len(arguments):
            continue
        old = arguments[position]
        if inside and type(old) is list and old:
            old[position % len(old)] = value
        elif inside and type(old) is dict and old:
            old[list(old)[position % len(old)]] = value
        else:
            arguments[position] = value
    return arguments


def use(name, arguments):
    """Call, and use what came of it once more."""
    result = kernel_calls.find(name)(*arguments)
    if name.endswith(("Writer", "Blocks", "Block")) and callable(result):
        result(hostile.honest("array"))
    elif name.endswith("KeyedItems"):
        list(result)


def run(call, log):
    name, spoiled, more, inside = call
    log.seek(0)
    log.write(f"{name} {[type(v).__name__ for v in spoiled.values()]} {inside}".ljust(300).encode())
    log.flush()
    arguments = [*spoil(kernel_calls.CALLS[name](), spoiled, inside), *more]
    for mutator in hostile.mutators_in(arguments):
        # They change what is in use; whoever is called twice calls it in a changed state.
        mutator.victims = [part for value in arguments for part in hostile.contained_in(value)]
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_SECONDS)
    try:
        use(name, arguments)
    except Exception:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    hostile.check_guards()


def main(examples, number):
    faulthandler.enable()
    faulthandler.dump_traceback_later(LONGEST_SECONDS + examples // 20, exit=True)
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, interrupt)
    counts = {}
    with open(os.environ.get("LAST_CALL", os.devnull), "wb", buffering=0) as log:

        @seed(number)
        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(calls())
        def fuzz(call):
            counts[call[0]] = counts.get(call[0], 0) + 1
            run(call, log)

        fuzz()
    print(sum(counts.values()), "calls of", len(counts), "callables")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
