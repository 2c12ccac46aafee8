"""What is measured: vector environments, and bare loops, which nothing that steps them can beat.

All of them take the same steps, with the same seeds and actions. A subject has
``take(steps)``, ``close()``, and ``num_envs``; one of several loops also ``unevenness``.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium
from gymnasium import Env, Space

from gymvec.measuring.hosts import Failure, reason_of
from gymvec.system.limits import affinity
from gymvec.utils import CloudpickleWrapper, batch_space, iterate
from gymvec.vector.errors import how_it_ended

__all__ = ["SEED", "BareLoops", "Loop", "Registered", "Stepped", "action_batches"]

SEED = 0


@dataclass(frozen=True)
class Registered:
    """Makes a registered environment in whichever process it is called.

    Attributes:
        id: The environment's id.
        kwargs: Arguments of ``gymnasium.make``.
        modules: Modules to import first, which register environments.
    """

    id: str
    kwargs: dict[str, Any] = field(default_factory=dict)
    modules: tuple[str, ...] = ()

    def __call__(self) -> Env[Any, Any]:
        """Make the environment."""
        for module in self.modules:
            importlib.import_module(module)
        return gymnasium.make(self.id, **self.kwargs)


def action_batches(space: Space[Any], count: int = 64) -> list[Any]:
    """Random batches of actions, the same ones in each call."""
    space.seed(SEED)
    return [space.sample() for _ in range(count)]


class Stepped:
    """A vector environment, of whichever package, that was reset."""

    def __init__(
        self,
        num_envs: int,
        step: Callable[[Any], Any],
        batches: Sequence[Any],
        close: Callable[[], Any],
    ) -> None:
        """Wrap a vector environment.

        Args:
            num_envs: Environment steps in a step.
            step: Steps it with a batch of actions.
            batches: The batches, which it is stepped with in turn.
            close: Closes it.
        """
        self.num_envs = num_envs
        self.close = close
        self._step = step
        self._batches = batches
        self._first = 0

    def take(self, steps: int) -> float:
        """Take ``steps`` steps; the seconds that they took."""
        batches, step = self._batches, self._step
        begin = time.perf_counter()
        for i in range(self._first, self._first + steps):
            step(batches[i % len(batches)])
        self._first += steps
        return time.perf_counter() - begin


class BareLoops:
    """Plain Python loops over slices of the environments, a process a core.

    With as many loops as cores each is kept on one, and so are the threads of its environments.

    Attributes:
        unevenness: By how much the slowest loop took longer than the mean, a factor, when steps
            were taken last.
    """

    def __init__(self, env_fn: Callable[[], Env[Any, Any]], num_envs: int, count: int) -> None:
        """Start the processes and build the environments.

        Args:
            env_fn: Makes an environment.
            num_envs: How many there are in all.
            count: Number of processes, at most ``num_envs``.

        Raises:
            Failure: A loop failed.
        """
        self.num_envs = num_envs
        self.unevenness = 1.0
        count = min(num_envs, count)
        bounds = [num_envs * i // count for i in range(count + 1)]
        self._pipes, self._processes = [], []
        # Kept, because its memory is given to others as soon as nothing refers to it.
        self._barrier = multiprocessing.Barrier(count)
        make = CloudpickleWrapper(env_fn)
        for core, (start, stop) in zip(_cores(count), itertools.pairwise(bounds), strict=True):
            ours, theirs = multiprocessing.Pipe()
            process = multiprocessing.Process(
                target=_serve_loop,
                args=(make, num_envs, start, stop, theirs, self._barrier, core),
                daemon=True,
            )
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)
        self._answers()

    def take(self, steps: int) -> float:
        """Take ``steps`` steps in every loop, all at once; their mean seconds."""
        for pipe in self._pipes:
            pipe.send(steps)
        seconds = self._answers()
        mean = sum(seconds) / len(seconds)
        self.unevenness = max(seconds) / mean
        return mean

    def close(self) -> None:
        """End the processes."""
        for pipe in self._pipes:
            pipe.send(None)
        for process in self._processes:
            process.join()

    def _answers(self) -> list[float]:
        answers = []
        for pipe, process in zip(self._pipes, self._processes, strict=True):
            try:
                answers.append(pipe.recv())
            except EOFError:
                process.join(1.0)
                raise Failure(f"a loop's process {how_it_ended(process.exitcode)}") from None
        for answer in answers:
            # One that fails breaks the barrier for the others, whose reason is no reason.
            if isinstance(answer, str) and "BrokenBarrierError" not in answer:
                raise Failure(answer)
        return answers


class Loop:
    """A plain Python loop over environments in this process."""

    def __init__(
        self, env_fn: Callable[[], Env[Any, Any]], num_envs: int, start: int, stop: int
    ) -> None:
        """Build and reset those from ``start`` to ``stop`` of ``num_envs`` environments."""
        self.num_envs = stop - start
        self._envs = [env_fn() for _ in range(start, stop)]
        batched = batch_space(self._envs[0].action_space, num_envs)
        self._batches = [
            list(iterate(batched, batch))[start:stop] for batch in action_batches(batched)
        ]
        for i, env in enumerate(self._envs):
            env.reset(seed=SEED + start + i)
        self._over = [False] * len(self._envs)
        self._first = 0

    def take(self, steps: int) -> float:
        """Take ``steps`` steps of each; the seconds that they took."""
        envs, over, batches = self._envs, self._over, self._batches
        begin = time.perf_counter()
        for step in range(self._first, self._first + steps):
            actions = batches[step % len(batches)]
            for i, env in enumerate(envs):
                # A reset counts as the step that the autoreset mode makes of it.
                if over[i]:
                    env.reset()
                    over[i] = False
                else:
                    _, _, terminated, truncated, _ = env.step(actions[i])
                    over[i] = terminated or truncated
        self._first += steps
        return time.perf_counter() - begin

    def close(self) -> None:
        """Close the environments."""
        for env in self._envs:
            env.close()


def _cores(count: int) -> list[int] | list[None]:
    """A core for each loop, or None where the system is to choose.

    It may wake two loops on one core and see that late, but with cores to spare it knows better
    which of them are halves of one.
    """
    usable = affinity()
    return usable if len(usable) == count else [None] * count


def _serve_loop(
    env_fn: Any, num_envs: int, start: int, stop: int, pipe: Any, barrier: Any, core: int | None
) -> None:
    try:
        if core is not None:
            # A sandbox may forbid it, and the core may be gone.
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, {core})
        loop = Loop(env_fn, num_envs, start, stop)
        pipe.send(0.0)
        while (steps := pipe.recv()) is not None:
            barrier.wait()
            pipe.send(loop.take(steps))
        loop.close()
    except Exception as error:
        barrier.abort()
        pipe.send(reason_of(error))
