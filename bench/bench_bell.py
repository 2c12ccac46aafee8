"""Round trips of the control words against a pipe, in one run: ``python bench/doorbell.py``.

Prints microseconds, medians over interleaved rounds, and the ratio to the pipe's ping-pong.
"""

import multiprocessing
import os
import signal
import statistics
import sys
import time
from multiprocessing.heap import Arena

from gymvec.vector.transport.control import header_size, queue_size
from gymvec.vector.transport.control_parent import Parent
from gymvec.vector.transport.control_worker import Worker


def layout(envs: list[int]) -> tuple[list[tuple[int, int]], int]:
    """Queues one after another behind the header, and the bytes of all."""
    queues, offset = [], header_size()
    for count in envs:
        queues.append((offset, count))
        offset += queue_size(count)
    return queues, offset


def serve(segment: Arena, queue: tuple[int, int], wait: str) -> None:
    worker = Worker(segment.buffer, 0, *queue, wait=wait)
    worker.watch_parent(os.getppid())
    while True:
        worker.wait(1.0)
        while (env := worker.take()) >= 0:
            if worker.opcode == 0:
                return
            worker.answer(env)
        worker.flush()


class WorkerPool:
    def __init__(self, envs: list[int], wait: str) -> None:
        queues, size = layout(envs)
        self.segment = Arena(size)
        self.parent = Parent(self.segment.buffer, 0, queues, wait=wait)
        context = multiprocessing.get_context("fork")
        self.workers = [
            context.Process(target=serve, args=(self.segment, queue, wait)) for queue in queues
        ]
        for worker in self.workers:
            worker.start()

    def steps(self, count: int, think_s: float = 0.0) -> float:
        """Seconds of `count` steps, thinking time not counted."""
        parent, num_envs = self.parent, self.parent.num_envs
        thought = 0.0
        begin = time.perf_counter()
        for _ in range(count):
            parent.send_all(1)
            while parent.wait(num_envs, 1.0) < num_envs:
                pass
            parent.drain_all()
            if think_s:
                start = time.perf_counter()
                until = start + think_s
                while time.perf_counter() < until:
                    pass
                thought += time.perf_counter() - start
        return time.perf_counter() - begin - thought

    def close(self) -> None:
        self.parent.send_all(0)
        for worker in self.workers:
            worker.join()


def echo(pipe) -> None:
    while (message := pipe.recv()) is not None:
        pipe.send(message)


class Pipe:
    def __init__(self) -> None:
        context = multiprocessing.get_context("fork")
        self.pipe, child = context.Pipe()
        self.process = context.Process(target=echo, args=(child,))
        self.process.start()

    def steps(self, count: int) -> float:
        begin = time.perf_counter()
        for _ in range(count):
            self.pipe.send(1)
            self.pipe.recv()
        return time.perf_counter() - begin

    def close(self) -> None:
        self.pipe.send(None)
        self.process.join()


def cpu_seconds(pids: list[int]) -> float:
    ticks = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    rounds, steps = 7, 2000
    print("python", sys.version.split()[0], "cores", os.cpu_count())
    names = {
        "pipe ping-pong": Pipe(),
        "1 env, 1 worker, auto": WorkerPool([1], "auto"),
        "1 env, 1 worker, spin": WorkerPool([1], "spin"),
        "1 env, 1 worker, block": WorkerPool([1], "block"),
    }
    for wait in ("auto", "block"):
        names[f"32 envs, 2 workers, {wait}"] = WorkerPool([16, 16], wait)
        names[f"8 envs, 8 workers, {wait}"] = WorkerPool([1] * 8, wait)
    times: dict[str, list[float]] = {name: [] for name in names}

    # Who spins would disturb the others: its process is stopped when it is not its turn.
    def switch(name: str, signal_number: int) -> None:
        if "spin" in name:
            for worker in names[name].workers:
                os.kill(worker.pid, signal_number)

    for name in names:
        switch(name, signal.SIGSTOP)
    for _ in range(rounds):
        for name, subject in names.items():
            switch(name, signal.SIGCONT)
            subject.steps(200)
            times[name].append(subject.steps(steps) / steps * 1e6)
            switch(name, signal.SIGSTOP)
    for name, values in times.items():
        median = statistics.median(values)
        envs = names[name].parent.num_envs if isinstance(names[name], WorkerPool) else 1
        ratio = statistics.median(times["pipe ping-pong"]) / median
        each = f"{median:8.2f} us a step {median / envs:7.3f} an env"
        print(f"{name:28} {each}  pipe/this {ratio:5.2f}")
    for name in names:
        switch(name, signal.SIGCONT)
    for subject in names.values():
        subject.close()
    print("a learner that computes for 1 ms between steps")
    for name, envs, wait in [
        ("1 env, auto", [1], "auto"),
        ("1 env, block", [1], "block"),
        ("32 envs, 2 workers, auto", [16, 16], "auto"),
        ("32 envs, 2 workers, block", [16, 16], "block"),
    ]:
        pool = WorkerPool(envs, wait)
        pool.steps(50, 0.001)
        pids = [worker.pid for worker in pool.workers]
        before, begin = cpu_seconds(pids), time.perf_counter()
        values = [pool.steps(300, 0.001) / 300 * 1e6 for _ in range(3)]
        share = (cpu_seconds(pids) - before) / (time.perf_counter() - begin)
        median = statistics.median(values)
        print(f"{name:28} {median:8.2f} us a step, workers use {share:.1%} of a core")
        pool.close()


if __name__ == "__main__":
    main()
