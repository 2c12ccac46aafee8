"""The control words between real processes."""

import array
import itertools
import multiprocessing
import os
import random
import subprocess
import sys
import textwrap
import time
from multiprocessing.heap import Arena

import numpy as np
import pytest
from control_words import DIE, SLEEP, START_METHODS, STEP, STOP, WorkerPool, layout, serve

from gymvec.vector.transport import control
from gymvec.vector.transport.control_parent import Parent

linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux")


@pytest.mark.parametrize(
    ("method", "wait", "polling"),
    [(START_METHODS[0], *rest) for rest in itertools.product(("auto", "spin", "block"), (0, 1))]
    + [(method, "auto", False) for method in START_METHODS[1:]],
)
def test_full_steps(method, wait, polling):
    with WorkerPool([3, 1, 2], method, wait=wait, polling=polling) as parent:
        for _ in range(100):
            parent.send_all(STEP)
            assert parent.wait(6, 10) == 6
            assert parent.num_pending == 6
            assert parent.drain_all() == 6
            assert parent.num_pending == 0


def test_sides_need_not_agree_on_polling():
    for parent_polls, worker_polls in ((True, False), (False, True)):
        queues, size = layout([2])
        segment = Arena(size)
        parent = Parent(segment.buffer, 0, queues, wait="block", polling=parent_polls)
        options = {"wait": "block", "polling": worker_polls}
        process = multiprocessing.get_context(START_METHODS[0]).Process(
            target=serve, args=(segment, queues[0], options, os.getpid()), daemon=True
        )
        process.start()
        for opcode in [STEP] * 50 + [STOP]:
            parent.send_all(opcode)
            assert parent.wait(2, 10) == 2
            assert parent.drain_all() == 2
        process.join(10)
        assert process.exitcode == 0
        parent.close()


@pytest.mark.parametrize("as_ids", [list, np.array, lambda ids: array.array("q", ids)])
def test_partial_receives(as_ids):
    rng = random.Random(1)
    with WorkerPool([4, 3]) as parent:
        parent.send_all(STEP, immediate=True)
        for _ in range(1000):
            count = rng.randint(1, 7)
            assert parent.wait(count, 10) >= count
            ids = parent.drain(count)
            assert len(ids) == len(set(ids)) == count
            assert all(not parent.pending(env) for env in ids)
            assert parent.num_pending == 7 - count
            parent.send(as_ids(ids), STEP, True)


def test_immediate_answers_come_one_by_one():
    with WorkerPool([3]) as parent:
        parent.send_all(SLEEP, immediate=True)
        for env in range(3):
            assert parent.wait(1, 10) == 1
            assert parent.drain() == [env]
        parent.send_all(SLEEP)
        assert parent.wait(1, 10) >= 1  # the alarm comes with the pass, the tail may be earlier


def test_a_worker_that_dies_in_mid_pass():
    pool = WorkerPool([4, 2])
    with pool as parent:
        parent.send([0, 1, 2, 3], DIE)
        parent.send([4, 5], STEP)
        deadline = time.monotonic() + 10
        while pool.workers[0].is_alive() and time.monotonic() < deadline:
            parent.wait(6, 0.05)
        assert pool.workers[0].exitcode == 7
        # It never published its two answers, and they count.
        assert parent.wait(6, 0.05) == 4
        assert sorted(parent.drain()) == [0, 1, 4, 5]
        assert parent.mark_dead(0) == [2, 3]
        assert parent.num_pending == 0
        with pytest.raises(ValueError, match="environment 0 belongs to a worker that was given up"):
            parent.send([4, 0], STEP)
        # The others go on, and are waited for with a sleep that a wrong `done` would make endless.
        for _ in range(100):
            parent.send([4, 5], STEP)
            assert parent.wait(2, 10) == 2
            assert sorted(parent.drain()) == [4, 5]


ORPHANS = """
    import multiprocessing, os, sys, time
    from multiprocessing.heap import Arena
    from gymvec.vector.transport.control import header_size, queue_size
    from gymvec.vector.transport.control_parent import Parent
    from gymvec.vector.transport.control_worker import Worker

    def work(segment, pid, stuck):
        worker = Worker(segment.buffer, 0, header_size(), 1, polling=sys.argv[2] == "True")
        worker.watch_parent(pid)
        os.write(1, b"%d\\n" % os.getpid())  # at once: two processes write
        if stuck:
            time.sleep(60)
        else:
            worker.wait(60)

    if __name__ == "__main__":
        segment = Arena(header_size() + queue_size(1))
        parent = Parent(segment.buffer, 0, [(header_size(), 1)])
        context = multiprocessing.get_context(sys.argv[1])
        for stuck in (True, False):
            context.Process(target=work, args=(segment, os.getpid(), stuck)).start()
        time.sleep(60)
"""


@linux_only
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("polling", [False, True])
def test_workers_end_with_their_parent(tmp_path, method, polling):
    script = tmp_path / "orphans.py"
    script.write_text(textwrap.dedent(ORPHANS))
    with subprocess.Popen(
        [sys.executable, str(script), method, str(polling)], stdout=subprocess.PIPE, text=True
    ) as process:
        pids = [int(process.stdout.readline()) for _ in range(2)]
        time.sleep(0.2)
        assert all(map(control.parent_alive, pids))
        process.kill()
        process.wait()
        deadline = time.monotonic() + 1.0
        while any(map(running, pids)) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not any(map(running, pids))


def running(pid):
    """Whether a process is there and not merely unreaped."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@linux_only
def test_a_worker_that_comes_too_late_ends_at_once():
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert not control.parent_alive(gone.pid)
    code = (
        "from multiprocessing.heap import Arena; from gymvec.vector.transport.control import header_size; "
        "from gymvec.vector.transport.control_worker import Worker;"
        f"Worker(Arena(4096).buffer, 0, header_size(), 1).watch_parent({gone.pid}); print('alive')"
    )
    late = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (late.returncode, late.stdout) == (control.ORPHANED_EXIT, b"")
