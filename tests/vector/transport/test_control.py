"""The protocol of the control words, and what their arguments may be."""

import gc
import os
import sys
from multiprocessing.heap import Arena

import numpy as np
import pytest
from control_words import STEP, answer_all, layout

from gymvec.vector.transport.control import LINE, MAX_OPCODE, header_size, queue_size
from gymvec.vector.transport.control_parent import Parent
from gymvec.vector.transport.control_worker import Worker

linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux")


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
    parent.send([1], 5, immediate=True)
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
    assert [parent.queue_pending(worker) for worker in range(2)] == [1, 1]
    answer_all(workers[1])
    assert parent.wait(2, 0.02) == 1
    assert parent.pending(3)
    assert parent.drain() == [3]
    assert [parent.queue_pending(worker) for worker in range(2)] == [1, 0]


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


def test_a_worker_in_place_of_a_dead_one():
    queues, size = layout([3, 2])
    segment = Arena(size)
    parent = Parent(segment.buffer, 0, queues)
    workers = [Worker(segment.buffer, 0, *queue) for queue in queues]
    parent.send_all(STEP)
    for env in range(2):
        assert workers[0].take() == env
        workers[0].answer(env)
    assert parent.drain(1) == [0]
    segment.buffer[queues[0][0] : queues[0][0] + queue_size(3)] = b"\xff" * queue_size(3)
    parent.reset_queue(0)
    assert parent.queue_pending(0) == 0
    assert parent.num_pending == 2
    parent.send([1], STEP)
    with pytest.raises(ValueError, match="environment 1 has not answered"):
        parent.send_all(STEP)
    new = Worker(segment.buffer, 0, *queues[0])
    assert new.take() == 1
    new.answer(1)
    assert new.take() == -1
    answer_all(workers[1])
    assert parent.wait(3, 5) == 3
    assert sorted(parent.drain()) == [1, 3, 4]
    assert parent.num_pending == 0
    # One that was given up comes back, too.
    parent.mark_dead(1)
    parent.reset_queue(1)
    parent.send_all(STEP)
    assert parent.num_pending == 5
    for subject in (parent, *workers, new):
        subject.close()


def test_scribbled_words_are_an_error():
    queues, size = layout([2, 2])
    segment = Arena(size)
    parent = Parent(segment.buffer, 0, queues)
    parent.send_all(STEP)
    begin, end = queues[1][0], queues[1][0] + queue_size(2)
    segment.buffer[begin:end] = b"\xff" * (end - begin)
    with pytest.raises(RuntimeError, match="control words of a worker are corrupt"):
        parent.wait(4, 1)
    with pytest.raises(RuntimeError, match="control words of worker 1 are corrupt"):
        parent.drain()
    with pytest.raises(RuntimeError, match="control words of worker 1 are corrupt"):
        parent.drain_all()
    assert parent.mark_dead(1) == [2, 3]
    assert parent.drain() == []
    parent.close()


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
    ("header", "queues", "message"),
    [
        (0, [], "between 1 and"),
        (8, [(256, 1)], "the header is not aligned"),
        (-64, [(256, 1)], "negative"),
        (1 << 62, [(256, 1)], "the header does not fit"),
        (0, [(256, 0)], "num_envs must be between"),
        (0, [(256, 1 << 60)], "num_envs must be between"),
        (0, [(256, 1), (257, 1)], "queue 1 is not aligned"),
        (0, [(256, 1), (256, 1)], "queue 1 overlaps"),
        (0, [(128, 1)], "queue 0 overlaps"),
        (0, [(256, 1), (1 << 20, 1)], "queue 1 does not fit"),
        (0, [(256, 1 << 24)], "queue 0 does not fit"),
    ],
)
def test_bad_places(header, queues, message):
    with pytest.raises(ValueError, match=message):
        Parent(Arena(4096).buffer, header, queues)


def test_bad_arguments():
    buffer = Arena(4096).buffer
    queues = [(header_size(), 1)]
    for kind in (
        lambda **options: Parent(buffer, 0, queues, **options),
        lambda **options: Worker(buffer, 0, *queues[0], **options),
    ):
        with pytest.raises(ValueError, match="wait must be"):
            kind(wait="never")
        kind(wait="spin", polling=True).close()
    with pytest.raises(BufferError):
        Parent(bytes(4096), 0, queues)
    with pytest.raises(TypeError):
        Parent(None, 0, queues)
    with pytest.raises(TypeError):
        Parent(buffer, 0, [(0, "1")])
    with pytest.raises(ValueError, match="aligned"):
        Parent(memoryview(buffer)[1:], 0, queues)
    for offset, envs, message in [
        (0, 1, "overlaps"),
        (header_size() + 8, 1, "aligned"),
        (4096, 1, "fit"),
        (0, 0, "num_envs"),
    ]:
        with pytest.raises(ValueError, match=message):
            Worker(buffer, 0, offset, envs)
    for pid in (0, -1, 2**62):
        with pytest.raises(ValueError, match="out of range"):
            Worker(buffer, 0, *queues[0]).watch_parent(pid)


def test_sizes():
    assert header_size() % LINE == 0
    assert [queue_size(envs) for envs in (1, 8, 9)] == [256, 256, 384]
    for envs in (0, -1, 2**24 + 1, 2**70):
        with pytest.raises((ValueError, OverflowError)):
            queue_size(envs)


def test_closed_objects_are_safe():
    queues, size = layout([1])
    segment = Arena(size)
    parent = Parent(segment.buffer, 0, queues)
    worker = Worker(segment.buffer, 0, *queues[0])
    with pytest.raises(BufferError):
        segment.buffer.close()  # held
    for subject in (parent, worker):
        assert not subject.closed
        subject.close()
        subject.close()
        assert subject.closed
    segment.buffer.close()
    for call in (
        lambda: parent.send_all(STEP),
        lambda: parent.send([0], STEP),
        lambda: parent.wait(0),
        parent.drain,
        parent.drain_all,
        lambda: parent.ring(0),
        lambda: parent.pending(0),
        lambda: parent.queue_pending(0),
        lambda: parent.mark_dead(0),
        lambda: parent.reset_queue(0),
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
@pytest.mark.leaks
def test_memory_is_flat():
    queues, size = layout([64] * 4)
    segment = Arena(size)

    def use():
        parent = Parent(segment.buffer, 0, queues)
        worker = Worker(segment.buffer, 0, *queues[0])
        parent.send_all(STEP)
        for _ in range(64):
            worker.answer(worker.take())
        with pytest.raises(ValueError, match="out of range"):
            parent.send([999], STEP)
        with pytest.raises(ValueError, match="overlaps"):
            Parent(segment.buffer, 0, [(0, 1)])
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
