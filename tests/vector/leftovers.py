"""What a vector environment may leave behind, and Ctrl-C at any moment."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import psutil


def leftovers() -> tuple[int, list[str], int]:
    """Children of this process, its open files, and its mapped segments. Linux."""
    names = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
    files = sorted(os.readlink(name) for name in names if os.path.islink(name))
    with open("/proc/self/maps") as file:
        mapped = sum("/pym-" in line for line in file)
    return len(psutil.Process().children(recursive=True)), files, mapped


class SignalAt:
    """Sends Ctrl-C to this process at a call or a return, once: a profile function.

    It is there that the interpreter looks at signals. Unlike an exception that is raised here, a
    signal can be held back.

    Args:
        count: At which of them.
    """

    def __init__(self, count: int) -> None:
        self.left = count
        self._pid = os.getpid()

    def __call__(self, frame: Any, event: str, arg: Any) -> None:
        if os.getpid() != self._pid:
            # A worker that was forked.
            sys.setprofile(None)
            return
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(signal.SIGINT)
