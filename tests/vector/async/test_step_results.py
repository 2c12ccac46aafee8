"""Taking a step's results in one call: all of them, or nothing."""

import threading

import numpy as np
import pytest

from gymvec.vector.parent.fast_step import DONE, NOT_SENT, SENT, CallGate, StepResults
from gymvec.vector.transport import control
from gymvec.vector.transport.control_parent import Parent
from gymvec.vector.transport.control_worker import Worker


class Sides:
    """The parent and two workers of two environments each, in one process."""

    def __init__(self, *blocks):
        header, queue = control.header_size(), control.queue_size(2)
        memory = bytearray(header + 2 * queue + control.LINE)
        start = -np.frombuffer(memory, np.uint8).ctypes.data % control.LINE
        queues = [start + header, start + header + queue]
        self.parent = Parent(memory, start, [(offset, 2) for offset in queues], wait="block")
        self.workers = [Worker(memory, start, offset, 2) for offset in queues]
        self.parts = [
            (np.zeros(2), np.zeros(2, bool), np.zeros(2, bool), np.zeros(2, bool)) for _ in range(2)
        ]
        self.results = StepResults(self.parts, blocks)
        self.gate = CallGate("idle", "stepping")
        self.gate.closed = False

    def step(self, put, actions, opcode=0, timeout=1.0):
        return self.results.step(self.gate, self.parent, put, actions, opcode, timeout)

    def finish(self, timeout=1.0):
        return self.results.finish(self.gate, self.parent, timeout)

    def answer(self, worker):
        while (env := self.workers[worker].take()) >= 0:
            self.workers[worker].answer(env)
        self.workers[worker].flush()


def test_all_results_are_taken():
    sides = Sides()
    sides.parent.send_all(0)
    rewards, terminations, truncations, _ = sides.parts[1]
    rewards[:], terminations[0], truncations[1] = (1.5, -2.0), True, True
    sides.answer(0)
    sides.answer(1)
    assert sides.finish() == DONE
    got, copies = sides.results.take()
    assert sides.results.take() is None
    assert copies == []
    assert [array.tolist() for array in got] == [
        [0.0, 0.0, 1.5, -2.0],
        [False, False, True, False],
        [False, False, False, True],
    ]
    assert [array.dtype for array in got] == [np.float64, np.bool_, np.bool_]
    assert sides.parent.num_pending == 0
    # Nothing is due, so the same is there again: an interrupted caller loses nothing.
    assert sides.finish(0.0) == DONE
    assert sides.results.take()[0][0].tolist() == [0.0, 0.0, 1.5, -2.0]


@pytest.mark.parametrize(
    "block",
    [
        np.arange(8, dtype=np.float32).reshape(4, 2),
        np.arange(12, dtype=">f2").reshape(4, 3),
        np.zeros((4, 0)),
        np.arange(4 << 18, dtype=np.int64).reshape(4, -1),
    ],
    ids=["small", "big-endian", "empty", "without the GIL"],
)
def test_the_block_is_copied(block):
    other = np.arange(4, dtype=np.int16)
    sides = Sides(block, other)
    sides.parent.send_all(0)
    sides.answer(0)
    sides.answer(1)
    assert sides.finish() == DONE
    _, copies = sides.results.take()
    for copy, source in zip(copies, [block, other], strict=True):
        np.testing.assert_array_equal(copy, source)
        assert copy.dtype == source.dtype
        assert copy.flags.owndata


def test_nothing_is_taken_before_all_is_there():
    sides = Sides()
    sides.parent.send_all(0)
    sides.answer(0)
    assert sides.finish(0.01) == SENT
    assert sides.parent.num_pending == 4
    sides.answer(1)
    assert sides.finish(0.01) == DONE


LARGE = np.arange(4 << 16, dtype=np.float32).reshape(4, -1)


@pytest.mark.parametrize("first", [0, 1])
def test_rows_are_copied_while_another_worker_is_at_work(first):
    block, other = LARGE.copy(), np.arange(4)
    sides = Sides(other, block)
    sides.parent.send_all(0)
    sides.answer(first)
    finished = []
    thread = threading.Thread(target=lambda: finished.append(sides.finish(60.0)))
    thread.start()
    # In use by another call, which waits: what is there is copied.
    with pytest.raises(RuntimeError, match="in use"):
        while True:
            assert sides.parent.num_pending == 4
    block[2 * first : 2 * first + 2] = other[2 * first : 2 * first + 2] = -1
    sides.answer(1 - first)
    thread.join()
    assert finished == [DONE]
    _, copies = sides.results.take()
    np.testing.assert_array_equal(copies[1], LARGE)
    assert copies[0].tolist() == [0, 1, 2, 3]
    assert sides.parent.num_pending == 0


