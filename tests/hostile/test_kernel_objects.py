"""Objects of the extension modules that were never made, are made again, or are copied."""

import copy
import pickle
import subprocess
import sys
import threading

import kernel_calls
import pytest

from gymvec.vector.transport import control

CLASSES = {
    name: kernel_calls.find(name)
    for name in kernel_calls.compiled()
    if isinstance(kernel_calls.find(name), type)
}
# Made by kernels only; without a function, and whose attributes are None until then.
INERT = {"infos.InfoColumn", "info_schemas.Field", "info_schemas.Schema", "info_schemas.SlotColumn"}
METHODS = [name for name in kernel_calls.CALLS if name.count(".") == 2 and name not in INERT]


def test_there_are_classes():
    assert len(CLASSES) > 12
    assert INERT < set(CLASSES)


@pytest.mark.parametrize("name", sorted(set(CLASSES) - INERT))
def test_none_is_made_without_its_arguments(name):
    kind = CLASSES[name]
    with pytest.raises(TypeError):
        kind.__new__(kind)
    with pytest.raises(TypeError):
        kind()


@pytest.mark.parametrize("name", sorted(INERT))
def test_those_that_kernels_make_are_harmless(name):
    made = CLASSES[name]()
    for member in dir(made):
        if not member.startswith("__"):
            getattr(made, member)
    repr(made)


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_none_is_copied_or_pickled(name):
    """A copy would have the memory of another object, or none."""
    made = CLASSES[name](*kernel_calls.CALLS[name]())
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            attempt(made)
    assert not hasattr(made, "__setstate_cython__")


@pytest.mark.parametrize("name", METHODS)
def test_made_again_it_stays_as_it_was(name):
    arguments = kernel_calls.CALLS[name]()
    kind = type(arguments[0])
    full = f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}"
    for again in ((), kernel_calls.CALLS[full](), (None,) * 3):
        try:
            kind.__init__(arguments[0], *again)
        except TypeError:
            pass
    kernel_calls.find(name)(*arguments)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("wrong", [None, 3, object(), {}])
def test_a_method_of_another_object(name, wrong):
    kind, _, member = name.rpartition(".")
    unbound = getattr(CLASSES.get(kind, control._Mapping), member)
    with pytest.raises((TypeError, AttributeError)):
        unbound.__get__(wrong, type(wrong))
        unbound(wrong)


def test_uses_by_many_threads():
    """One waits without the GIL; what others may not do meanwhile is an error."""
    one = kernel_calls.parent()
    one.send_all(1)
    stop, unexpected = threading.Event(), []

    def use():
        while not stop.is_set():
            for call in (
                lambda: one.wait(1, 0.001),
                lambda: one.drain(),
                lambda: one.ring(0),
                lambda: one.num_pending,
                lambda: one.send([0], 1),
                lambda: one.close(),
            ):
                try:
                    call()
                except (RuntimeError, ValueError):
                    pass
                except BaseException as error:
                    unexpected.append(error)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    stop.wait(0.5)
    stop.set()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert unexpected == []


@pytest.mark.skipif(sys.platform != "linux", reason="the watchdog's exit code")
@pytest.mark.parametrize("pid", ["None", "'x'", "-1", "0", "2**31", "2**70", "1.5", "gone"])
def test_watching_what_is_no_process(pid):
    """A wrong argument is an error; a process that is gone ends this one, as promised."""
    program = f"""
import mmap, subprocess, sys
from gymvec.vector.transport.control_worker import Worker
gone = subprocess.Popen([sys.executable, "-c", ""])
gone.wait()
gone = gone.pid
worker = Worker(mmap.mmap(-1, 4096), 0, 256, 1)
try:
    worker.watch_parent({pid})
except (TypeError, ValueError, OverflowError):
    sys.exit(7)
"""
    done = subprocess.run([sys.executable, "-c", program], timeout=60)
    assert done.returncode == (113 if pid == "gone" else 7)
