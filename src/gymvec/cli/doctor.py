"""``python -m gymvec doctor``: what gymvec finds on this machine, and whether it works here."""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import mmap
import multiprocessing
import os
import platform
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing import heap
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Tuple
from gymnasium.vector.utils import space_utils as theirs

import gymvec
from gymvec import utils
from gymvec.measuring.load import load, load_text
from gymvec.system.limits import cpu_quota, memory_limit, usable_cores
from gymvec.vector.transport import control
from gymvec.vector.transport.control_parent import Parent
from gymvec.vector.transport.control_worker import Worker
from gymvec.vector.transport.memory import Segment

__all__ = ["add_parser", "examine", "self_test"]

# What takes longer than this on any machine does not work.
_SECONDS = 30.0
_BELL_SECONDS = 10.0
# A wait of this length sleeps once or twice on a futex, and fifty times in naps.
_PROBE_SECONDS = 0.05
_PROBE_SLEEPS = 10
_ARENA_BYTES = 1 << 20


class Result(NamedTuple):
    """One part of the self-test; `error` is None where it went well."""

    name: str
    error: str | None


def add_parser(subparsers: Any) -> None:
    """Add the command ``doctor`` to the command line."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "doctor", help="say what gymvec finds on this machine, and whether it works"
    )
    parser.add_argument("--json", action="store_true", help="for programs to read")
    parser.set_defaults(func=_run)


def _run(arguments: argparse.Namespace) -> int:
    before = load()
    facts, results = examine(), self_test()
    loads = [before, load(average=False)]
    wrong = [result for result in results if result.error is not None]
    verdict = _verdict(wrong)
    if arguments.json:
        report = {
            "facts": facts,
            "load before and after": loads,
            "tests": [result._asdict() for result in results],
            "ok": not wrong,
            "verdict": verdict,
        }
        print(json.dumps(report, indent=2))
    else:
        width = max(map(len, facts)) + 2
        for name, value in facts.items():
            print(f"{name:{width}}{_shown(value)}")
        print(load_text(*loads))
        print(verdict)
    return 1 if wrong else 0


def _verdict(wrong: list[Result]) -> str:
    """One line."""
    if not wrong:
        return "gymvec works on this machine."
    others = ", ".join(result.name for result in wrong[1:])
    also = f" (also wrong: {others})" if others else ""
    return f"WRONG: {wrong[0].name}: {wrong[0].error}{also}"


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


# --- facts ------------------------------------------------------------------------------


def examine() -> dict[str, Any]:
    """What matters to gymvec on this machine: numbers, texts, lists, bools and None."""
    folder, size, free = _shared_memory()
    return {
        "usable cores": usable_cores(),
        "cores of the machine": os.cpu_count(),
        "cgroup quota, cores": cpu_quota(),
        "cgroup limit of memory, bytes": memory_limit(),
        "start method": multiprocessing.get_start_method(allow_none=True)
        or multiprocessing.get_all_start_methods()[0],
        "start methods": multiprocessing.get_all_start_methods(),
        "shared memory": folder,
        "its size, bytes": size,
        "free of it, bytes": free,
        "sleeps by": _sleeps_by(),
        "installed into gymnasium": gymvec.installed(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "gymnasium": gymnasium.__version__,
        "cloudpickle": _version("cloudpickle"),
        "gymvec": _version("gymvec"),
        "platform": platform.platform(),
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _shared_memory() -> tuple[str | None, int | None, int | None]:
    """Where an segment goes, the size of that file system and what is free of it."""
    for folder in (*getattr(heap.Arena, "_dir_candidates", ()), _temporary_folder()):
        with contextlib.suppress(OSError, AttributeError, TypeError):
            about = os.statvfs(folder)
            free = about.f_bavail * about.f_frsize
            if free >= _ARENA_BYTES or folder == _temporary_folder():
                return folder, about.f_blocks * about.f_frsize, free
    return None, None, None


def _temporary_folder() -> str | None:
    try:
        return tempfile.gettempdir()
    except OSError:
        return None  # There is none that can be written to.


def _sleeps_by() -> str:
    """Whether waiting sleeps on futexes. A sandbox may refuse what the platform has."""
    parent, worker, _ = _both_sides("block")
    parent.send_all(0)
    parent.wait(1, _PROBE_SECONDS)
    slept = parent.sleeps
    worker.close()
    parent.close()
    return "futex" if control.HAS_FUTEX and slept <= _PROBE_SLEEPS else "polling"


def _both_sides(wait: str) -> tuple[Parent, Worker, mmap.mmap]:
    header, queue = control.header_size(), control.queue_size(1)
    memory = mmap.mmap(-1, header + queue)
    parent = Parent(memory, 0, [(header, 1)], wait=wait)
    return parent, Worker(memory, 0, header, 1, wait=wait), memory


# --- self-test --------------------------------------------------------------------------


def self_test() -> list[Result]:
    """Try what gymvec stands on, the simple things first. Ends in any case."""
    results = []
    for name, test in _TESTS.items():
        try:
            test()
        except Exception as error:
            first, *_ = str(error).strip().splitlines() or [""]
            results.append(Result(name, f"{type(error).__name__}: {first}"))
        else:
            results.append(Result(name, None))
    return results


class _Wrong(Exception):
    """A result is not what it must be."""


def _check(condition: bool, text: str) -> None:
    if not condition:
        raise _Wrong(text)


_SPACE = Dict({"a": Box(-1, 1, (3,), np.float32), "b": Tuple([Discrete(4), Discrete(2)])})


def _test_functions() -> None:
    """gymvec.utils against Gymnasium's."""
    _SPACE.seed(1)
    items = [_SPACE.sample() for _ in range(4)]
    memory = utils.create_shared_memory(_SPACE, 4)
    for index, item in enumerate(items):
        utils.write_to_shared_memory(_SPACE, index, item, memory)
    empty: Any = theirs.create_empty_array(_SPACE, 4)
    ours_empty: Any = utils.create_empty_array(_SPACE, 4)
    expected = theirs.concatenate(_SPACE, items, empty)
    for batch in (
        utils.concatenate(_SPACE, items, ours_empty),
        utils.read_from_shared_memory(_SPACE, memory, 4),
    ):
        for ours, right in zip(_arrays(batch), _arrays(expected), strict=True):
            _check(
                ours.dtype == right.dtype and ours.tobytes() == right.tobytes(),
                "gymvec.utils and gymnasium.vector.utils differ; install gymvec anew",
            )


