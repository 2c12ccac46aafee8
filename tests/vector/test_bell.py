"""The engine's control words between real processes."""

import array
import gc
import itertools
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from multiprocessing.heap import Arena

import numpy as np
import pytest

from gymvec import _bell
from gymvec._bell import LINE, MAX_OPCODE, Parent, Worker, hub_size, lane_size

linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux")
posix_only = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
futex_only = pytest.mark.skipif(not _bell.HAS_FUTEX, reason="needs futexes")

STOP, STEP, SLEEP, DIE = 0, 1, 2, 3
START_METHODS = [
    method for method in ("fork", "spawn") if method in multiprocessing.get_all_start_methods()
]


def layout(envs):
    """Lanes one after another behind the hub, and the bytes of all."""
    offsets = itertools.accumulate(map(lane_size, envs), initial=hub_size())
    lanes = list(zip(offsets, envs, strict=False))
    return lanes, lanes[-1][0] + lane_size(envs[-1])


def serve(arena, lane, options, parent_pid):
    """A worker: writes opcode + 1 for each command into the byte of its environment."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    worker = Worker(arena.buffer, 0, *lane, **options)
    worker.watch_parent(parent_pid)
    shut = answered = 0
    while shut < lane[1]:
        worker.wait(1.0)
        while (env := worker.take()) >= 0:
            if worker.opcode == SLEEP:
                time.sleep(0.05 * (env + 1))
            elif worker.opcode == DIE and answered == 2:
                os._exit(7)
            shut += worker.opcode == STOP
            answered += 1
            worker.answer(env)
        worker.flush()


class Engine:
    """A parent and its worker processes."""

    def __init__(self, envs, method="fork" if "fork" in START_METHODS else "spawn", **options):
        self.lanes, size = layout(envs)
        self.arena = Arena(size)
        self.parent = Parent(self.arena.buffer, 0, self.lanes, **options)
        context = multiprocessing.get_context(method)
        self.workers = [
            context.Process(
                target=serve, args=(self.arena, lane, options, os.getpid()), daemon=True
            )
            for lane in self.lanes
        ]
        for worker in self.workers:
            worker.start()

    def __enter__(self):
        return self.parent

    def __exit__(self, *exc_info):
        parent = self.parent
        if exc_info[0] is None and all(worker.is_alive() for worker in self.workers):
            parent.wait(parent.num_pending, 10)
            parent.drain()
            parent.send_all(STOP)
            for worker in self.workers:
                worker.join(10)
            assert [worker.exitcode for worker in self.workers] == [0] * len(self.workers)
        for worker in self.workers:
            worker.kill()
            worker.join()
        parent.close()


@pytest.fixture
def local():
    """A parent with lanes of 3 and 2 environments, and their workers, all in this thread."""
    lanes, size = layout([3, 2])
    arena = Arena(size)
    parent = Parent(arena.buffer, 0, lanes, wait="block")
    workers = [Worker(arena.buffer, 0, *lane, wait="block") for lane in lanes]
    yield parent, workers
    for subject in (parent, *workers):
        subject.close()


def answer_all(worker):
    taken = []
    while (env := worker.take()) >= 0:
        taken.append((env, worker.opcode))
        worker.answer(env)
    worker.flush()
    return taken


@pytest.mark.parametrize(
    ("method", "wait", "polling"),
    [(START_METHODS[0], *rest) for rest in itertools.product(("auto", "spin", "block"), (0, 1))]
    + [(method, "auto", False) for method in START_METHODS[1:]],
)
def test_full_steps(method, wait, polling):
    with Engine([3, 1, 2], method, wait=wait, polling=polling) as parent:
        for _ in range(100):
            parent.send_all(STEP)
            assert parent.wait(6, 10) == 6
            assert parent.num_pending == 6
            assert parent.drain_all() == 6
            assert parent.num_pending == 0


def test_sides_need_not_agree_on_polling():
    for parent_polls, worker_polls in ((True, False), (False, True)):
        lanes, size = layout([2])
        arena = Arena(size)
        parent = Parent(arena.buffer, 0, lanes, wait="block", polling=parent_polls)
        options = {"wait": "block", "polling": worker_polls}
        process = multiprocessing.get_context(START_METHODS[0]).Process(
            target=serve, args=(arena, lanes[0], options, os.getpid()), daemon=True
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
    with Engine([4, 3]) as parent:
        parent.send_all(STEP, eager=True)
        for _ in range(1000):
            count = rng.randint(1, 7)
            assert parent.wait(count, 10) >= count
            ids = parent.drain(count)
            assert len(ids) == len(set(ids)) == count
            assert all(not parent.pending(env) for env in ids)
            assert parent.num_pending == 7 - count
            parent.send(as_ids(ids), STEP, True)


def test_eager_answers_come_one_by_one():
    with Engine([3]) as parent:
        parent.send_all(SLEEP, eager=True)
        for env in range(3):
            assert parent.wait(1, 10) == 1
            assert parent.drain() == [env]
        parent.send_all(SLEEP)
        assert parent.wait(1, 10) >= 1  # the alarm comes with the pass, the tail may be earlier


def test_rotating_start(local):
    parent, workers = local
    orders = []
    for _ in range(2):
        parent.send_all(STEP)
        for worker in workers:
            answer_all(worker)
        orders.append(parent.drain())
    assert orders == [[0, 1, 2, 3, 4], [3, 4, 0, 1, 2]]


def test_opcodes_and_order(local):
    parent, workers = local
    parent.send([4, 2, 0], MAX_OPCODE)
    parent.send([1], 5, eager=True)
    assert answer_all(workers[0]) == [(0, MAX_OPCODE), (1, 5), (2, MAX_OPCODE)]
    assert answer_all(workers[1]) == [(1, MAX_OPCODE)]
    assert parent.drain(2) == [0, 1]
    assert sorted(parent.drain()) == [2, 4]
    assert parent.drain() == []


def test_pending(local):
    parent, workers = local
    assert (parent.num_envs, parent.num_workers, parent.num_pending) == (5, 2, 0)
    parent.send(np.array([3, 0]), STEP)
    assert [parent.pending(env) for env in range(5)] == [True, False, False, True, False]
    assert [parent.lane_pending(worker) for worker in range(2)] == [1, 1]
    answer_all(workers[1])
    assert parent.wait(2, 0.02) == 1
    assert parent.pending(3)
    assert parent.drain() == [3]
    assert [parent.lane_pending(worker) for worker in range(2)] == [1, 0]


def test_a_refused_send_sends_nothing(local):
    parent, workers = local
    parent.send([1], STEP)
    for ids, message in [
        ([0, 1], "environment 1 has not answered"),
        ([0, 5], "environment 5 is out of range"),
        ([0, -1], "environment -1 is out of range"),
        ([0, 2, 0], "environment 0 is named twice"),
        ([0] * 6, "more than 5"),
        (np.zeros(6, np.int64), "more than 5"),
        (np.zeros((1, 1), np.int64), "one dimension"),
    ]:
        with pytest.raises(ValueError, match=message):
            parent.send(ids, STEP)
    with pytest.raises(ValueError, match="environment 1 has not answered"):
        parent.send_all(STEP)
    for ids in ([0, "1"], [1.5], None, np.zeros(1)):
        with pytest.raises(TypeError):
            parent.send(ids, STEP)
    with pytest.raises(OverflowError):
        parent.send([2**70], STEP)
    for opcode in (-1, MAX_OPCODE + 1):
        with pytest.raises(ValueError, match="opcode"):
            parent.send([0], opcode)
        with pytest.raises(ValueError, match="opcode"):
            parent.send_all(opcode)
    assert parent.num_pending == 1
    assert answer_all(workers[0]) == [(1, STEP)]


@pytest.mark.parametrize("dtype", ["int64", "intp", "int32", "uint8", ">i8", "uint64"])
def test_any_integer_type_names_environments(local, dtype):
    parent, workers = local
    parent.send(np.array([2, 9, 0, 9], dtype)[::2], STEP)
    assert answer_all(workers[0]) == [(0, STEP), (2, STEP)]


def test_no_environments_is_no_command(local):
    parent, workers = local
    parent.send([], STEP)
    parent.send(np.array([], np.int64), STEP)
    assert parent.num_pending == 0
    assert not workers[0].wait(0)


def test_wait_limits(local):
    parent, workers = local
    assert parent.wait(0) == 0
    assert parent.wait(-3) == 0
    with pytest.raises(ValueError, match="1 answers are wanted, only 0 are due"):
        parent.wait(1)
    with pytest.raises(ValueError, match="5 environments"):
        parent.wait(6)
    with pytest.raises(ValueError, match="nan"):
        parent.wait(0, float("nan"))
    parent.send_all(STEP)
    for timeout in (-1, 0, 1e-9, 0.01, 0.25):
        begin = time.monotonic()
        assert parent.wait(5, timeout) == 0
        assert workers[0].wait(0) is True
        assert max(timeout, 0) <= time.monotonic() - begin + 1e-6
        assert time.monotonic() - begin < max(timeout, 0) + 1.0
    answer_all(workers[0])
    begin = time.monotonic()
    assert workers[0].wait(0.25) is False
    assert 0.25 <= time.monotonic() - begin + 1e-6


def test_ring_wakes_without_a_command(local):
    parent, workers = local
    parent.ring(0)
    assert workers[0].wait(5) is True
    assert workers[0].take() == -1
    assert workers[0].wait(0) is False
    assert workers[1].wait(0) is False
    for worker in (-1, 2):
        with pytest.raises(IndexError):
            parent.ring(worker)
        with pytest.raises(IndexError):
            parent.lane_pending(worker)
        with pytest.raises(IndexError):
            parent.abandon(worker)
        with pytest.raises(IndexError):
            parent.revive(worker)
    for env in (-1, 5, 2**40):
        with pytest.raises(IndexError):
            parent.pending(env)


def test_answers_that_are_not_due(local):
    parent, workers = local
    worker = workers[0]
    for env in (-1, 3, 2**40):
        with pytest.raises(ValueError, match="out of range"):
            worker.answer(env)
    with pytest.raises(ValueError, match="environment 0 is not due"):
        worker.answer(0)
    parent.send_all(STEP)
    assert worker.take() == 0
    worker.answer(0)
    with pytest.raises(ValueError, match="environment 0 is not due"):
        worker.answer(0)


def test_a_worker_that_dies_in_mid_pass():
    engine = Engine([4, 2])
    with engine as parent:
        parent.send([0, 1, 2, 3], DIE)
        parent.send([4, 5], STEP)
        deadline = time.monotonic() + 10
        while engine.workers[0].is_alive() and time.monotonic() < deadline:
            parent.wait(6, 0.05)
        assert engine.workers[0].exitcode == 7
        # It never announced its two answers, and they count.
        assert parent.wait(6, 0.05) == 4
        assert sorted(parent.drain()) == [0, 1, 4, 5]
        assert parent.abandon(0) == [2, 3]
        assert parent.num_pending == 0
        with pytest.raises(ValueError, match="environment 0 belongs to a worker that was given up"):
            parent.send([4, 0], STEP)
        # The others go on, and are waited for with a sleep that a wrong `done` would make endless.
        for _ in range(100):
            parent.send([4, 5], STEP)
            assert parent.wait(2, 10) == 2
            assert sorted(parent.drain()) == [4, 5]


def test_a_worker_in_place_of_a_dead_one():
    lanes, size = layout([3, 2])
    arena = Arena(size)
    parent = Parent(arena.buffer, 0, lanes)
    workers = [Worker(arena.buffer, 0, *lane) for lane in lanes]
    parent.send_all(STEP)
    for env in range(2):
        assert workers[0].take() == env
        workers[0].answer(env)
    assert parent.drain(1) == [0]
    arena.buffer[lanes[0][0] : lanes[0][0] + lane_size(3)] = b"\xff" * lane_size(3)
    parent.revive(0)
    assert parent.lane_pending(0) == 0
    assert parent.num_pending == 2
    parent.send([1], STEP)
    with pytest.raises(ValueError, match="environment 1 has not answered"):
        parent.send_all(STEP)
    new = Worker(arena.buffer, 0, *lanes[0])
    assert new.take() == 1
    new.answer(1)
    assert new.take() == -1
    answer_all(workers[1])
    assert parent.wait(3, 5) == 3
    assert sorted(parent.drain()) == [1, 3, 4]
    assert parent.num_pending == 0
    # One that was given up comes back, too.
    parent.abandon(1)
    parent.revive(1)
    parent.send_all(STEP)
    assert parent.num_pending == 5
    for subject in (parent, *workers, new):
        subject.close()


def test_scribbled_words_are_an_error():
    lanes, size = layout([2, 2])
    arena = Arena(size)
    parent = Parent(arena.buffer, 0, lanes)
    parent.send_all(STEP)
    begin, end = lanes[1][0], lanes[1][0] + lane_size(2)
    arena.buffer[begin:end] = b"\xff" * (end - begin)
    with pytest.raises(RuntimeError, match="control words of a worker are corrupt"):
        parent.wait(4, 1)
    with pytest.raises(RuntimeError, match="control words of worker 1 are corrupt"):
        parent.drain()
    with pytest.raises(RuntimeError, match="control words of worker 1 are corrupt"):
        parent.drain_all()
    assert parent.abandon(1) == [2, 3]
    assert parent.drain() == []
    parent.close()


@futex_only
def test_system_calls_only_for_sleepers(local):
    parent, workers = local
    for _ in range(10):
        parent.send_all(STEP)
        for worker in workers:
            answer_all(worker)
        assert parent.wait(5, 0) == 5
        parent.drain_all()
    subjects = (parent, *workers)
    assert [subject.wakes for subject in subjects] == [0, 0, 0]
    assert [subject.sleeps for subject in subjects] == [0, 0, 0]
    with Engine([1], wait="block") as parent:
        woken = 0
        for _ in range(200):
            time.sleep(0.03)  # the worker sleeps by now, unless the core was elsewhere
            parent.send_all(STEP)
            assert parent.wait(1, 10) == 1
            parent.drain_all()
            assert parent.wakes - woken in (0, 1)
            woken = parent.wakes
            if woken == 5:
                break
        assert woken == 5


@posix_only
@pytest.mark.parametrize("wait", ["auto", "spin", "block"])
def test_an_exception_of_a_signal_handler_ends_a_wait(wait):
    lanes, size = layout([1])
    arena = Arena(size)
    parent = Parent(arena.buffer, 0, lanes, wait=wait)
    worker = Worker(arena.buffer, 0, *lanes[0], wait=wait)

    def interrupt():
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    for blocked in (lambda: worker.wait(30), lambda: parent.wait(1, 30), lambda: parent.wait(1)):
        thread = threading.Thread(target=interrupt)
        thread.start()
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            blocked()
        assert time.monotonic() - begin < 5
        thread.join()
        if parent.num_pending == 0:
            parent.send_all(STEP)
    assert worker.take() == 0  # both are as they were
    worker.answer(0)
    worker.flush()
    assert parent.wait(1, 1) == 1


@posix_only
def test_signals_do_not_prolong_a_wait(local):
    parent, _ = local
    parent.send_all(STEP)
    calls = []
    before = signal.signal(signal.SIGALRM, lambda *_: calls.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    try:
        begin = time.monotonic()
        assert parent.wait(1, 0.3) == 0
        assert 0.3 <= time.monotonic() - begin < 2
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert calls


@posix_only
def test_a_signal_handler_may_close(local):
    parent, _ = local
    parent.send_all(STEP)
    before = signal.signal(signal.SIGALRM, lambda *_: parent.close())
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(ValueError, match="closed"):
            parent.wait(1, 30)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_other_threads_run_and_are_kept_out(local):
    parent, workers = local
    parent.send_all(STEP)
    refused = []

    def other():
        time.sleep(0.2)
        for call in (
            parent.close,
            parent.drain,
            parent.drain_all,
            lambda: parent.send([0], STEP),
            lambda: parent.send_all(STEP),
            lambda: parent.wait(0),
            lambda: parent.num_pending,
        ):
            try:
                call()
            except RuntimeError as error:
                refused.append(str(error))
        for worker in workers:
            answer_all(worker)

    thread = threading.Thread(target=other)
    thread.start()
    assert parent.wait(5, 30) == 5
    thread.join()
    assert refused == ["this Parent is in use by another call"] * 7


def test_many_threads_at_once_leave_it_whole():
    with Engine([2, 2], wait="block") as parent:
        end = time.monotonic() + 1.0

        def play(seed):
            rng = random.Random(seed)
            while time.monotonic() < end:
                try:
                    rng.choice(
                        [
                            lambda: parent.send([rng.randrange(4)], STEP, True),
                            lambda: parent.wait(1, 0.001),
                            lambda: parent.drain(2),
                            lambda: parent.drain_all(),
                        ]
                    )()
                except (RuntimeError, ValueError) as error:
                    assert "corrupt" not in str(error)

        threads = [threading.Thread(target=play, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def test_ids_that_call_back(local):
    parent, workers = local

    class Index:
        def __index__(self):
            with pytest.raises(RuntimeError, match="in use"):
                parent.close()
            return 1

    parent.send([Index()], STEP)
    assert answer_all(workers[0]) == [(1, STEP)]


@pytest.mark.parametrize(
    ("hub", "lanes", "message"),
    [
        (0, [], "between 1 and"),
        (8, [(192, 1)], "the hub is not aligned"),
        (-64, [(192, 1)], "negative"),
        (1 << 62, [(192, 1)], "the hub does not fit"),
        (0, [(192, 0)], "num_envs must be between"),
        (0, [(192, 1 << 60)], "num_envs must be between"),
        (0, [(192, 1), (193, 1)], "lane 1 is not aligned"),
        (0, [(192, 1), (192, 1)], "lane 1 overlaps"),
        (0, [(128, 1)], "lane 0 overlaps"),
        (0, [(192, 1), (1 << 20, 1)], "lane 1 does not fit"),
        (0, [(192, 1 << 24)], "lane 0 does not fit"),
    ],
)
def test_bad_places(hub, lanes, message):
    with pytest.raises(ValueError, match=message):
        Parent(Arena(4096).buffer, hub, lanes)


def test_bad_arguments():
    buffer = Arena(4096).buffer
    lanes = [(hub_size(), 1)]
    for kind in (
        lambda **options: Parent(buffer, 0, lanes, **options),
        lambda **options: Worker(buffer, 0, *lanes[0], **options),
    ):
        with pytest.raises(ValueError, match="wait must be"):
            kind(wait="never")
        kind(wait="spin", polling=True).close()
    with pytest.raises(BufferError):
        Parent(bytes(4096), 0, lanes)
    with pytest.raises(TypeError):
        Parent(None, 0, lanes)
    with pytest.raises(TypeError):
        Parent(buffer, 0, [(0, "1")])
    with pytest.raises(ValueError, match="aligned"):
        Parent(memoryview(buffer)[1:], 0, lanes)
    for offset, envs, message in [
        (0, 1, "overlaps"),
        (hub_size() + 8, 1, "aligned"),
        (4096, 1, "fit"),
        (0, 0, "num_envs"),
    ]:
        with pytest.raises(ValueError, match=message):
            Worker(buffer, 0, offset, envs)
    for pid in (0, -1, 2**62):
        with pytest.raises(ValueError, match="out of range"):
            Worker(buffer, 0, *lanes[0]).watch_parent(pid)


def test_sizes():
    assert hub_size() % LINE == 0
    assert [lane_size(envs) for envs in (1, 8, 9)] == [256, 256, 384]
    for envs in (0, -1, 2**24 + 1, 2**70):
        with pytest.raises((ValueError, OverflowError)):
            lane_size(envs)


def test_closed_objects_are_safe():
    lanes, size = layout([1])
    arena = Arena(size)
    parent = Parent(arena.buffer, 0, lanes)
    worker = Worker(arena.buffer, 0, *lanes[0])
    with pytest.raises(BufferError):
        arena.buffer.close()  # held
    for subject in (parent, worker):
        assert not subject.closed
        subject.close()
        subject.close()
        assert subject.closed
    arena.buffer.close()
    for call in (
        lambda: parent.send_all(STEP),
        lambda: parent.send([0], STEP),
        lambda: parent.wait(0),
        parent.drain,
        parent.drain_all,
        lambda: parent.ring(0),
        lambda: parent.pending(0),
        lambda: parent.lane_pending(0),
        lambda: parent.abandon(0),
        lambda: parent.revive(0),
        lambda: parent.num_envs,
        lambda: parent.num_workers,
        lambda: parent.num_pending,
        lambda: parent.wakes,
        lambda: parent.sleeps,
        worker.wait,
        worker.take,
        lambda: worker.answer(0),
        worker.flush,
        lambda: worker.watch_parent(1),
        lambda: worker.wakes,
        lambda: worker.sleeps,
    ):
        with pytest.raises(ValueError, match="closed"):
            call()


@linux_only
def test_memory_is_flat():
    lanes, size = layout([64] * 4)
    arena = Arena(size)

    def use():
        parent = Parent(arena.buffer, 0, lanes)
        worker = Worker(arena.buffer, 0, *lanes[0])
        parent.send_all(STEP)
        for _ in range(64):
            worker.answer(worker.take())
        with pytest.raises(ValueError, match="out of range"):
            parent.send([999], STEP)
        with pytest.raises(ValueError, match="overlaps"):
            Parent(arena.buffer, 0, [(0, 1)])
        parent.drain()

    def resident():
        gc.collect()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    for _ in range(200):
        use()
    before = resident()
    for _ in range(2000):
        use()
    assert resident() - before < 1 << 20


ORPHANS = """
    import multiprocessing, os, sys, time
    from multiprocessing.heap import Arena
    from gymvec._bell import Parent, Worker, hub_size, lane_size

    def work(arena, pid, stuck):
        worker = Worker(arena.buffer, 0, hub_size(), 1, polling=sys.argv[2] == "True")
        worker.watch_parent(pid)
        os.write(1, b"%d\\n" % os.getpid())  # at once: two processes write
        if stuck:
            time.sleep(60)
        else:
            worker.wait(60)

    if __name__ == "__main__":
        arena = Arena(hub_size() + lane_size(1))
        parent = Parent(arena.buffer, 0, [(hub_size(), 1)])
        context = multiprocessing.get_context(sys.argv[1])
        for stuck in (True, False):
            context.Process(target=work, args=(arena, os.getpid(), stuck)).start()
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
        assert all(map(_bell.parent_alive, pids))
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
    assert not _bell.parent_alive(gone.pid)
    code = (
        "from multiprocessing.heap import Arena; from gymvec._bell import *;"
        f"Worker(Arena(4096).buffer, 0, hub_size(), 1).watch_parent({gone.pid}); print('alive')"
    )
    late = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (late.returncode, late.stdout) == (_bell.ORPHANED_EXIT, b"")
