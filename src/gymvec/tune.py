"""Which vector environment suits an environment: measured within a bounded time."""

from __future__ import annotations

import inspect
import logging
import operator
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gymnasium import Env

from gymvec.system.limits import usable_cores
from gymvec.vector import AsyncVectorEnv

if TYPE_CHECKING:
    from gymvec.measuring.hosts import Failure, Host

__all__ = ["Choice", "Tuning", "autotune"]

_logger = logging.getLogger("gymvec")

# What an argument of AsyncVectorEnv asks for can only be had from it; those of both go to both.
_OF_BOTH = frozenset({"copy", "observation_mode", "autoreset_mode"})
# Processes have a price beside their time: memory, and an environment that debuggers do not see.
_WORTH_PROCESSES = 0.9
# Where other processes take cores, figures vary more, and async loses more when they take
# another one: a step in lock-step waits for the worker that lacks its core.
_WORTH_PROCESSES_IF_BUSY = 0.75
# Sleeping at once costs a wake-up a step, which little but a busy machine makes good for.
_WORTH_BLOCKING = 0.95
# Below this part of a step's time an environment waits, for a device or a server, rather than
# computes. Then more workers than cores may help, this many a core at most.
_WAITS = 0.3
_WAITING_WORKERS = 8
# What a figure is taken over, at least.
_SHORTEST = 0.02
# What handing a step to workers and waiting for them costs, with room to spare.
_HAND_OVER_SECONDS = 100e-6
# On a busy machine a worker may first have to wait for another process's time slice.
_HAND_OVER_SECONDS_IF_BUSY = 4e-3
# What of its time autotune looks at the load for, at most.
_LOAD_SECONDS = 0.1
_LOAD_SHARE = 1 / 20


@dataclass(frozen=True)
class Choice:
    """A way to step the environments, and what it takes.

    Attributes:
        mode: ``"sync"`` or ``"async"``.
        num_workers: Number of worker processes; None for ``"sync"``.
        wait: How both sides wait; None for ``"sync"``.
        microseconds: Microseconds an environment step; NaN if it was not measured.
    """

    mode: str
    num_workers: int | None
    wait: str | None
    microseconds: float

    def __str__(self) -> str:
        if self.mode == "sync":
            return "sync"
        workers = f"{self.num_workers} worker{'s' * (self.num_workers != 1)}"
        return f"async with {workers}, wait={self.wait!r}"


@dataclass(frozen=True)
class Tuning:
    """What :func:`autotune` found.

    Attributes:
        best: What was chosen.
        reason: Why, in one line.
        rows: What was measured, in the order it was; empty if there was no time for it.
        construct_seconds: Seconds that building and resetting one environment took; None if
            that was not over in time.
        step_seconds: Seconds of a step of one environment alone, its resets included; None if
            none was over in time.
        seconds: Seconds that all this took.
    """

    best: Choice
    reason: str
    rows: tuple[Choice, ...]
    construct_seconds: float | None
    step_seconds: float | None
    seconds: float