def _arrays(batch: Any) -> list[np.ndarray]:
    return [batch["a"], *batch["b"]]


def _test_install() -> None:
    with gymvec.installation():
        _check(gymvec.installed(), "gymvec.install() has no effect")


def _test_shared_memory() -> None:
    segment = Segment(_ARENA_BYTES)
    segment.buffer[_ARENA_BYTES - 1] = 1


def _test_control_words() -> None:
    """A round trip between two threads, asleep and awake."""
    for wait in ("block", "auto"):
        parent, worker, _ = _both_sides(wait)

        def answer(worker: Worker = worker) -> None:
            until = time.monotonic() + _BELL_SECONDS
            while time.monotonic() < until:
                if worker.wait(0.1):
                    env = worker.take()
                    if env >= 0:
                        worker.answer(env)
                        worker.take()
                        worker.flush()
                        return

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        parent.send_all(1)
        answers = parent.wait(1, _BELL_SECONDS)
        thread.join(_BELL_SECONDS)
        _check(answers == 1, f"no answer within {_BELL_SECONDS:.0f} seconds with wait={wait!r}")


class _Counts(gymnasium.Env[np.ndarray, np.int64]):
    """Observations count the steps."""

    def __init__(self) -> None:
        self.observation_space = Box(0, 100, (2,), np.float32)
        self.action_space = Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.count = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self.count += 1
        return np.full(2, self.count, np.float32), float(action), self.count >= 3, False, {"n": 1}


def _test_workers(context: str | None) -> None:
    """Environments in worker processes, against the same ones in this process."""
    fns: list[Callable[[], gymnasium.Env]] = [_Counts] * 3
    envs = gymvec.AsyncVectorEnv(fns, num_workers=2, context=context, start_timeout=_SECONDS)
    same = gymvec.SyncVectorEnv(fns)
    actions = np.array([0, 1, 1])
    try:
        envs.reset_async()
        _check_equal(envs.reset_wait(_SECONDS), same.reset())
        for _ in range(5):
            envs.step_async(actions)
            _check_equal(envs.step_wait(_SECONDS), same.step(actions))
    finally:
        same.close()
        envs.close()


def _check_equal(ours: tuple[Any, ...], right: tuple[Any, ...]) -> None:
    for one, other in zip(ours[:-1], right[:-1], strict=True):
        _check(
            np.array_equal(one, other),
            "environments in worker processes and in this process give different results",
        )


_TESTS: dict[str, Callable[[], None]] = {
    "shared memory": _test_shared_memory,
    "functions": _test_functions,
    "install": _test_install,
    "control words": _test_control_words,
    "worker processes": lambda: _test_workers(None),
    "spawned worker processes": lambda: _test_workers("spawn"),
}
