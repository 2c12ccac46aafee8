"""Environments stepped side by side in worker processes."""

from __future__ import annotations

import atexit
import contextlib
import functools
import inspect
import multiprocessing
import weakref
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any

from gymnasium import Env, Space, logger
from gymnasium.core import ActType, ObsType
from gymnasium.vector.vector_env import AutoresetMode

from gymvec.system.limits import cpu_quota, usable_cores
from gymvec.utils import batch_space, create_empty_array
from gymvec.vector.arguments import autoreset_mode_of, check_options, positive, single_spaces
from gymvec.vector.calls import Calls
from gymvec.vector.copying import copy_value
from gymvec.vector.errors import StepTimeoutError
from gymvec.vector.parent.deadlines import TimedOut, deadline_after
from gymvec.vector.parent.death_policy import RestartingPool
from gymvec.vector.parent.observations import Observations, check_shareable
from gymvec.vector.parent.reports import check_reports
from gymvec.vector.parent.snapshots import Snapshots
from gymvec.vector.parent.worker_pool import WorkerPool
from gymvec.vector.pending import IDLE
from gymvec.vector.spaces import batched_observation_space
from gymvec.vector.transport.actions import bind_action_writer
from gymvec.vector.transport.memory import Layout
from gymvec.vector.whole import ResetStep

__all__ = ["AsyncVectorEnv"]

# By id: a subclass may have no hash.
_made: weakref.WeakValueDictionary[int, AsyncVectorEnv] = weakref.WeakValueDictionary()
# At exit, those whose calls are refused. A thread that lets go of one would end its workers, while
# its pool closes.
_refused: list[AsyncVectorEnv] = []

# What keeps the segment, besides the pool and what the caller has.
_ON_ARENA = (
    "_observations",
    "_next_batch",
    "_batch_of_copies",
    "_put_actions",
    "_batches",
    "_snapshots",
)


