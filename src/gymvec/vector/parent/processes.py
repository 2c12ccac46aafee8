"""The worker processes, each with a pipe: started, watched and ended."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait
from typing import Any, NamedTuple

from gymvec.system.signals import interrupts_held, interrupts_wait
from gymvec.utils import clear_mpi_env_vars
from gymvec.vector.transport import control
from gymvec.vector.transport.carried import Carried, EnvFns, carried_connection
from gymvec.vector.transport.env_registry import other_specs
from gymvec.vector.transport.memory import Layout, Segment
from gymvec.vector.transport.messages import MessagePipe, WorkerConfig
from gymvec.vector.worker.main import run_worker

__all__ = ["Workers"]

# How long a process gets to end by itself, and after SIGTERM, before the next harder way.
_TERM_SECONDS = 1.0
# How long the system may take to end one after SIGKILL: it is held up by what the process waits for.
_KILL_SECONDS = 10.0
# Between two looks at a process whose sentinel says nothing.
_LOOK_SECONDS = 0.02
# Windows waits for 63 at a time.
_MOST_SENTINELS = 60


class _Plan(NamedTuple):
    """What a process is started with."""

    env_fns: Sequence[Any]
    layout: Layout
    segment: Segment
    daemon: bool
    name: str
    cores: Sequence[int] | None
    config: dict[str, Any]


class Workers:
    """The processes of one vector environment and the parent's ends of their pipes.

    Dropping it without :meth:`end`, as an interrupted constructor does, ends them.

    Attributes:
        processes: The processes.
        pipes: The ends of the pipes.
    """

    def __init__(self) -> None:
        self.processes: list[Any] = []
        self.pipes: list[MessagePipe] = []
        self._plan: _Plan | None = None
        self._finalizer = weakref.finalize(self, _end_now, self.processes, self.pipes, os.getpid())
        # At exit the pools close, which gives the environments time.
        self._finalizer.atexit = False

    def start(
        self,
        env_fns: Sequence[Any],
        layout: Layout,
        segment: Segment,
        context: Any,
        *,
        daemon: bool,
        name: str,
        cores: Sequence[int] | None,
        config: dict[str, Any],
    ) -> None:
        """Start one process for each slice of the layout. An error leaves those before it.

        Args:
            env_fns: Functions that make one environment each.
            layout: What lies where in the segment.
            segment: The segment.
            context: Multiprocessing context.
            daemon: Whether the processes are daemonic.
            name: Name of the owner's class, for the names of the processes.
            cores: The cores to pin workers to, in turn; None to leave that to the system.
            config: Further fields of :class:`gymvec.vector.transport.messages.WorkerConfig`.

        Raises:
            TypeError: A function cannot be pickled; the message names the environment.
        """
        # The caller's list may change before a process is replaced.
        plan = _Plan(list(env_fns), layout, segment, daemon, name, cores, config)
        self._plan = plan
        with self._starting(context) as specs:
            for index in range(len(layout.slices)):
                process, pipe = self._start(plan, index, context, specs, None)
                self.processes.append(process)
                self.pipes.append(pipe)

    def replace(self, worker: int, context: Any, snapshots: dict[int, bytes]) -> None:
        """Start a new process in place of one that was reaped, with a new pipe.

        Args:
            worker: Its number.
            context: Multiprocessing context; must not fork, which other threads would not
                survive.
            snapshots: The pickled last observation of each environment.

        Raises:
            TypeError: A function cannot be pickled; the message names the environment.
            OSError: The system has no room for another process.
        """
        assert self._plan is not None
        with self._starting(context) as specs:
            process, pipe = self._start(self._plan, worker, context, specs, snapshots)
            before = self.pipes[worker]
            self.processes[worker], self.pipes[worker] = process, pipe
        before.close()

    @contextlib.contextmanager
    def _starting(self, context: Any) -> Iterator[list[bytes]]:
        """Around the start of processes; the registered environments that they do not know."""
        method = context.get_start_method()
        specs = [] if method == "fork" else other_specs()
        with interrupts_held(), clear_mpi_env_vars(), interrupts_wait(context):
            yield specs

    def _start(
        self,
        plan: _Plan,
        index: int,
        context: Any,
        specs: list[bytes],
        snapshots: dict[int, bytes] | None,
    ) -> tuple[Any, MessagePipe]:
        part = plan.layout.slices[index]
        fns = plan.env_fns[part.start : part.stop]
        ours, theirs = context.Pipe()
        # Before there is a process, which an error would leave without an owner.
        pipe = MessagePipe(ours)
        # A fork copies the parent's ends; elsewhere there is nothing to close.
        forks = context.get_start_method() == "fork"
        reducer = context.reducer
        segment: Any = plan.segment
        connection: Any = theirs
        if not forks:
            segment = Carried(partial(plan.segment.reduction, reducer))
            connection = carried_connection(theirs, reducer)
        unused = [ours, *(box.connection for box in self.pipes)] if forks else []
        cores = plan.cores
        process = context.Process(
            target=run_worker,
            args=(
                WorkerConfig(
                    index=index,
                    parent_pid=os.getpid(),
                    segment=segment,
                    layout=plan.layout,
                    env_fns=EnvFns(fns, part.start, reducer),
                    connection=connection,
                    unused=unused,
                    core=None if cores is None else cores[index % len(cores)],
                    specs=specs,
                    snapshots=snapshots,
                    **plan.config,
                ),
            ),
            name=f"Worker<{plan.name}>-{index}",
            daemon=plan.daemon,
        )
        try:
            process.start()
        except Exception:
            ours.close()
            raise
        finally:
            theirs.close()
        return process, pipe

    def has_ended(self, worker: int) -> bool:
        """Whether a process is gone. Its pipe may be held open by its own children."""
        return _has_ended(self.processes[worker])

    def exit_code(self, worker: int) -> int | None:
        """The exit code of a process that is ending or gone; None if the system no longer knows it."""
        process = self.processes[worker]
        _wait([process], _TERM_SECONDS)
        code: int | None = process.exitcode
        return code

    def is_stopped(self, worker: int) -> bool:
        """Whether a process is held by a debugger or a stop signal, where that can be seen."""
        try:
            with open(f"/proc/{self.processes[worker].pid}/stat") as file:
                stat = file.read()
        except OSError:
            return False
        return stat.rpartition(")")[2].split()[0] in "Tt"

    def reap(self, worker: int) -> bool:
        """Kill a process that is still there, and reap it. Whether it is gone."""
        process = self.processes[worker]
        if not _has_ended(process):
            _kill(process)
            _wait([process], _KILL_SECONDS)
            if not _has_ended(process):
                return False
        process.join()
        _release(process)
        return True

    def end(self, seconds: float) -> None:
        """End and reap every process, and close the pipes. May be called again.

        Ctrl-C cuts the wait short: the processes are killed before it is raised.

        Args:
            seconds: How long they may take to end by themselves.
        """
        try:
            _wait(self.processes, min(seconds, _TERM_SECONDS))
            for stop in (_terminate, _kill):
                alive = [process for process in self.processes if not _has_ended(process)]
                for process in alive:
                    stop(process)
                _wait(alive, _TERM_SECONDS)
        finally:
            # It keeps the segment.
            self._plan = None
            _end_now(self.processes, self.pipes, os.getpid())

    def disown(self) -> None:
        """Leave the processes to the parent: this process is its fork."""
        for process in self.processes:
            # The exit hook of multiprocessing, or of the package of the context, would end them.
            for kind in type(process).__mro__:
                getattr(sys.modules[kind.__module__], "_children", set()).discard(process)


def _end_now(processes: list[Any], pipes: list[MessagePipe], owner: int) -> None:
    """Kill and reap processes and close their pipes, whole also where Ctrl-C comes.

    Args:
        processes: The processes.
        pipes: The parent's ends of their pipes.
        owner: The process that started them; in a fork of it nothing happens.
    """
    if os.getpid() != owner:
        return
    with interrupts_held():
        alive = [process for process in processes if not _has_ended(process)]
        for process in alive:
            _kill(process)
        _wait(alive, _KILL_SECONDS)
        for process in processes:
            if _has_ended(process):
                process.join()
                _release(process)
        for pipe in pipes:
            pipe.close()


def _has_ended(process: Any) -> bool:
    # There is no exit code where another part of the program has reaped it.
    return process.exitcode is not None or not control.parent_alive(process.pid)


def _terminate(process: Any) -> None:
    process.terminate()


def _kill(process: Any) -> None:
    if hasattr(process._popen, "kill"):
        process.kill()
        return
    # loky's processes can only be asked to end.
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)


@dataclass
class _Ended:
    """Stands for a process that was reaped; what `Process` asks of its handle."""

    pid: int
    returncode: int | None

    def poll(self, flag: int = 0) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int | None:
        return self.returncode


def _release(process: Any) -> None:
    """Close the sentinel of a reaped process; unlike ``Process.close``, keep the exit code."""
    handle = process._popen
    if hasattr(handle, "close"):
        handle.close()
    else:
        # loky's handle closes its sentinel when it is deleted.
        process._popen = _Ended(process.pid, process.exitcode)


def _wait(processes: list[Any], seconds: float) -> None:
    """Wait until all have ended. A process's sentinel alone may be held by its children."""
    deadline = time.monotonic() + seconds
    alive = [process for process in processes if not _has_ended(process)]
    while alive and time.monotonic() < deadline:
        wait([process.sentinel for process in alive[:_MOST_SENTINELS]], _LOOK_SECONDS)
        alive = [process for process in alive if not _has_ended(process)]
