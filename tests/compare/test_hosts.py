"""Processes that hold what is measured."""

import os
import signal
import subprocess
import sys
import time
import warnings

import psutil
import pytest
from marks import gone, mark, marked

from gymvec.measuring.hosts import Failure, Host, OutOfTimeError

pytestmark = pytest.mark.not_sanitized

POSIX = pytest.mark.skipif(os.name != "posix", reason="needs process groups")


@pytest.fixture(params=["spawn", None])
def host(request):
    host = Host(request.param)
    yield host
    host.close()


def put(held, key, value):
    held[key] = value


def get(held, key):
    return held[key]


def fail(held):
    raise ValueError("two\nlines")


def end(held, how):
    if how == "print":
        print("last words", file=sys.stderr, flush=True)
        os._exit(3)
    os.kill(os.getpid(), signal.SIGKILL)


def start_child_and_sleep(held):
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    time.sleep(1000)


def status(pid):
    return psutil.Process(pid).status()


def test_orders_share_what_is_held(host):
    host.ask(put, "key", 5, limit=60)
    assert host.ask(get, "key", limit=60) == 5
    offset = 2
    assert host.ask(lambda held, x: held["key"] + x + offset, 1, limit=60) == 8


def test_an_exception_is_a_reason_in_one_line(host):
    with pytest.raises(Failure, match="^ValueError: two lines$"):
        host.ask(fail, limit=60)


def test_a_warning_is_no_failure(host):
    """Warnings are errors in this process."""
    host.ask(lambda held: warnings.warn("never mind", UserWarning, stacklevel=1), limit=60)


def test_what_cannot_be_pickled(host):
    with pytest.raises(Failure, match="^cannot be pickled: "):
        host.ask(put, "key", (x for x in "ab"), limit=60)


@POSIX
@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("print", "^the process exited with code 3: last words$"),
        ("kill", "^the process was ended by SIGKILL"),
    ],
)
def test_a_death_is_reported(host, how, reason):
    with pytest.raises(Failure, match=reason):
        host.ask(end, how, limit=60)


def test_a_time_limit_ends_the_descendants_too(monkeypatch):
    value = mark(monkeypatch)
    host = Host()
    host.ask(put, "key", 1, limit=60)
    with pytest.raises(OutOfTimeError, match=r"^no answer within 0\.5 s$"):
        host.ask(start_child_and_sleep, limit=0.5)
    host.close()
    host.close()
    assert gone(value)


@POSIX
def test_a_host_is_stopped_between_orders():
    host = Host()
    pid = host.ask(lambda held: os.getpid(), limit=60)
    deadline = time.monotonic() + 20
    while status(pid) != psutil.STATUS_STOPPED and time.monotonic() < deadline:
        time.sleep(0.01)
    assert status(pid) == psutil.STATUS_STOPPED
    assert host.ask(lambda held: os.getpid(), limit=60) == pid
    host.close()


PROGRAM = """
import signal, sys, time
from gymvec.measuring.hosts import Host

def nap(held):
    time.sleep(0.01)

if __name__ == "__main__":
    if sys.argv[2] == "nohup":
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    host = Host(sys.argv[1])
    host.ask(nap, limit=60)
    print("ready", flush=True)
    time.sleep(1000)
"""


@POSIX
@pytest.mark.parametrize("hangups", ["hup", "nohup"])
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_host_does_not_outlive_who_is_killed(monkeypatch, tmp_path, method, hangups):
    value = mark(monkeypatch)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with subprocess.Popen(
        [sys.executable, program, method, hangups], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        assert len(marked(value)) == 2
        process.kill()
    assert gone(value)


def test_a_start_method_does_not_hand_itself_on():
    import multiprocessing

    host = Host("spawn")
    method = host.ask(lambda held: multiprocessing.get_start_method(), limit=60)
    host.close()
    assert method == multiprocessing.get_context().get_start_method()
