"""Finds the processes that a test has started, whoever their parent is by now."""

import contextlib
import time
import uuid

import psutil

_NAME = "GYMVEC_TEST_MARK"


def mark(monkeypatch):
    """Mark all processes that are started from now on."""
    value = uuid.uuid4().hex
    monkeypatch.setenv(_NAME, value)
    return value


def marked(value):
    """The marked processes that live; not Python's own, which track resources and fork servers."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(_NAME) == value and not _is_helper(process):
                found.append(process)
    return found


def gone(value, seconds=20.0):
    """Whether all marked processes end within some time."""
    deadline = time.monotonic() + seconds
    while marked(value):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _is_helper(process):
    if process.status() == psutil.STATUS_ZOMBIE:
        return True
    line = " ".join(process.cmdline())
    return "resource_tracker" in line or "forkserver" in line