def autotune(
    env_fn: Callable[[], Env[Any, Any]],
    num_envs: int,
    *,
    seconds: float = 2.0,
    vector_kwargs: Mapping[str, Any] | None = None,
) -> Tuning:
    """Measure which vector environment takes the least time, with random actions.

    All of it happens in a process of its own and its children, which are gone afterwards. It
    is the rate without a learner that is measured: one that computes on the same cores leaves
    less to the workers. Environments that mostly wait, for a device or a server, are also tried
    with more workers than cores. ``wait="spin"`` is not tried, since it burns a core a process.

    An environment that fails is none of this function's business: the reason says so, and the
    choice is sync. Sync is preferred unless async takes less than nine tenths of its time. Where there is no
    time to build all environments, the step of a single one decides: async if the time that
    its workers save is more than handing steps over costs.

    If other processes take cores when autotune begins, the reason says so. Async then has to
    take less than three quarters of the time of sync, and handing steps over counts for more.

    Args:
        env_fn: Makes an environment. It has to be picklable with cloudpickle.
        num_envs: Number of environments.
        seconds: Most that it may take in all, up to a tenth of a second for ending processes.
        vector_kwargs: Arguments that the vector environment will have. ``num_workers`` and
            ``wait`` among them stay as they are, and ``context`` starts the measuring process.

    Returns:
        What was measured, and the best of it.

    Raises:
        TypeError: AsyncVectorEnv has no such argument, ``env_fn`` is no function, or ``num_envs``
            no integer.
        ValueError: ``num_envs`` or ``seconds`` is not positive, or ``batch_size`` is among the
            arguments: environments that are ready first are not compared with all.

    Example:
        >>> import gymnasium as gym
        >>> import gymvec
        >>> tuning = gymvec.autotune(lambda: gym.make("CartPole-v1"), num_envs=16)
        >>> tuning.best.mode in ("sync", "async")
        True
    """
    given = dict(vector_kwargs or {})
    if not callable(env_fn):
        raise TypeError(f"expected a function that makes an environment, got {env_fn!r}")
    num_envs = operator.index(num_envs)
    if num_envs < 1:
        raise ValueError(f"expected `num_envs` of at least 1, got {num_envs}")
    if not seconds > 0:
        raise ValueError(f"expected `seconds` above 0, got {seconds}")
    for name in given:
        if name not in _arguments():
            raise TypeError(f"AsyncVectorEnv has no argument {name!r}")
    if given.get("batch_size") not in (None, num_envs):
        raise ValueError(
            "with `batch_size` there is nothing to choose: only AsyncVectorEnv has it. Use "
            'vectorization_mode="async"'
        )
    return _Search(env_fn, num_envs, seconds, given).run()


def tuned(
    what: str,
    env_fn: Callable[[], Env[Any, Any]],
    num_envs: int,
    vector_kwargs: Mapping[str, Any],
    identity: Any,
) -> Choice:
    """The best of :func:`autotune`, measured once for all that are alike, and logged.

    Args:
        what: What the log calls the environment.
        env_fn: As of :func:`autotune`.
        num_envs: As of :func:`autotune`.
        vector_kwargs: As of :func:`autotune`.
        identity: What ``env_fn`` is made from. Two that pickle alike are the same; what
            cannot be pickled is measured each time.
    """
    key = _key(identity, num_envs, vector_kwargs)
    tuning = None if key is None else _tunings.get(key)
    again = tuning is not None
    if tuning is None:
        tuning = autotune(env_fn, num_envs, vector_kwargs=vector_kwargs)
        if key is not None:
            _tunings[key] = tuning
    how = "measured earlier" if again else f"measured in {tuning.seconds:.2f} s"
    envs = f"{num_envs} environment{'s' * (num_envs != 1)}"
    _logger.info("%s, %s: %s, since %s; %s", what, envs, tuning.best, tuning.reason, how)
    return tuning.best


_tunings: dict[bytes, Tuning] = {}


def _key(identity: Any, num_envs: int, vector_kwargs: Mapping[str, Any]) -> bytes | None:
    # Imported where it is needed: it takes a quarter of the time of importing gymvec.
    import cloudpickle

    try:
        key: bytes = cloudpickle.dumps((identity, num_envs, dict(vector_kwargs), usable_cores()))
    except Exception:
        return None
    return key


