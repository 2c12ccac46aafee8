"""Waiting for the other side of the control words: limits, wake-ups, signals, threads."""

import os
import random
import signal
import threading
import time
from multiprocessing.heap import Arena

import pytest
from control_words import STEP, WorkerPool, answer_all, layout

from gymvec.vector.transport import control
from gymvec.vector.transport.control_parent import Parent
from gymvec.vector.transport.control_worker import Worker

posix_only = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
futex_only = pytest.mark.skipif(not control.HAS_FUTEX, reason="needs futexes")


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
            parent.queue_pending(worker)
        with pytest.raises(IndexError):
            parent.mark_dead(worker)
        with pytest.raises(IndexError):
            parent.reset_queue(worker)
    for env in (-1, 5, 2**40):
        with pytest.raises(IndexError):
            parent.pending(env)


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
    with WorkerPool([1], wait="block") as parent:
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
    queues, size = layout([1])
    segment = Arena(size)
    parent = Parent(segment.buffer, 0, queues, wait=wait)
    worker = Worker(segment.buffer, 0, *queues[0], wait=wait)

    def interrupt():
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    for blocked in (lambda: worker.wait(30), lambda: parent.wait(1, 30), lambda: parent.wait(1)):
        thread = threading.Thread(target=interrupt)
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            thread.start()
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
    with WorkerPool([2, 2], wait="block") as parent:
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
