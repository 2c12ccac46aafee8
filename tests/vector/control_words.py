"""A parent and workers that do nothing but answer, for the tests of the control words."""

import itertools
import multiprocessing
import os
import signal
import time
from multiprocessing.heap import Arena

from gymvec.vector.transport.control import header_size, queue_size
from gymvec.vector.transport.control_parent import Parent
from gymvec.vector.transport.control_worker import Worker

STOP, STEP, SLEEP, DIE = 0, 1, 2, 3
START_METHODS = [
    method for method in ("fork", "spawn") if method in multiprocessing.get_all_start_methods()
]


def layout(envs):
    """Queues one after another behind the header, and the bytes of all."""
    offsets = itertools.accumulate(map(queue_size, envs), initial=header_size())
    queues = list(zip(offsets, envs, strict=False))
    return queues, queues[-1][0] + queue_size(envs[-1])


def serve(segment, queue, options, parent_pid):
    """A worker: writes opcode + 1 for each command into the byte of its environment."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    worker = Worker(segment.buffer, 0, *queue, **options)
    worker.watch_parent(parent_pid)
    shut = answered = 0
    while shut < queue[1]:
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


class WorkerPool:
    """A parent and its worker processes."""

    def __init__(self, envs, method="fork" if "fork" in START_METHODS else "spawn", **options):
        self.queues, size = layout(envs)
        self.segment = Arena(size)
        self.parent = Parent(self.segment.buffer, 0, self.queues, **options)
        context = multiprocessing.get_context(method)
        self.workers = [
            context.Process(
                target=serve, args=(self.segment, queue, options, os.getpid()), daemon=True
            )
            for queue in self.queues
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


def answer_all(worker):
    taken = []
    while (env := worker.take()) >= 0:
        taken.append((env, worker.opcode))
        worker.answer(env)
    worker.flush()
    return taken
