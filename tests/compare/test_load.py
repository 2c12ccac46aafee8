"""What other processes take of the cores, read from a fake system and from the real one."""

import io
import json
import os
import subprocess
import sys
import time

import matplotlib
import pytest
from test_report import FACTS

from gymvec.cli.main import main
from gymvec.cli.plot import plot
from gymvec.measuring import load as load_module
from gymvec.measuring.load import is_busy, load, load_text

pytestmark = pytest.mark.not_sanitized

WARNING = "The machine is busy: figures that are taken now say little."
# User, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice.
QUIET = "10 0 5 900 7 0 1 0 0 0"
IDLE, WAITS, COMPUTES, NICE, STOLEN, HALF = (
    "10 0 5 910 7 0 1 0 0 0",
    "10 0 5 900 17 0 1 0 0 0",
    "20 0 5 900 7 0 1 0 0 0",
    "10 10 5 900 7 0 1 0 0 0",
    "10 0 5 900 7 0 1 10 0 0",
    "12 0 6 905 7 1 2 0 2 0",
)


def counters(*cores):
    lines = ["cpu  1 2 3 4 5 6 7 8 9 10"]
    lines += [f"cpu{number} {times}" for number, times in enumerate(cores)]
    return "\n".join([*lines, "intr 1 2 3", "ctxt 12", "cpufreq 1"]) + "\n"


@pytest.fixture
def system(monkeypatch):
    """Sets what the system says: counters before and after, cores, own time, average."""

    def says(texts, mine=(0, 1), usable=2, own=0.0, average=(0.0, 0.0, 0.0)):
        texts, clocks, owns = list(texts), iter([1.0, 1.1]), iter([5.0, 5.0 + 0.1 * own])

        def read(path):
            assert path == "/proc/stat"
            if not texts:
                raise FileNotFoundError(path)
            return io.StringIO(texts.pop(0))

        monkeypatch.setattr(load_module, "open", read, raising=False)
        monkeypatch.setattr(load_module, "affinity", lambda: list(mine))
        monkeypatch.setattr(load_module, "usable_cores", lambda: usable)
        monkeypatch.setattr(load_module.time, "sleep", lambda seconds: None)
        monkeypatch.setattr(load_module.time, "perf_counter", lambda: next(clocks))
        monkeypatch.setattr(load_module.time, "process_time", lambda: next(owns))
        monkeypatch.setattr(load_module.os, "cpu_count", lambda: 4)
        if average is None:
            monkeypatch.delattr(load_module.os, "getloadavg", raising=False)
        else:
            monkeypatch.setattr(load_module.os, "getloadavg", lambda: average, raising=False)

    return says


@pytest.mark.parametrize(
    ("cores", "expected"),
    [
        ((IDLE, IDLE), 0.0),
        ((WAITS, IDLE), 0.0),
        ((COMPUTES, IDLE), 1.0),
        ((NICE, STOLEN), 2.0),
        ((HALF, IDLE), 0.5),
        # The third is not this process's.
        ((IDLE, IDLE, COMPUTES), 0.0),
    ],
)
def test_time_that_cores_were_not_idle(system, cores, expected):
    system([counters(*[QUIET] * len(cores)), counters(*cores)])
    assert load() == pytest.approx(expected)


def test_own_threads_are_no_other_process(system):
    system([counters(QUIET, QUIET), counters(COMPUTES, IDLE)], own=0.9)
    assert load() == pytest.approx(0.1)


def test_cores_beyond_the_quota_may_be_taken(system):
    texts = [counters(*[QUIET] * 4), counters(COMPUTES, COMPUTES, IDLE, IDLE)]
    system(texts, mine=range(4), usable=2)
    assert load() == 0.0
    texts[1] = counters(COMPUTES, COMPUTES, COMPUTES, IDLE)
    system(texts, mine=range(4), usable=2)
    assert load() == pytest.approx(1.0)


