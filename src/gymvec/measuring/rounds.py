"""Measures backends in turn, each in a host of its own, so that what the machine does hits all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gymvec.measuring.backends import BACKENDS, Backend, Setting
from gymvec.measuring.hosts import Failure, Host

__all__ = [
    "Plan",
    "Pool",
    "Row",
    "close_subject",
    "estimate",
    "measured",
    "open_subject",
    "parts",
    "take",
]

# A pass of calibration is long enough once it takes this part of a round.
_CALIBRATION = 0.2
_CLOSE_SECONDS = 10.0


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    Attributes:
        rounds: Figures of each backend.
        seconds: What a figure is taken over.
        time_limit: Seconds that a backend may take to build its environments, or for a round.
        same_steps: Whether all backends take the same number of steps, with ``seconds`` their
            average, and not the same time.
    """

    rounds: int = 5
    seconds: float = 0.5
    time_limit: float = 60.0
    same_steps: bool = False


@dataclass
class Row:
    """What was measured of a backend with some number of environments.

    Attributes:
        backend: The backend's name.
        num_envs: Number of environments.
        workers: Its processes or threads; None where one does not choose.
        steps: Steps of a round.
        seconds: Seconds an environment step, one figure a round; empty if it failed.
        reason: Why it failed; None if it did not.
        unevenness: Of bare loops, by how much the slowest took longer than the mean, a factor a
            round. Their ``seconds`` are of the mean. Who steps all environments in lock-step
            waits for the slowest core.
    """

    backend: str
    num_envs: int
    workers: int | None
    steps: int = 0
    seconds: list[float] = field(default_factory=list)
    reason: str | None = None
    unevenness: list[float] = field(default_factory=list)


class Pool:
    """Hosts that wait for their next environments, so that each imports its packages once."""

    def __init__(self) -> None:
        self._idle: dict[tuple[str, int], Host] = {}

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *details: object) -> None:
        while self._idle:
            self._idle.popitem()[1].close()

    def take(self, backend: Backend, workers: int) -> Host:
        """A host that has measured this, or a new one, which is not waited for."""
        # A new one knows of nothing but its own imports, so that no backend sees another's.
        return self._idle.pop((backend.key, workers), None) or Host("spawn")

    def give_back(self, backend: Backend, workers: int, host: Host) -> None:
        """Keep a host whose environments are closed."""
        self._idle[backend.key, workers] = host


def measured(
    setting: Setting,
    subjects: Sequence[tuple[Backend, int]],
    plan: Plan,
    pool: Pool,
    tick: Callable[[str, int], None] = lambda name, parts: None,
) -> list[Row]:
    """Measure backends with some number of environments.

    Args:
        setting: The environment, and how many.
        subjects: Backends, each with its number of workers.
        plan: How much is measured.
        pool: Where hosts come from and go to.
        tick: Is told the name of a backend and how many of its :func:`parts` are done.

    Returns:
        A row a subject. One that fails has the reason in its row, and the others go on.
    """
    stages = [_Stage(backend, workers, setting, plan, pool, tick) for backend, workers in subjects]
    try:
        for stage in stages:
            stage.start()
        for stage in stages:
            stage.build()
        _set_steps([stage for stage in stages if stage.row.reason is None], plan)
        for _ in range(plan.rounds):
            for stage in stages:
                stage.play()
    except BaseException:
        for stage in stages:
            stage.mark_dead()
        raise
    for stage in stages:
        stage.close()
    return [stage.row for stage in stages]


def parts(plan: Plan) -> int:
    """How many times a subject ticks."""
    return plan.rounds + 1


class _Stage:
    """A subject, its host and its row."""

    def __init__(
        self,
        backend: Backend,
        workers: int,
        setting: Setting,
        plan: Plan,
        pool: Pool,
        tick: Callable[[str, int], None],
    ) -> None:
        self.row = Row(backend.name, setting.num_envs, workers if backend.has_workers else None)
        self._backend = backend
        self._workers = workers
        self._setting = Setting(**{**vars(setting), "workers": workers})
        self._plan = plan
        self._pool = pool
        self._tick = tick
        self._host: Host | None = None
        self._left = parts(plan)

    def start(self) -> None:
        """Start the host, without waiting for it."""
        if not self._backend.is_installed:
            self._fail(f"not installed: pip install {self._backend.distribution}")
            return
        try:
            self._host = self._pool.take(self._backend, self._workers)
        except Failure as failure:
            self._fail(str(failure))

    def build(self) -> None:
        """Build the environments and find out how long a step takes."""
        if self._host is None:
            return
        try:
            self._ask(open_subject, self._backend.key, self._setting)
            self.step_seconds = self._ask(estimate, self._plan.seconds * _CALIBRATION)
        except Failure as failure:
            self._fail(str(failure))
        else:
            self._done(1)

    def play(self) -> None:
        """Measure one figure."""
        if self._host is None:
            return
        steps = self.row.steps
        try:
            self._ask(take, steps // 10 + 1)
            seconds = self._ask(take, steps)
            unevenness = self._ask(unevenness_of)
        except Failure as failure:
            self._fail(str(failure))
        else:
            self.row.seconds.append(seconds / (steps * self.row.num_envs))
            if unevenness is not None:
                self.row.unevenness.append(unevenness)
            self._done(1)

    def close(self) -> None:
        """Close the environments, and end the host unless it can be used again."""
        if self._host is None:
            return
        try:
            self._host.ask(close_subject, limit=_CLOSE_SECONDS)
        except Failure:
            self._host.close()
        else:
            self._pool.give_back(self._backend, self._workers, self._host)
        self._host = None

    def mark_dead(self) -> None:
        """End the host, whatever it does."""
        if self._host is not None:
            self._host.close()
            self._host = None

    def _ask(self, function: Callable[..., Any], *args: Any) -> Any:
        assert self._host is not None
        return self._host.ask(function, *args, limit=self._plan.time_limit)

    def _fail(self, reason: str) -> None:
        self.row.reason = reason
        self.row.seconds = []
        self.mark_dead()
        self._done(self._left)

    def _done(self, count: int) -> None:
        self._left -= count
        self._tick(self.row.backend, count)


def _set_steps(stages: Iterable[_Stage], plan: Plan) -> None:
    stages = list(stages)
    if not stages:
        return
    mean = sum(stage.step_seconds for stage in stages) / len(stages)
    for stage in stages:
        step = mean if plan.same_steps else stage.step_seconds
        stage.row.steps = max(1, int(plan.seconds / step))


# --- what a host is asked ----------------------------------------------------------------


def open_subject(held: dict[str, Any], key: str, setting: Setting) -> float:
    """Build and reset the environments; the seconds that took."""
    begin = time.perf_counter()
    held["subject"] = BACKENDS[key].open(setting)
    return time.perf_counter() - begin


def estimate(held: dict[str, Any], seconds: float) -> float:
    """Seconds of a step, from as many as take ``seconds``, or one that takes longer."""
    steps, taken = 1, take(held, 1)
    while taken < seconds:
        steps *= 2
        taken = take(held, steps)
    return max(taken, 1e-9) / steps


def take(held: dict[str, Any], steps: int) -> float:
    """Take steps; the seconds they took."""
    seconds: float = held["subject"].take(steps)
    return seconds


def unevenness_of(held: dict[str, Any]) -> float | None:
    """By how much the slowest of several loops took longer than the mean; None without loops."""
    unevenness: float | None = getattr(held["subject"], "unevenness", None)
    return unevenness


def close_subject(held: dict[str, Any]) -> None:
    """Close the environments, if any are open."""
    subject = held.pop("subject", None)
    if subject is not None:
        subject.close()
