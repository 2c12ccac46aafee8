"""No compiled callable leaks: good calls, and those with a wrong argument in each place."""

import gc
import sys

import hostile_values as hostile
import kernel_calls
import psutil
import pytest

pytestmark = [pytest.mark.timeout(120), pytest.mark.long, pytest.mark.leaks]

ROUNDS = 50
# A leak leaves at least one block a round, each time; what Python keeps for later does not.
ALLOWED_BLOCKS = ROUNDS * 9 // 10
ATTEMPTS = 4
WRONG = (hostile.Replies(hostile.breaks), None, "text", hostile.Replies(hostile.wrong))


def call_all(name):
    """The good call, and one for each argument and wrong value."""
    function = kernel_calls.find(name)
    function(*kernel_calls.CALLS[name]())
    for position in range(len(kernel_calls.CALLS[name]())):
        for wrong in WRONG:
            arguments = list(kernel_calls.CALLS[name]())
            arguments[position] = wrong
            try:
                function(*arguments)
            except Exception:
                pass
    hostile.check_guards()


def usage():
    kernel_calls.forget()
    for _ in range(2):
        gc.collect()
    process = psutil.Process()
    files = process.num_fds() if hasattr(process, "num_fds") else 0
    return sys.getallocatedblocks(), files


# The threads of such a pipe go on until it is closed, and then end in their own time.
STARTS_THREADS = {
    f"pipe.ThreadedMessagePipe.{name}" for name in ("flush", "post", "receive", "take", "wait")
}


@pytest.mark.parametrize("name", sorted(set(kernel_calls.CALLS) - STARTS_THREADS))
def test_nothing_is_left(name):
    for _ in range(10):
        call_all(name)
    for _ in range(ATTEMPTS):
        blocks, files = usage()
        for _ in range(ROUNDS):
            call_all(name)
        after, after_files = usage()
        if after - blocks < ALLOWED_BLOCKS and after_files <= files:
            return
    raise AssertionError(f"{after - blocks} blocks, {after_files - files} files in {ROUNDS} rounds")
