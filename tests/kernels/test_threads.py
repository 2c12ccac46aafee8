"""Many threads at once: right results, or the error that is promised."""

import sys
import threading

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Tuple

from gymvec import utils
from gymvec.kernels.rows import RowWriter
from gymvec.vector.transport.control import header_size, queue_size
from gymvec.vector.transport.control_parent import Parent
from gymvec.vector.transport.control_worker import Worker

THREADS = 6
ROUNDS = 300
NESTED = Dict(a=Tuple([Box(-9, 9, (3,)), Discrete(5)]), b=Box(0, 255, (64, 64), np.uint8))


@pytest.fixture(autouse=True)
def short_turns():
    """Threads take turns as often as the interpreter lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(function):
    """Run a function of the thread's number in all threads at once; raise what one raises."""
    barrier = threading.Barrier(THREADS)
    errors = []

    def run(number):
        try:
            barrier.wait()
            function(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_concatenate_of_the_same_items():
    NESTED.seed(3)
    items = [NESTED.sample() for _ in range(8)]

    def run(number):
        out = utils.create_empty_array(NESTED, 8)
        for _ in range(ROUNDS // 10):
            utils.concatenate(NESTED, items, out)
            for i, item in enumerate(items):
                assert np.array_equal(out["a"][0][i], item["a"][0])
                assert out["a"][1][i] == item["a"][1]
                assert np.array_equal(out["b"][i], item["b"])

    together(run)


def test_concatenate_of_a_list_that_others_change():
    # Above 1 MiB the GIL is given up while rows are copied.
    space = Box(0, 255, (1 << 20,), np.uint8)
    items = [np.full((1 << 20,), value, np.uint8) for value in (1, 2)]

    def run(number):
        if number % 2:
            for turn in range(ROUNDS):
                items[turn % 2] = np.full((1 << 20,), 1 + turn % 2, np.uint8)
            return
        out = np.zeros((2, 1 << 20), np.uint8)
        for _ in range(ROUNDS // 10):
            utils.concatenate(space, items, out)
            assert out[0].min() == out[0].max() == 1
            assert out[1].min() == out[1].max() == 2

    together(run)


def test_rows_of_the_same_shared_memory():
    space = Box(-np.inf, np.inf, (16,), np.float64)
    memory = utils.create_shared_memory(space, THREADS)
    view = utils.read_from_shared_memory(space, memory, THREADS)

    def run(number):
        for turn in range(ROUNDS):
            utils.write_to_shared_memory(space, number, np.full(16, turn * 10.0 + number), memory)
            assert view[number].tolist() == [turn * 10.0 + number] * 16

    together(run)


def test_bound_writers_of_the_same_block():
    block = np.zeros((THREADS, 5), np.float32)
    shared = RowWriter(block, 0)
    writers = [RowWriter(block, number) for number in range(THREADS)]

    def run(number):
        for turn in range(ROUNDS):
            if number:
                writers[number](np.full(5, turn, np.float64))
                assert block[number].tolist() == [turn] * 5
            else:
                shared(np.full(5, turn, np.float32))

    together(run)
    assert block[0].tolist() == [ROUNDS - 1] * 5


def test_control_words_belong_to_one_thread_at_a_time():
    queues = [(header_size() + i * queue_size(2), 2) for i in range(2)]
    raw = np.zeros(header_size() + 2 * queue_size(2) + 64, np.uint8)
    memory = raw[-raw.ctypes.data % 64 :]
    parent = Parent(memory, 0, queues)
    workers = [Worker(memory, 0, offset, count) for offset, count in queues]
    refused = []
    answered = [0, 0]
    stop = threading.Event()

    def serve(index):
        while not stop.is_set():
            workers[index].wait(0.01)
            while (env := workers[index].take()) >= 0:
                workers[index].answer(env)
                answered[index] += 1
            workers[index].flush()

    serving = [threading.Thread(target=serve, args=(index,)) for index in range(2)]
    for thread in serving:
        thread.start()

    def run(number):
        for _ in range(ROUNDS):
            try:
                if number == 0:
                    parent.send_all(3)
                    while parent.wait(4, 0.01) < 4:
                        pass
                    assert sorted(parent.drain()) == [0, 1, 2, 3]
                else:
                    assert 0 <= parent.num_pending <= 4
                    parent.pending(number % 4)
                    parent.queue_pending(number % 2)
                    parent.ring(number % 2)
            except RuntimeError as error:
                refused.append(str(error))
                if number == 0:
                    # The others never hold it for longer than a call, so that this never comes.
                    raise

    try:
        together(run)
    finally:
        stop.set()
        for thread in serving:
            thread.join()
    assert answered == [2 * ROUNDS] * 2
    assert set(refused) <= {"this Parent is in use by another call"}
    for half in (parent, *workers):
        half.close()