def test_a_large_block_is_copied_whole_or_not_at_all():
    sides = Sides(LARGE)
    sides.parent.send_all(0)
    sides.answer(1)
    assert sides.finish(0.01) == SENT
    assert sides.parent.num_pending == 4
    sides.parts[1][3][0] = True
    sides.answer(0)
    assert sides.finish() == SENT
    assert sides.parent.num_pending == 4
    sides.parts[1][3][0] = False
    assert sides.finish() == DONE
    _, (copy,) = sides.results.take()
    np.testing.assert_array_equal(copy, LARGE)
    assert sides.parent.num_pending == 0


@pytest.mark.parametrize("env", range(4))
def test_nothing_is_taken_where_a_message_belongs_to_an_answer(env):
    sides = Sides()
    sides.parent.send_all(0)
    sides.parts[env // 2][3][env % 2] = True
    sides.answer(0)
    sides.answer(1)
    assert sides.finish() == SENT
    assert sides.parent.num_pending == 4
    assert sides.results.messages() == [env]


def test_a_step_is_put_sent_and_taken():
    sides = Sides()
    put = []

    def accept(actions, envs):
        put.append((actions, envs))
        assert sides.gate.state == "stepping"
        # By workers whose doorbell has not rung yet, so nothing is due.
        assert sides.parent.num_pending == 0
        return True

    assert sides.step(accept, "actions", 7, 0.01) == SENT
    assert put == [("actions", None)]
    assert sides.parent.num_pending == 4
    opcodes = []
    for worker in sides.workers:
        while (env := worker.take()) >= 0:
            opcodes.append(worker.opcode)
            worker.answer(env)
        worker.flush()
    assert opcodes == [7] * 4
    assert sides.gate.state == "stepping"
    assert sides.finish() == DONE


def test_a_step_whose_actions_do_not_fit_sends_nothing():
    sides = Sides()
    assert sides.step(lambda *_: False, "actions") == NOT_SENT
    assert sides.parent.num_pending == 0
    assert sides.gate.state == "idle"
    with pytest.raises(ZeroDivisionError):
        sides.step(lambda *_: 1 / 0, "actions")
    assert sides.parent.num_pending == 0
    sides.parent.send([3], 0)
    with pytest.raises(ValueError, match="environment 3 has not answered"):
        sides.step(lambda *_: True, "actions")
    assert sides.parent.num_pending == 1
    assert sides.gate.state == "idle"


REASONS = ["closed", "forked", "dead", "replaced", "timed_out", "drained", "unwritten"]


@pytest.mark.parametrize("reason", [*REASONS, "ready_first", "indirect"])
def test_each_reason_shuts_the_gate(reason):
    gate = CallGate("idle", "stepping")
    assert gate.is_shut  # closed
    gate.closed = False
    assert not gate.is_shut
    setattr(gate, reason, True)
    assert gate.is_shut
    setattr(gate, reason, False)
    gate.state = "resetting"
    assert gate.is_shut


@pytest.mark.parametrize("reason", REASONS[1:])
def test_nothing_is_taken_where_a_wait_needs_care(reason):
    sides = Sides()
    sides.parent.send_all(0)
    sides.answer(0)
    sides.answer(1)
    setattr(sides.gate, reason, True)
    assert sides.finish() == SENT
    assert sides.parent.num_pending == 4


def test_wrong_arguments():
    sides = Sides()
    for doorbell in (None, object(), sides.workers[0]):
        with pytest.raises(TypeError):
            sides.results.finish(sides.gate, doorbell, 1.0)
    for gate in (None, object(), sides.parent):
        with pytest.raises(TypeError):
            sides.results.finish(gate, sides.parent, 1.0)
    odd = [object(), [1.0] * 4, np.zeros((4, 2), object), np.zeros((4, 4))[:, ::2]]
    for block in (*odd, np.zeros(()), np.zeros((3, 2))):
        with pytest.raises(ValueError, match="contiguous array of 4 rows of numbers"):
            StepResults(sides.parts, [block])
    sides.parent.close()
    with pytest.raises(ValueError, match="closed"):
        sides.finish()
