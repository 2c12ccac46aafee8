"""Sub-environments that fail, hang and die, for processes of any start method."""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from scripted import Scripted


class Acts(Scripted):
    """Calls a function of its own at the methods named: ``act(env, name)``."""

    def __init__(self, act: Callable[[Any, str], Any] | None = None, at: str = "", **kwargs: Any):
        super().__init__(length=kwargs.pop("length", 1000), **kwargs)
        self.act = act
        self.at = at
        self.maybe_fail("init")

    def maybe_fail(self, name: str) -> None:
        if self.act is not None and name in self.at.split():
            self.act(self, name)
        super().maybe_fail(name)

    def pid(self) -> int:
        return os.getpid()

    def nap(self, seconds: float) -> float:
        time.sleep(seconds)
        return seconds


def sleep(seconds: float) -> Callable[[Any, str], None]:
    """An act: sleep."""
    return lambda env, name: time.sleep(seconds)


def die(how: int) -> Callable[[Any, str], None]:
    """An act: exit at once with a code, or be ended by a signal where it is negative."""

    def act(env: Any, name: str) -> None:
        if how < 0:
            # A forked worker has pytest's handler, whose dump looks like a failure.
            faulthandler.disable()
            os.kill(os.getpid(), -how)
            time.sleep(30)
        os._exit(how)

    return act


def die_beside_a_child(seconds: float) -> Callable[[Any, str], None]:
    """An act: be killed, and leave a forked process that holds all that is open."""

    def act(env: Any, name: str) -> None:
        if os.fork() == 0:
            time.sleep(seconds)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(30)

    return act


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether a condition comes true within a time."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def start_script(path: Any, text: str, **kwargs: Any) -> subprocess.Popen:
    """Run a text as a program of its own; its helpers are importable."""
    path.write_text(text)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, str(path)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **kwargs,
    )


def read_line(program: subprocess.Popen) -> str:
    """A line of what it prints, and no byte more: `communicate` does not see what was read."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(program.stdout.fileno(), 1)
        if not byte:
            break
        line += byte
    return line.decode()