def arguments_of(choice: Choice, vector_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Those of ``vector_kwargs`` that the chosen class has, and what was chosen."""
    if choice.mode == "async":
        return {**vector_kwargs, "num_workers": choice.num_workers, "wait": choice.wait}
    return {name: value for name, value in vector_kwargs.items() if name in _OF_BOTH}


def _arguments() -> frozenset[str]:
    signature = inspect.signature(AsyncVectorEnv)
    return frozenset(signature.parameters) - {"env_fns"}


class _Search:
    """One call of :func:`autotune`."""

    def __init__(
        self,
        env_fn: Callable[[], Env[Any, Any]],
        num_envs: int,
        seconds: float,
        given: dict[str, Any],
    ) -> None:
        self._env_fn = env_fn
        self._num_envs = num_envs
        self._begin = time.monotonic()
        self._seconds = seconds
        self._given = given
        most = min(num_envs, given.get("num_workers") or usable_cores())
        self._workers = min(most, given.get("max_concurrency") or most)
        self._rows: list[Choice] = []
        self._construct: float | None = None
        self._step: float | None = None
        # For environments that wait; else 0.
        self._if_waiting = 0
        # Cores that other processes take, if they are so many that it matters; else 0.
        self._taken = 0.0

    def run(self) -> Tuning:
        from gymvec.measuring.hosts import Failure, Host
        from gymvec.measuring.load import is_busy, load

        # Before there is a host, which would count as another process.
        taken = load(min(_LOAD_SECONDS, self._seconds * _LOAD_SHARE))
        if taken is not None and is_busy(taken):
            self._taken = taken
        host = None
        try:
            host = Host(self._given.get("context"), stopped=False)
            problem: Failure | None = None
            self._look_at_one(host)
            for mode, workers, wait in self._candidates():
                if not self._has_time_for(workers):
                    break
                self._rows.append(self._measured(host, mode, workers, wait))
        except Failure as failure:
            # Its traceback keeps this frame, which would keep it.
            problem = failure.with_traceback(None)
        finally:
            if host is not None:
                host.close()
        best, reason = self._best(problem)
        return Tuning(
            best,
            reason,
            tuple(self._rows),
            self._construct,
            self._step,
            time.monotonic() - self._begin,
        )

    def _left(self) -> float:
        return self._seconds - (time.monotonic() - self._begin)

    def _ask(self, host: Host, function: Callable[..., Any], *args: Any) -> Any:
        return host.ask(function, *args, limit=max(self._left(), 0.0))

    def _look_at_one(self, host: Host) -> None:
        """Find out what building an environment and a step of it take."""
        from gymvec.measuring.rounds import close_subject
        from gymvec.vector.transport.env_registry import other_specs, register_missing

        self._ask(host, lambda held, specs: register_missing(specs), other_specs())
        self._construct = self._ask(host, _open_one, self._env_fn)
        if self._construct < self._left() / 4:
            # The first imports what the others find imported.
            self._ask(host, close_subject)
            self._construct = self._ask(host, _open_one, self._env_fn)
        self._step, waits = self._ask(host, _step_of_one, _SHORTEST)
        if waits and "num_workers" not in self._given:
            most = self._given.get("max_concurrency") or self._num_envs
            self._if_waiting = min(self._num_envs, most, _WAITING_WORKERS * usable_cores())
        self._ask(host, close_subject)

    def _candidates(self) -> Iterator[tuple[str, int, str]]:
        """What to measure next; what comes later depends on what was found."""
        yield "sync", 1, ""
        wait = self._given.get("wait", "auto")
        yield "async", self._workers, wait
        if self._if_waiting > self._workers:
            yield "async", self._if_waiting, wait
        elif "num_workers" not in self._given and self._workers > 2:
            yield "async", self._workers // 2, wait
        best = min(self._rows, key=lambda row: row.microseconds)
        if "wait" not in self._given and best.num_workers is not None:
            yield "async", best.num_workers, "block"

    def _has_time_for(self, workers: int) -> bool:
        assert self._construct is not None and self._step is not None
        # One after the other in each worker, and once more by who asks for the spaces.
        each = -(-self._num_envs // workers) + 1
        return each * (self._construct + 3 * self._step) + 2 * _SHORTEST < self._left() * 0.8

    def _measured(self, host: Host, mode: str, workers: int, wait: str) -> Choice:
        from gymvec.measuring.backends import Setting
        from gymvec.measuring.rounds import close_subject, estimate, open_subject

        choice = Choice("sync", None, None, 0.0)
        if mode == "async":
            choice = Choice("async", workers, wait, 0.0)
        kwargs = arguments_of(choice, self._given)
        setting = Setting(self._env_fn, self._num_envs, workers, vector_kwargs=kwargs)
        self._ask(host, open_subject, f"gymvec-{mode}", setting)
        step = self._ask(host, estimate, max(_SHORTEST, min(0.1, self._left() / 12)))
        self._ask(host, close_subject)
        return replace(choice, microseconds=step / self._num_envs * 1e6)

    def _best(self, problem: Failure | None) -> tuple[Choice, str]:
        from gymvec.measuring.hosts import OutOfTimeError

        sync = Choice("sync", None, None, float("nan"))
        if self._rows:
            sync, *parallel = self._rows
            if parallel:
                return self._faster(sync, min(parallel, key=_handicapped))
        if problem is not None and not isinstance(problem, OutOfTimeError):
            return sync, f"measuring failed ({problem})"
        return self._guess(sync, problem is not None)

    def _faster(self, sync: Choice, parallel: Choice) -> tuple[Choice, str]:
        best, other = sync, parallel
        worth = _WORTH_PROCESSES_IF_BUSY if self._taken else _WORTH_PROCESSES
        if parallel.microseconds < worth * sync.microseconds:
            best, other = parallel, sync
        reason = (
            f"it takes {best.microseconds:.3g} us an environment step and {other} takes "
            f"{other.microseconds:.3g}{self._busy()}"
        )
        if self._taken:
            reason += f", so async has to take less than {worth} of the time of sync"
        return best, reason

    def _busy(self) -> str:
        if not self._taken:
            return ""
        return (
            f"; the machine is busy (other processes take {self._taken:.1f} of {usable_cores()} "
            "cores)"
        )

    def _guess(self, sync: Choice, ran_out: bool) -> tuple[Choice, str]:
        """What to take where there was no time to measure it."""
        workers = max(self._workers, self._if_waiting)
        parallel = Choice("async", workers, self._given.get("wait", "auto"), float("nan"))
        limit = f"the {self._seconds:.3g} s there are"
        if self._construct is None or self._step is None:
            what = "building one environment" if self._construct is None else "one step"
            reason = f"{what} takes longer than {limit}{self._busy()}"
            return sync if workers == 1 else parallel, reason
        saved = self._num_envs * self._step * (1 - 1 / workers)
        each = f"building one takes {self._construct:.3g} s and a step of it {self._step:.3g} s"
        what = "measuring" if ran_out else f"building {self._num_envs} environments"
        hand_over = _HAND_OVER_SECONDS_IF_BUSY if self._taken else _HAND_OVER_SECONDS
        return parallel if saved > hand_over else sync, (
            f"{each}, and {what} takes longer than {limit}{self._busy()}"
        )


def _handicapped(row: Choice) -> float:
    return row.microseconds / (_WORTH_BLOCKING if row.wait == "block" else 1.0)


# --- what the host is asked --------------------------------------------------------------


def _open_one(held: dict[str, Any], env_fn: Callable[[], Env[Any, Any]]) -> float:
    from gymvec.measuring.workloads import Loop

    begin = time.perf_counter()
    held["subject"] = Loop(env_fn, 1, 0, 1)
    return time.perf_counter() - begin


def _step_of_one(held: dict[str, Any], seconds: float) -> tuple[float, bool]:
    """Seconds of a step, and whether the environment waits for most of them."""
    from gymvec.measuring.rounds import estimate

    begin, busy, (yielded, taken) = time.perf_counter(), time.process_time(), _switches()
    step = estimate(held, seconds)
    computes = (time.process_time() - busy) / (time.perf_counter() - begin)
    # On a machine that others use too, a process lacks a core that it did not give up.
    now = _switches()
    return step, computes < _WAITS and now[0] - yielded >= now[1] - taken


def _switches() -> tuple[int, int]:
    """How often this process gave up its core, and how often that was taken away."""
    try:
        import resource
    except ImportError:  # Windows
        return 0, 0
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_nvcsw, usage.ru_nivcsw
