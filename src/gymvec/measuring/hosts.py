"""Processes that hold what is measured, so that nothing in it can stop the one who measures."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import cloudpickle

from gymvec.system.signals import interrupts_wait, let_interrupts_through
from gymvec.vector.errors import how_it_ended

__all__ = ["Failure", "Host", "OutOfTimeError", "reason_of"]

_POSIX = os.name == "posix"
_SLICE_SECONDS = 0.05
_STOP_PATIENCE = 1000
# Seconds beyond the limit of an order after which a host ends itself, where its parent does not.
_GRACE_SECONDS = 5.0


class Failure(Exception):
    """What a host was asked for did not come; the text is the reason, in one line.

    The host is then of no more use, and should be closed. What a host does may raise it too.
    """


class OutOfTimeError(Failure):
    """The time limit was over."""


class Host:
    """A process that does what it is told, one order at a time, each within a time limit.

    Its descendants are in its process group, which is stopped between orders (POSIX): what
    waits there takes no time from the others. However an order ends, :meth:`close` leaves no
    process behind.
    """

    def __init__(self, context: Any = None, *, stopped: bool = True) -> None:
        """Start the process, without waiting for it.

        Args:
            context: A multiprocessing context or the name of its start method; None for the
                default.
            stopped: Whether the process is stopped between orders.

        Raises:
            Failure: The process does not start.
        """
        if context is None or isinstance(context, str):
            context = multiprocessing.get_context(context)
        self._stopped = stopped and _POSIX
        self._has_group = False
        descriptor, self._log = tempfile.mkstemp(prefix="gymvec-")
        os.close(descriptor)
        self._connection, theirs = context.Pipe()
        try:
            # Not daemonic: those may have no children.
            self._process = context.Process(
                target=_serve,
                args=(theirs, self._log, multiprocessing.get_context().get_start_method()),
                daemon=False,
            )
            with interrupts_wait(context):
                self._process.start()
        except Exception as error:
            self._connection.close()
            os.unlink(self._log)
            raise Failure(f"no process can be started: {reason_of(error)}") from error
        finally:
            theirs.close()

    def ask(self, function: Callable[..., Any], *args: Any, limit: float) -> Any:
        """Call ``function(held, *args)`` in the host, and return what it returns.

        Args:
            function: Anything that cloudpickle takes. ``held`` is a dict that stays the same
                from order to order.
            args: Its arguments.
            limit: Seconds that it may take.

        Raises:
            OutOfTimeError: It took longer.
            Failure: It raised, or the host died.
        """
        try:
            order = cloudpickle.dumps((function, args))
        except Exception as error:
            raise Failure(f"cannot be pickled: {reason_of(error)}") from error
        deadline = time.monotonic() + limit
        if not self._has_group:
            self._receive(deadline, limit)
            self._has_group = _POSIX
        self._signal("SIGCONT")
        try:
            self._connection.send((order, limit))
        except OSError:
            raise Failure(self._last_words()) from None
        done, result = self._receive(deadline, limit)
        self._signal("SIGSTOP")
        self._await_stop()
        if not done:
            raise Failure(result)
        return result

    def close(self) -> None:
        """End the process and all of its descendants, whatever they do."""
        if self._process is None:
            return
        # Before the process is waited for, and its number can go to another.
        if self._has_group:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        elif sys.platform == "win32":
            tree = ["taskkill", "/F", "/T", "/PID", str(self._process.pid)]
            subprocess.run(tree, capture_output=True, check=False)
        self._process.kill()
        self._process.join()
        self._process.close()
        self._process = None
        self._connection.close()
        os.unlink(self._log)

    def _receive(self, deadline: float, limit: float) -> Any:
        # In slices: a descendant may hold the other end of the pipe open.
        try:
            while not self._connection.poll(_SLICE_SECONDS):
                if not self._process.is_alive() and not self._connection.poll(0):
                    raise Failure(self._last_words())
                if time.monotonic() >= deadline:
                    raise OutOfTimeError(f"no answer within {limit:.3g} s")
            return self._connection.recv()
        except (EOFError, OSError):
            raise Failure(self._last_words()) from None

    def _last_words(self) -> str:
        self._process.join(1.0)
        with open(self._log, errors="replace") as file:
            lines = [line.strip() for line in file if line.strip()]
        ended = f"the process {how_it_ended(self._process.exitcode)}"
        return f"{ended}: {lines[-1]}" if lines else ended

    def _signal(self, name: str) -> None:
        if self._stopped and self._has_group:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, getattr(signal, name))

    def _await_stop(self) -> None:
        # Should this process be killed, the kernel ends a group that is stopped, but not one
        # that is about to be.
        if not (self._stopped and hasattr(os, "waitid")):
            return
        either = os.WSTOPPED | os.WEXITED | os.WNOWAIT | os.WNOHANG
        with contextlib.suppress(ChildProcessError):  # a fork server's child
            # Not for ever: a process in a system call that does not end does not stop either.
            for _ in range(_STOP_PATIENCE):
                if os.waitid(os.P_PID, self._process.pid, either) is not None:
                    break
                time.sleep(0.001)


def reason_of(error: BaseException) -> str:
    """Class and text of an exception, in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _serve(connection: Any, log: str, start_method: str) -> None:
    """The target of a host's process."""
    # How this process was started says nothing about how its own are to be.
    multiprocessing.set_start_method(start_method, force=True)
    if _POSIX:
        # In the session still: should the parent be gone, the kernel wakes and ends a group
        # that is stopped.
        os.setpgid(0, 0)
    _write_to(log)
    if threading.current_thread() is threading.main_thread():
        # A fork has copied the parent's while interrupts waited there.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if _POSIX:
            # What the kernel ends it by, also where the parent takes no notice of it (nohup).
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
    let_interrupts_through()
    # No user reads them here. Where they are errors, as in tests, they would end a measurement.
    warnings.simplefilter("ignore")
    held: dict[str, Any] = {}
    connection.send(None)
    while True:
        try:
            order, limit = connection.recv()
        except (EOFError, OSError):
            return
        if _POSIX:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, limit + _GRACE_SECONDS)
        try:
            function, args = pickle.loads(order)
            answer = True, function(held, *args)
        except KeyboardInterrupt:
            raise
        except Failure as failure:
            answer = False, str(failure)
        except BaseException as error:
            answer = False, reason_of(error)
        if _POSIX:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        try:
            connection.send(answer)
        except OSError:
            return


def _write_to(log: str) -> None:
    """Environments may print; none of it goes between what the parent prints."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    os.close(descriptor)
    # What a fork has copied may write elsewhere, as notebooks let it.
    sys.stdout, sys.stderr = (open(stream, "w", 1, closefd=False) for stream in (1, 2))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
