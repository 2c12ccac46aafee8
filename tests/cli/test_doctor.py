"""The command line, and its doctor on machines where something is wrong."""

import json
import multiprocessing
import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from gymvec.cli import doctor
from gymvec.cli import main as cli
from gymvec.vector.parent import processes
from gymvec.vector.transport import control

pytestmark = [pytest.mark.not_sanitized, pytest.mark.timeout(200)]

TESTS = [
    "shared memory",
    "functions",
    "install",
    "control words",
    "worker processes",
    "spawned worker processes",
]
HERE = Path(__file__).parent


def run(*arguments, command=(sys.executable, "-m", "gymvec"), **environment):
    return subprocess.run(
        [*command, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=150,
    )


def faulty(capsys):
    """What the doctor says in this process: the exit code, the facts and the last line."""
    code = cli.main(["doctor", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert code == (0 if report["ok"] else 1)
    errors = {test["name"]: test["error"] for test in report["tests"]}
    assert list(errors) == TESTS
    assert "\n" not in report["verdict"]
    return report["verdict"], errors, report["facts"]


def test_a_machine_on_which_all_is_well():
    done = run("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    *facts, load, verdict = done.stdout.splitlines()
    assert load.startswith("Other processes took ")
    assert verdict == "gymvec works on this machine."
    shown = {line[:30].strip(): line[30:].strip() for line in facts}
    text = "\n".join(facts)
    for name in ("usable cores", "cgroup quota", "start method", "shared memory", "sleeps by"):
        assert name in text
    assert platform.python_version() in text
    assert np.__version__ in text
    assert gymnasium.__version__ in text
    assert len(shown) == len(facts) == 17


def test_for_programs_to_read():
    done = run("doctor", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["ok"] is True
    assert report["tests"] == [{"name": name, "error": None} for name in TESTS]
    facts = report["facts"]
    if hasattr(os, "sched_getaffinity"):
        assert 1 <= facts["usable cores"] <= len(os.sched_getaffinity(0))
    assert facts["start methods"] == multiprocessing.get_all_start_methods()
    assert facts["installed into gymnasium"] is False
    assert facts["numpy"] == np.__version__
    assert facts["gymnasium"] == gymnasium.__version__
    if sys.platform == "linux":
        assert facts["sleeps by"] == "futex"
        about = os.statvfs(facts["shared memory"])
        assert facts["its size, bytes"] == about.f_blocks * about.f_frsize


@pytest.mark.parametrize("after", [0.2, 1.8])
def test_the_load_before_and_after(monkeypatch, capsys, after):
    loads = [0.1, after]
    monkeypatch.setattr(doctor, "load", lambda average=True: loads[0] if average else loads[1])
    monkeypatch.setattr("gymvec.measuring.load.usable_cores", lambda: 2)
    monkeypatch.setattr(doctor, "_TESTS", {})
    assert cli.main(["doctor"]) == 0
    *_, said, _ = capsys.readouterr().out.splitlines()
    assert said.startswith(f"Other processes took 0.1 of 2 cores before and {after} after.")
    assert ("The machine is busy" in said) is (after == 1.8)
    assert cli.main(["doctor", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["load before and after"] == loads


@pytest.mark.parametrize("arguments", [[], ["no-such-command"], ["doctor", "more"], ["--wrong"]])
def test_wrong_arguments(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2
    assert "usage: python -m gymvec" in capsys.readouterr().err


def test_help(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["--help"])
    assert caught.value.code == 0
    assert "doctor" in capsys.readouterr().out


# --- faults -----------------------------------------------------------------------------


def can_mount():
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return False
    command = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs tmpfs /mnt"]
    return subprocess.run(command, capture_output=True).returncode == 0


@pytest.mark.skipif(not can_mount(), reason="mounting file systems needs root")
def test_no_room_for_shared_memory(tmp_path):
    mounts = "".join(
        f"mount -t tmpfs -o size=4k tmpfs '{folder}' && " for folder in ("/dev/shm", tmp_path)
    )
    command = ["unshare", "--mount", "sh", "-c", f'{mounts} exec "$0" -m gymvec doctor "$@"']
    done = run(command=[*command, sys.executable], TMPDIR=str(tmp_path))
    assert done.returncode == 1, done.stderr
    verdict = done.stdout.splitlines()[-1]
    assert verdict.startswith("WRONG: shared memory: OSError: ")
    assert "no room for 1048576 bytes" in verdict
    assert str(tmp_path) in done.stdout


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="a filter of system calls"
)
def test_a_sandbox_without_futexes():
    """It works by polling, and says so."""
    done = run(
        "gymvec", "doctor", "--json", command=[sys.executable, str(HERE / "without_futexes.py")]
    )
    if done.returncode == 99:
        pytest.skip("filters of system calls are not to be had here")
    report = json.loads(done.stdout)
    assert report["facts"]["sleeps by"] == "polling"
    assert report["ok"] is True, report["verdict"]
    assert done.returncode == 0


def test_a_platform_without_futexes(monkeypatch, capsys):
    monkeypatch.setattr(control, "HAS_FUTEX", False)
    assert faulty(capsys)[2]["sleeps by"] == "polling"


def test_processes_that_do_not_start(monkeypatch, capsys):
    def refuse(*arguments, **kwargs):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(processes.Workers, "_start", refuse)
    verdict, errors, _ = faulty(capsys)
    assert verdict.startswith("WRONG: worker processes: BlockingIOError: ")
    assert "Resource temporarily unavailable" in verdict
    assert verdict.endswith("(also wrong: spawned worker processes)")
    assert errors["control words"] is None


def test_a_start_method_that_fails(monkeypatch, capsys):
    def popen(process):
        raise OSError("no interpreter to spawn")

    monkeypatch.setattr(multiprocessing.context.SpawnProcess, "_Popen", staticmethod(popen))
    verdict, errors, _ = faulty(capsys)
    assert verdict == "WRONG: spawned worker processes: OSError: no interpreter to spawn"
    assert errors["worker processes"] is None


@pytest.mark.skipif(sys.platform == "win32", reason="fork")
def test_workers_that_never_answer(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "_SECONDS", 0.5)
    monkeypatch.setattr(doctor._Counts, "step", lambda env, action: time.sleep(100))
    monkeypatch.setattr(doctor, "_TESTS", {**doctor._TESTS, TESTS[-1]: lambda: None})
    monkeypatch.setattr(multiprocessing, "get_context", lambda method: _fork)
    begun = time.monotonic()
    verdict, _, _ = faulty(capsys)
    assert verdict.startswith("WRONG: worker processes: StepTimeoutError: ")
    assert time.monotonic() - begun < 60


_fork = multiprocessing.get_context("fork") if sys.platform != "win32" else None


def test_functions_that_differ(monkeypatch, capsys):
    monkeypatch.setattr(doctor.theirs, "concatenate", lambda *arguments: _other)
    verdict, errors, _ = faulty(capsys)
    assert verdict.startswith("WRONG: functions: _Wrong: gymvec.utils and gymnasium.vector.utils")
    assert sum(error is not None for error in errors.values()) == 1


_other = {"a": np.ones((4, 3), np.float32), "b": (np.zeros(4, np.int64),) * 2}


def test_a_gymnasium_that_is_not_known(monkeypatch, capsys):
    monkeypatch.delattr(gymnasium.vector.async_vector_env, "clear_mpi_env_vars")
    verdict, _, _ = faulty(capsys)
    assert verdict.startswith("WRONG: install: RuntimeError: gymvec cannot be installed")


def test_control_words_that_nobody_answers(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "_BELL_SECONDS", 0.3)
    monkeypatch.setattr(threading_of(doctor), "Thread", _Idle)
    verdict, _, _ = faulty(capsys)
    assert verdict.startswith("WRONG: control words: _Wrong: no answer within 0 seconds")


def threading_of(module):
    return module.threading


class _Idle:
    def __init__(self, **kwargs):
        pass

    def start(self):
        pass

    def join(self, seconds):
        pass


def test_no_temporary_folder(monkeypatch, capsys):
    """Where /dev/shm is, that is no fault."""

    def none():
        raise FileNotFoundError("no usable temporary directory")

    monkeypatch.setattr(doctor.tempfile, "gettempdir", none)
    monkeypatch.setattr(doctor.heap.Arena, "_dir_candidates", ["/no/such/folder"], raising=False)
    _, _, facts = faulty(capsys)
    assert facts["shared memory"] is None