class AsyncVectorEnv(ResetStep[ObsType, ActType], Calls[ObsType, ActType]):
    """Vector environment that steps its sub-environments side by side, in worker processes.

    The twin of :class:`gymnasium.vector.AsyncVectorEnv`: the same contract, and the results of
    :class:`gymnasium.vector.SyncVectorEnv` to the bit. Observations, actions, rewards and flags
    go through shared memory; each worker has a slice of the environments.

    An exception of a sub-environment is raised as it is, with the worker's traceback as its
    cause; all workers live on, and :meth:`reset` works. If several environments fail in one
    call, the one with the lowest index is raised and its cause names the others. A worker that
    dies is a :class:`gymvec.WorkerDiedError`.

    With ``on_worker_death="restart"`` a worker that dies, or takes longer than
    ``step_timeout`` for the step or reset of one environment and so is killed, is replaced by a
    new process while the others go on:

    * A step ends the episodes of its environments where the caller saw them last: the last
      observation that was returned, reward 0, truncated, and ``infos["worker_restarted"]``.
      Then they are reset, without a seed, as the autoreset mode says: by the next step; in the
      same step, with ``final_obs`` and ``final_info`` (which has ``worker_restarted``, too); or
      by the caller's mask. Environments of the worker that were not stepped, since a mask or
      :meth:`send` left them out, hear of it with their next step. A reset takes its place.
    * A reset is made again within the call, with its seeds and options.
    * :meth:`call`, :meth:`get_attr`, :meth:`set_attr` and :meth:`render` are not: they raise a
      :class:`gymvec.WorkerDiedError` whose ``restarted`` is true, and the next call goes on.
      Nor is what they did before; the new environments are as their functions make them.
    * What a time-out drops, it drops: if that is the end of an episode, it is only logged.

    There is one warning for each restart. A worker that dies once more within a minute after
    three restarts ends it all with a :class:`gymvec.WorkerDiedError`. New processes are never
    forked, so the functions must be picklable (by cloudpickle), and the main module must be
    importable, as for the start methods ``"spawn"`` and ``"forkserver"``. Where the context
    forks, they come from a fork server, or are spawned.

    With ``batch_size`` below ``num_envs`` nobody waits for the slowest: :meth:`recv` returns
    the environments that are ready first, and :meth:`send` steps them on while the others are
    still at work. :meth:`reset` and :meth:`step` are then short for :meth:`async_reset` or
    :meth:`send`, and :meth:`recv`.

    It serves one call at a time. While one is under way, that of another thread is an
    ``AlreadyPendingCallError`` or a ``RuntimeError``, and so is one within it: of a signal
    handler, or of code of the caller's own that a call runs, such as the ``__array__`` of an
    action. The call under way goes on. Only :meth:`close` may be called always. Methods of a
    subclass that take the place of those here may call others.

    Attributes:
        num_envs: Number of sub-environments, ``n``.
        batch_size: Number of sub-environments in a batch; ``n`` unless told.
        num_workers: Number of worker processes.
        single_observation_space: Observation space of the first sub-environment.
        observation_space: Space of the batch of ``n`` observations.
        single_action_space: Action space of each sub-environment.
        action_space: Space of the batch of ``n`` actions.
        metadata: A copy of the first sub-environment's, with ``autoreset_mode``.
        render_mode: The first sub-environment's.
        spec: What recreates the vector environment, if ``make_vec`` made it.
        processes: The worker processes.
        observations: The latest batch; with ``copy=False`` what :meth:`step` returns.

    Example:
        >>> import gymnasium as gym
        >>> import gymvec
        >>> envs = gymvec.AsyncVectorEnv([lambda: gym.make("CartPole-v1")] * 3)
        >>> envs
        AsyncVectorEnv(num_envs=3)
        >>> observations, infos = envs.reset(seed=42)
        >>> observations, rewards, terminations, truncations, infos = envs.step([1, 0, 1])
        >>> rewards
        array([1., 1., 1.])
        >>> envs.close()

        Training on whichever four of eight are ready first:

        >>> import numpy as np
        >>> envs = gymvec.AsyncVectorEnv([lambda: gym.make("CartPole-v1")] * 8, batch_size=4)
        >>> returns = np.zeros(envs.num_envs)
        >>> envs.async_reset(seed=42)
        >>> for _ in range(100):
        ...     observations, rewards, terminations, truncations, infos = envs.recv()
        ...     returns[infos["env_id"]] += rewards
        ...     actions = envs.action_space.sample()  # a policy's, for these observations
        ...     envs.send(actions, infos["env_id"])
        >>> observations.shape, infos["env_id"].shape
        ((4, 4), (4,))
        >>> envs.close()
    """

    def __init__(
        self,
        env_fns: Sequence[Callable[[], Env]],
        shared_memory: bool = True,
        copy: bool = True,
        context: Any = None,
        daemon: bool = True,
        worker: Callable[..., None] | None = None,
        observation_mode: str | tuple[Space[Any], Space[Any]] = "same",
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        max_concurrency: int | None = None,
        *,
        num_workers: int | None = None,
        wait: str = "auto",
        cpu_affinity: Sequence[int] | None = None,
        start_timeout: float | None = None,
        observation_space: Space[Any] | None = None,
        action_space: Space[Any] | None = None,
        batch_size: int | None = None,
        on_worker_death: str = "raise",
        step_timeout: float | None = None,
    ) -> None:
        """Start the workers, which create the sub-environments.

        Args:
            env_fns: Functions without arguments that make one environment each.
            shared_memory: Whether observations go through shared memory. Leaves that cannot
                (Graph, Sequence, custom spaces) go by pipe; an observation of nothing else
                needs False.
            copy: Whether observations returned by :meth:`reset` and :meth:`step` are the
                caller's own, at every depth. If not, their arrays are views of one of two
                blocks of shared memory that take turns: what a call returned stays as it is
                through the next call, and the one after that overwrites it. :meth:`recv`
                always copies.
            context: A multiprocessing context or the name of its start method; None for the
                default.
            daemon: Whether the workers are daemonic, which must not have children.
            worker: Only None: a worker of the caller's own needs
                :class:`gymnasium.vector.AsyncVectorEnv`.
            observation_mode: ``"same"`` if all observation spaces are equal, ``"different"``
                if they share shape and dtype but not bounds, or a tuple of the batched and
                the single observation space.
            autoreset_mode: When an environment whose episode is over is reset; see
                https://farama.org/Vector-Autoreset-Mode.
            max_concurrency: Most environments that run at a time: an upper limit of the
                number of workers.
            num_workers: Number of processes, at most ``n``: of more than that a warning says
                that ``n`` are started. None for one a core that this process may use.
            wait: How both sides wait: ``"auto"`` spins for a moment and then sleeps, ``"spin"``
                never sleeps, ``"block"`` never spins.
            cpu_affinity: Cores to pin the workers to, in turn (Linux).
            start_timeout: Seconds for the construction of all environments; None for no limit.
            observation_space: Observation space of a single environment. With ``action_space``
                it saves building an environment in this process.
            action_space: Action space of a single environment.
            batch_size: How many environments :meth:`recv` waits for, at most ``n``; None for
                all. ``observation_space`` and ``action_space`` are those of such a batch; with
                ``observation_mode="different"``, where it matters which environments are in
                it, ``observation_space`` is that of all.
            on_worker_death: ``"raise"`` a :class:`gymvec.WorkerDiedError`, after which nothing
                but :meth:`close` works; or ``"restart"`` the worker, see the class.
            step_timeout: Seconds that a worker may take for the answer of one environment to a
                step or a reset; None for no limit. One that takes longer is killed and
                replaced with ``on_worker_death="restart"``; otherwise the call that waits
                raises a TimeoutError that names the environments (``env_indices``), which stay
                late. Looked at ten times a second.

        Raises:
            RuntimeError: The spaces of the sub-environments do not go together.
            TimeoutError: ``start_timeout`` is over.
            TypeError: A function cannot be pickled (it names the environment), an element
                of the ``observation_mode`` tuple is no space, or no part of the observation can
                lie in shared memory.
            ValueError: An argument has a value that is not among those above, an observation of
                custom spaces alone cannot lie in shared memory, several sub-environments of a
                worker are one object, or those with ``observation_mode="different"`` do not go
                together.
        """
        # Made a second time: nobody could end the workers of the first.
        self.__del__()
        # Until the end there is nothing to close.
        self.closed = True
        self._closing = False
        self._used_beside = False
        check_options(env_fns, worker, wait, cpu_affinity, on_worker_death, step_timeout)
        self.env_fns = env_fns
        self.on_worker_death = on_worker_death
        self.step_timeout = step_timeout
        self.shared_memory = shared_memory
        self.copy = copy
        self.context = context
        self.daemon = daemon
        self.worker = worker
        self.observation_mode = observation_mode
        self.autoreset_mode = autoreset_mode_of(autoreset_mode)
        self.max_concurrency = positive(max_concurrency, "max_concurrency")
        self.num_envs = len(env_fns)
        num_workers = positive(num_workers, "num_workers")
        if num_workers is not None and num_workers > self.num_envs:
            logger.warn(
                f"`num_workers={num_workers}` is more than there are environments: "
                f"{self.num_envs} workers are started, one for each environment.",
                stacklevel=2,
            )
        self.num_workers = min(
            self.num_envs,
            num_workers or usable_cores(),
            self.max_concurrency or self.num_envs,
        )
        self.batch_size = positive(batch_size, "batch_size") or self.num_envs
        if self.batch_size > self.num_envs:
            raise ValueError(
                f"`batch_size` must be at most the number of environments, {self.num_envs}, "
                f"got {batch_size}"
            )
        self._partial = self.batch_size < self.num_envs
        self._state = IDLE
        self.single_observation_space, self.single_action_space = single_spaces(
            env_fns, observation_mode, observation_space, action_space
        )
        if shared_memory:
            check_shareable(self.single_observation_space)

        # If Ctrl-C comes before there is a name for it, the workers end with their owner.
        self._pool = self._start(wait, cpu_affinity, start_timeout)
        try:
            reports = self._pool.reports(deadline_after(start_timeout))
            spaces = check_reports(self, reports)
            first = reports[0][2]
            self.metadata = {**first["metadata"], "autoreset_mode": self.autoreset_mode}
            self.render_mode = first["render_mode"]
            self.action_space = batch_space(self.single_action_space, self.batch_size)
            if observation_mode == "same":
                spaces = spaces[: self.batch_size]
            self.observation_space, _ = batched_observation_space(observation_mode, spaces)
            self._bind()
            _made[id(self)] = self
            self.closed = False
        except TimedOut:
            self._end(0.0)
            raise StepTimeoutError(
                f"the environments were not built within `start_timeout={start_timeout}` seconds"
            ) from None
        except BaseException:
            self._end(None)
            raise

    def _start(
        self, wait: str, cpu_affinity: Sequence[int] | None, start_timeout: float | None
    ) -> WorkerPool:
        quota = cpu_quota()
        if wait == "auto" and quota is not None and quota < self.num_workers + 1:
            # Time spent spinning would count against those who work.
            wait = "block"
        kind: Callable[..., WorkerPool] = WorkerPool
        if self.on_worker_death == "restart":
            kind = functools.partial(RestartingPool, start_timeout=start_timeout)
        return kind(
            self.env_fns,
            Layout(
                self.single_observation_space if self.shared_memory else None,
                self.single_action_space,
                self.num_envs,
                self.num_workers,
                num_sets=1 if self.copy or self._partial else 2,
            ),
            multiprocessing.get_context(self.context)
            if self.context is None or isinstance(self.context, str)
            else self.context,
            daemon=self.daemon,
            name=type(self).__name__,
            config={
                "observation_mode": self.observation_mode,
                "observation_space": self.single_observation_space,
                "action_space": self.single_action_space,
                "autoreset_mode": self.autoreset_mode,
                # Where there may be more workers.
                "measures_waiting": self.num_workers < (self.max_concurrency or self.num_envs),
            },
            wait=wait,
            polling=False,
            cores=cpu_affinity,
            step_timeout=self.step_timeout,
        )

    def _bind(self) -> None:
        """What a step uses, looked up once."""
        pool = self._pool
        self.processes = pool.workers.processes
        self._observations = Observations(
            self.single_observation_space,
            pool.layout,
            pool.segment,
            self.num_envs,
            self.batch_size,
        )
        self._snapshots = None
        if isinstance(pool, RestartingPool):
            self._snapshots = pool.snapshots = Snapshots(
                self._observations,
                self.single_observation_space,
                self.num_envs,
                self.shared_memory,
            )
        self.observations = (
            create_empty_array(self.single_observation_space, n=self.batch_size)
            if self._partial
            else self._observations.initial()
        )
        self._put_actions = bind_action_writer(pool.layout, pool.segment, self.action_space)
        self._bind_pending()
        self._bind_steps()
        self._bind_batches()

    @property
    def parent_pipes(self) -> list[Any]:
        """This process's ends of the pipes to the workers."""
        return [pipe.connection for pipe in self._pool.workers.pipes]

    def close(self, **kwargs: Any) -> None:
        """Close the sub-environments and end the workers. Always ends; a second call does nothing.

        The processes are ended at once where another thread is in a call, which then raises a
        ClosedEnvironmentError. Where the first was interrupted, the second does what was left.

        Args:
            **kwargs: ``timeout`` and ``terminate``, as for :meth:`close_extras`.

        Raises:
            Exception: What the first sub-environment raised whose ``close`` failed; all
                workers are gone nevertheless.
            TypeError: :meth:`close_extras` has no such argument; nothing was closed.
        """
        me = get_ident()
        if self.closed and self._is_gone():
            return
        try:
            inspect.signature(self.close_extras).bind(**kwargs)
        except TypeError as wrong:
            raise TypeError(f"{type(self).__name__}.close_extras() {wrong}") from None
        # Nothing is called from this look to the assignment: neither another thread nor Ctrl-C
        # comes between.
        if self._closer is not None:
            return
        self._closer = me
        try:
            # A call that is under way ends with an error, as soon as the workers have.
            used = self._refuse_calls()
            # Where it is true, the base class does nothing.
            self.closed = False
            super().close(**{**kwargs, "terminate": True} if used else kwargs)
        finally:
            self._closer, self.closed = None, True

    def _is_gone(self) -> bool:
        """Whether there is nothing left to close."""
        pool = self.__dict__.get("_pool")
        return pool is None or (pool.ended and self.__dict__.keys().isdisjoint(_ON_ARENA))

    def _refuse_calls(self) -> bool:
        """From now on refuse the calls of other threads. Whether one of them is in a call."""
        me = get_ident()
        used = self._used_beside or self._user not in (None, me, ~me)
        # Lent to a subclass's `close_extras`, which may make calls before the workers end.
        self._closing, self._user, self._used_beside = True, ~me, used
        return used

    def close_extras(self, timeout: float | None = None, terminate: bool = False) -> None:
        """Close the sub-environments and end the workers; :meth:`close` calls this.

        Args:
            timeout: Seconds for a pending call and for the environments to close, 5 if None.
                After that the processes are ended by SIGTERM and SIGKILL.
            terminate: End the processes at once.
        """
        self._user = get_ident()
        state, self._state = self._state, IDLE
        error = None
        try:
            if state is not IDLE:
                logger.warn(
                    f"Calling `close` while waiting for a pending call to `{state.value}` "
                    "to complete."
                )
        finally:
            # Also where warnings are errors.
            error = self._end(0.0 if terminate else timeout)
        if error is not None:
            try:
                raise error
            finally:
                # The error's traceback keeps this frame, which would keep the error.
                del error

    def _end(self, timeout: float | None) -> BaseException | None:
        try:
            return self._pool.close(timeout)
        finally:
            if not self.copy and "observations" in self.__dict__:
                # What is still on the segment after this is the caller's, or cannot be copied.
                with contextlib.suppress(Exception):
                    self.observations = copy_value(self.observations)
            for name in _ON_ARENA:
                self.__dict__.pop(name, None)

    def __del__(self) -> None:
        """End the workers of an environment that nobody closed."""
        pool = self.__dict__.get("_pool")
        if pool is not None:
            pool.close(0.0)
            self.closed = True


@atexit.register
def _refuse_all_calls() -> None:
    """Before the pools close at exit: a thread that is in a call, or begins one, is told."""
    _refused.extend(_made.values())
    used = [envs for envs in _refused if envs._refuse_calls()]
    for envs in used:
        # At once, as `close` does it.
        envs._pool.close(0.0)


def _name_after_public_class() -> None:
    """Let Python's TypeErrors, and pickles of methods, name the class that callers know."""
    for base in AsyncVectorEnv.__mro__[1:]:
        if base.__module__.startswith("gymvec."):
            for name, method in vars(base).items():
                if inspect.isfunction(method) and not name.startswith("_"):
                    for function in (method, inspect.unwrap(method)):
                        function.__module__ = AsyncVectorEnv.__module__
                        function.__qualname__ = f"{AsyncVectorEnv.__name__}.{name}"


_name_after_public_class()