@pytest.mark.parametrize(
    "texts",
    [
        [],
        ["", ""],
        ["nonsense\n", ""],
        ["cpu0 a b c d e\n", ""],
        # A sandbox that counts nothing.
        [counters("0 0 0 0 0 0 0 0", "0 0 0 0 0 0 0 0")] * 2,
        # A core less than before; cores of other numbers than the mask's.
        [counters(QUIET, QUIET), counters(COMPUTES)],
        [counters(QUIET), counters(COMPUTES)],
    ],
)
def test_the_average_where_counters_say_nothing(system, texts):
    system(texts, average=(3.5, 9.0, 9.0))
    # Four cores of which half a one is left.
    assert load() == pytest.approx(1.5)
    system(texts, average=(30.0, 0.0, 0.0))
    assert load() == 2.0
    system(texts, average=(1.0, 9.0, 9.0))
    assert load() == 0.0
    system(texts)
    assert load(average=False) is None
    system(texts, average=None)
    assert load() is None


def test_a_look_that_is_too_short_is_not_taken(system):
    system([counters(QUIET, QUIET), counters(COMPUTES, COMPUTES)], average=(3.0, 0.0, 0.0))
    assert load(0.01) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("usable", "taken", "busy"),
    [(2, None, False), (2, 0.0, False), (2, 0.5, False), (2, 0.6, True), (2, 2.0, True)]
    + [(32, 3.0, False), (32, 3.3, True), (1, 0.6, True)],
)
def test_a_busy_machine(system, usable, taken, busy):
    system([], usable=usable)
    assert is_busy(taken) is busy


@pytest.mark.parametrize(
    ("loads", "told"),
    [
        ((0.04, 0.5), "Other processes took 0.0 of 2 cores before and 0.5 after."),
        ((1.0, 0.0), f"Other processes took 1.0 of 2 cores before and 0.0 after. {WARNING}"),
        ((0.0, 1.0), f"Other processes took 0.0 of 2 cores before and 1.0 after. {WARNING}"),
        (
            (None, None),
            "Other processes took an unknown number of 2 cores before and an unknown number after.",
        ),
    ],
)
def test_load_text(system, loads, told):
    system([])
    assert load_text(*loads) == told


def test_the_footer_of_a_picture(system, tmp_path):
    system([])
    path = tmp_path / "picture.svg"
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        plot(FACTS | {"load before and after": [1.5, 0.25]}, str(path))
    footer = "Other processes took 1.5 of 2 cores before and 0.2 after. "
    assert footer + WARNING in path.read_text()


@pytest.mark.parametrize(("after", "warns"), [(0.1, False), (1.9, True)])
def test_what_compare_says(capsys, tmp_path, monkeypatch, after, warns):
    # The first reading is that of the command, the second that of the facts.
    monkeypatch.setattr("gymvec.cli.compare.load", lambda: 0.3)
    monkeypatch.setattr("gymvec.measuring.facts.load", lambda average: after)
    monkeypatch.setattr(load_module, "usable_cores", lambda: 2)
    path = tmp_path / "result.json"
    code = main([
        "compare", "compare/Quick-v0", "--module", "compare_envs", "--rounds", "1",
        "--seconds", "0.01", "--num-envs", "1", "--backends", "gymvec-sync", "--json", str(path),
    ])  # fmt: skip
    out = capsys.readouterr().out
    assert code == 0
    assert f"Other processes took 0.3 of 2 cores before and {after} after." in out
    assert (WARNING in out) is warns
    assert json.loads(path.read_text())["load before and after"] == [0.3, after]


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc/stat")
def test_processes_that_compute_are_seen():
    if load(average=False) is None:
        pytest.skip("the system does not count here")
    cores = len(os.sched_getaffinity(0))
    computes = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(computes) for _ in range(cores)]
    try:
        deadline = time.monotonic() + 60
        found = load(average=False)
        while found < 0.8 * load_module.usable_cores() and time.monotonic() < deadline:
            found = load(average=False)
        assert found >= 0.8 * load_module.usable_cores()
        assert is_busy(found)
    finally:
        for process in processes:
            process.kill()
            process.wait()
