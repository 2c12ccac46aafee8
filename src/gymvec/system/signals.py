"""Ctrl-C and the processes that are being started."""

from __future__ import annotations

import contextlib
import importlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

__all__ = ["interrupts_held", "interrupts_wait", "let_interrupts_through"]

_HAS_MASK = hasattr(signal, "pthread_sigmask")


@contextlib.contextmanager
def interrupts_wait(context: Any) -> Iterator[None]:
    """Hold Ctrl-C back while processes are started: one that is started by half complains.

    The processes inherit the mask, so that it does not reach them before they are ready for it:
    they call :func:`let_interrupts_through`. In this process the mask says nothing to other
    threads, and whichever the system tells, the handler is called in the main one.

    Args:
        context: The multiprocessing context that starts the processes.
    """
    with interrupts_held():
        if _HAS_MASK:
            method = context.get_start_method()
            # Of multiprocessing, or of the package of the context; not there on Windows.
            package = context.reducer.__package__
            # These processes are not ours alone, and starting them undoes the mask.
            if method != "fork":
                importlib.import_module(f"{package}.resource_tracker").ensure_running()
            if method == "forkserver":
                importlib.import_module(f"{package}.forkserver").ensure_running()
        with _masked():
            yield


@contextlib.contextmanager
def _masked() -> Iterator[None]:
    if not _HAS_MASK:
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back until the end of a block that it must not cut in two.

    Only the handler waits: system calls are interrupted and go on, and processes that are started
    meanwhile get the signal.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    held: list[tuple[int, Any]] = []
    signal.signal(signal.SIGINT, lambda number, frame: held.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if held:
            before(*held[0])


def let_interrupts_through() -> None:
    """In a process that was started while interrupts waited, once it is ready for them."""
    if _HAS_MASK:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
