"""Environments stepped side by side in worker processes."""

from __future__ import annotations

import atexit
import contextlib
import inspect
import multiprocessing
import weakref
from collections.abc import Callable, Iterable, Sequence
from threading import get_ident
from types import SimpleNamespace
from typing import Any, NoReturn, ParamSpec, TypeVar, cast

import numpy as np
from gymnasium import Env, Space, logger
from gymnasium.core import ActType, ObsType, RenderFrame
from gymnasium.error import AlreadyPendingCallError, ClosedEnvironmentError, NoAsyncCallError
from gymnasium.vector.async_vector_env import AsyncState
from gymnasium.vector.vector_env import AutoresetMode, VectorEnv

from gymvec.system.limits import cpu_quota, usable_cores
from gymvec.utils import batch_space, create_empty_array
from gymvec.vector.arguments import (
    StepReturn,
    autoreset_mode_of,
    check_none_missing,
    check_options,
    checked_env_ids,
    one_value_each,
    positive,
    reset_mask,
    reset_seeds,
    single_spaces,
)
from gymvec.vector.copying import copy_value, own_action
from gymvec.vector.errors import StepTimeoutError, WorkerDiedError
from gymvec.vector.exclusive import bare, ending, exclusive, in_use
from gymvec.vector.parent.deadlines import TimedOut, deadline_after
from gymvec.vector.parent.death_policy import RestartOnDeath, check_replaceable
from gymvec.vector.parent.fast_step import DONE, SENT, CallGate
from gymvec.vector.parent.observations import Observations, check_shareable
from gymvec.vector.parent.ready_first import Batches
from gymvec.vector.parent.replies import Replies
from gymvec.vector.parent.reports import check_reports
from gymvec.vector.parent.snapshots import Snapshots
from gymvec.vector.parent.worker_pool import WorkerPool
from gymvec.vector.spaces import batched_observation_space
from gymvec.vector.transport.actions import bind_action_writer, split_actions
from gymvec.vector.transport.control import SECOND_SET
from gymvec.vector.transport.exceptions import WorkerTraceback, unpack_error
from gymvec.vector.transport.memory import Layout
from gymvec.vector.transport.messages import Command, dumps

__all__ = ["AsyncVectorEnv"]

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

# Before Python 3.12 looking up a member of an enumeration takes as long as collecting a step.
_IDLE = AsyncState.DEFAULT
_STEPPING = AsyncState.WAITING_STEP
_DISABLED = AutoresetMode.DISABLED
_STEP = Command.STEP

# What `call` must not be used for.
_OWN_METHODS = ("reset", "step", "close", "_setattr", "_check_spaces")

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


class AsyncVectorEnv(VectorEnv[ObsType, ActType, np.ndarray]):
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

    With ``batch_size`` below ``num_envs`` no call waits for the slowest: :meth:`recv` returns
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

    # The thread that is in a call, or ~ of it while that has lent itself to a method of a
    # subclass; and whether `close` was called.
    _user: int | None = None
    _closing: bool = False
    # The thread that is closing now, and whether another one was in a call then.
    _closer: int | None = None
    _used_beside: bool = False

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
        # Made a second time: nothing else could end the workers of the first.
        self.__del__()
        # Until the end there is nothing to close.
        self.closed = True
        self._gate = CallGate(_IDLE, _STEPPING)
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
        self.single_observation_space, self.single_action_space = single_spaces(
            env_fns, observation_mode, observation_space, action_space
        )
        if shared_memory:
            check_shareable(self.single_observation_space)

        # If Ctrl-C comes before there is a name for it, the workers end with their owner.
        self._pool = self._start(wait, cpu_affinity)
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
            self._bind(start_timeout)
            _made[id(self)] = self
            self.closed = self._gate.closed = False
        except TimedOut:
            self._end(0.0)
            raise StepTimeoutError(
                f"the environments were not built within `start_timeout={start_timeout}` seconds"
            ) from None
        except BaseException:
            self._end(None)
            raise

    def _start(self, wait: str, cpu_affinity: Sequence[int] | None) -> WorkerPool:
        quota = cpu_quota()
        if wait == "auto" and quota is not None and quota < self.num_workers + 1:
            # Time spent spinning would count against those who work.
            wait = "block"
        layout = Layout(
            self.single_observation_space if self.shared_memory else None,
            self.single_action_space,
            self.num_envs,
            self.num_workers,
            num_sets=1 if self.copy or self._partial else 2,
        )
        config = {
            "observation_mode": self.observation_mode,
            "observation_space": self.single_observation_space,
            "action_space": self.single_action_space,
            "autoreset_mode": self.autoreset_mode,
            # Where there may be more workers.
            "measures_waiting": self.num_workers < (self.max_concurrency or self.num_envs),
        }
        context = self._start_context()
        if self.on_worker_death == "restart":
            check_replaceable(self.env_fns, layout, context, config)
        return WorkerPool(
            self.env_fns,
            layout,
            context,
            self._gate,
            daemon=self.daemon,
            name=type(self).__name__,
            config=config,
            wait=wait,
            polling=False,
            cores=cpu_affinity,
            step_timeout=self.step_timeout,
        )

    def _start_context(self) -> Any:
        """The multiprocessing context of the first workers."""
        if self.context is None or isinstance(self.context, str):
            return multiprocessing.get_context(self.context)
        return self.context

    def _bind(self, start_timeout: float | None) -> None:
        """What the calls use."""
        pool = self._pool
        self.processes = pool.workers.processes
        self._observations = Observations(
            self.single_observation_space,
            pool.layout,
            pool.segment,
            self.num_envs,
            self.batch_size,
        )
        self._snapshots: Snapshots | None = None
        if self.on_worker_death == "restart":
            self._snapshots = Snapshots(
                self._observations,
                self.single_observation_space,
                self.num_envs,
                self.shared_memory,
            )
            pool.on_death = RestartOnDeath(self._start_context(), start_timeout, self._snapshots)
        self.observations = (
            create_empty_array(self.single_observation_space, n=self.batch_size)
            if self._partial
            else self._observations.initial()
        )
        self._put_actions = bind_action_writer(pool.layout, pool.segment, self.action_space)
        self._next_batch = self._observations.bound_batch(self.copy)
        self._batch_of_copies = self._observations.bound_batch_of_copies()
        self._adds_plainly = type(self)._add_info is AsyncVectorEnv._add_info
        self._gate.indirect = (
            self._partial
            or self.autoreset_mode is _DISABLED
            or type(self).step_async is not AsyncVectorEnv.step_async
            or type(self).step_wait is not AsyncVectorEnv.step_wait
        )
        # A call that is sent once late environments have answered, and what they are late with.
        self._deferred: tuple[Command, dict[int, bytes] | None, list[int] | None] | None = None
        self._timed_out_state = _IDLE
        self._was_reset = np.zeros(self.num_envs, dtype=np.bool_)
        # Environments that are sent to and that answer each by itself.
        self._batches = Batches(pool, self.num_envs, self.batch_size)
        self._batched_action_spaces: dict[int, Space[Any]] = {}
        self._resetting = np.zeros(self.num_envs, dtype=np.bool_)
        self._received: np.ndarray | None = None

    # --- reset ---

    @exclusive
    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[ObsType, dict[str, Any]]:
        """Reset the sub-environments, or some of them; see :meth:`reset_async`."""
        self._within(self.reset_async, seed=seed, options=options)
        return self._within(self.reset_wait)

    @exclusive
    def reset_async(
        self,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        """Begin to reset the sub-environments, or some of them.

        Args:
            seed: An integer of any type, from which environment ``i`` gets ``seed + i``; one
                integer or None each; or None.
            options: Handed to each reset. ``options["reset_mask"]``, a bool array of shape
                ``(n,)``, says which environments are reset; it is not handed on, and
                ``options`` stay as they were.

        Raises:
            AlreadyPendingCallError: Another call is pending.
            ClosedEnvironmentError: :meth:`close` was called.
            TypeError: The mask is no bool array.
            ValueError: The number of seeds is not ``n``, the mask has another shape, selects
                nothing, or leaves out an environment that was never reset.
        """
        if self._partial:
            self._within(self.async_reset, seed, options)
            return
        self._check_open()
        seeds = reset_seeds(seed, self.num_envs)
        self._check_idle("reset_async", end="")
        mask, options = reset_mask(options, self.num_envs)
        envs = None if mask is None else np.flatnonzero(mask).tolist()
        if mask is not None:
            check_none_missing(np.flatnonzero(~(self._was_reset | mask)).tolist())
        command, arguments = Command.RESET, None
        if seed is not None or options is not None:
            command = Command.RESET_WITH_MESSAGE
            arguments = {
                env: dumps({"seed": seeds[env], "options": options})
                for env in (range(self.num_envs) if envs is None else envs)
            }
            self._check_idle("reset_async", end="")
        self._begin(AsyncState.WAITING_RESET, command, arguments, envs)

    @exclusive
    def reset_wait(self, timeout: float | None = None) -> tuple[ObsType, dict[str, Any]]:
        """Wait for what :meth:`reset_async` began.

        Args:
            timeout: Seconds to wait; None for no limit.

        Returns:
            The batch of observations, also of environments that were left out, and the infos
            of those that were reset.

        Raises:
            ClosedEnvironmentError: :meth:`close` was called.
            NoAsyncCallError: :meth:`reset_async` was not called.
            TimeoutError: The time is over, and the call is no longer pending; see
                :meth:`step_wait`.
        """
        if self._partial:
            observations, *_, infos = self._within(self.recv, timeout)
            return observations, infos
        messages = self._collect(AsyncState.WAITING_RESET, "reset_wait", "reset_async", timeout)
        return self._returned(messages)

    # --- step ---

    def step(self, actions: ActType, env_ids: Any = None) -> StepReturn[ObsType]:
        """Take one step in each sub-environment; see :meth:`step_async` and :meth:`step_wait`.

        With ``env_ids``, or with ``batch_size`` below ``num_envs``, this is :meth:`send` and
        :meth:`recv`.
        """
        me = get_ident()
        user = self._user
        if user is not None and user != ~me:
            self._refuse("step")
        # As in `exclusive`, which would add a tenth to the parent's instructions of a step.
        self._user = me
        try:
            if env_ids is None and not self._gate.is_shut:
                outcome = self._pool.step(self._put_actions, actions)
                if outcome == DONE:
                    return self._finished()
                if outcome == SENT:
                    return self._collected_step(None)
            if self._partial or env_ids is not None:
                self._send_actions(actions, env_ids, least=self.batch_size)
                return self._within(self.recv)
            self._within(self.step_async, actions)
            return self._within(self.step_wait)
        except Exception as error:
            self._check_not_closed_meanwhile(error)
            raise
        finally:
            self._user = user

    @exclusive
    def step_async(self, actions: ActType) -> None:
        """Begin to step the sub-environments.

        Args:
            actions: A batch of ``n`` actions, which may be changed as soon as this returns.
                Each environment gets what :func:`gymvec.utils.iterate` yields; arrays are
                C-contiguous, native and its own.

        Raises:
            AlreadyPendingCallError: Another call is pending.
            AssertionError: Autoreset is disabled and an episode is over. Nothing was stepped.
            ClosedEnvironmentError: :meth:`close` was called.
            ValueError: There are not ``n`` actions. Nothing was stepped.
        """
        if self._partial:
            self._within(self.send, actions)
            return
        pool, gate = self._pool, self._gate
        if gate.is_shut:
            self._check_open()
            self._check_idle("step_async")
            # Of late environments the workers know.
            if self.autoreset_mode is _DISABLED and not gate.timed_out:
                over = np.logical_or(*pool.results.collect()[1:])
                if over.any():
                    raise AssertionError(f"autoreset is disabled and episodes are over: {over}")
        # A late environment may not have read its last action yet.
        if not gate.timed_out and self._put_actions(actions, None):
            try:
                gate.state = _STEPPING
                pool.send_steps()
            except BaseException:
                # As in `_begin`.
                if not pool.doorbell.num_pending:
                    gate.state = _IDLE
                raise
        else:
            items = split_actions(self.action_space, actions, self.num_envs)
            arguments = {env: dumps(own_action(action)) for env, action in enumerate(items)}
            self._check_idle("step_async")
            self._begin(_STEPPING, Command.STEP_WITH_MESSAGE, arguments, None)

    @exclusive
    def step_wait(self, timeout: float | None = None) -> StepReturn[ObsType]:
        """Wait for what :meth:`step_async` began.

        Args:
            timeout: Seconds to wait; None for no limit.

        Returns:
            The batch of observations, rewards (float64, shape ``(n,)``), terminations and
            truncations (bool, shape ``(n,)``), and infos; all but the observations are always
            the caller's own.

        Raises:
            ClosedEnvironmentError: :meth:`close` was called.
            NoAsyncCallError: :meth:`step_async` was not called.
            TimeoutError: The time is over, and the call is no longer pending. The environments
                make their steps nevertheless, and the next call waits for their late answers
                and drops them. Only where they still were late with an earlier call, this one
                was not sent to them and never is; then the error says so.
        """
        if self._partial:
            return self._within(self.recv, timeout)
        if (
            timeout is None
            and self._gate.state is _STEPPING
            and self._deferred is None
            and self._pool.finish() == DONE
        ):
            return self._finished()
        return self._collected_step(timeout)

    def _collected_step(self, timeout: float | None) -> tuple[Any, ...]:
        """What a step returns whose answers have to be looked at one by one."""
        messages = self._collect(_STEPPING, "step_wait", "step_async", timeout)
        results = self._pool.results.collect()
        observations, infos = self._returned(messages)
        return observations, *results, infos

    def _finished(self) -> tuple[Any, ...]:
        """What a step returns that sent no message."""
        results, copies = self._pool.results.take()
        if not self.copy:
            self._observations.written(None)
        observations, infos = self._returned({}, copies)
        return observations, *results, infos

    # --- ready-first batches ---
    #
    # Names and order of arguments are those of EnvPool and of the Arcade Learning Environment.

    @exclusive
    def async_reset(
        self,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        """Begin to reset the sub-environments, or some of them, for :meth:`recv`.

        Without a mask every environment is reset. What those that are still at work answer is
        dropped: :meth:`recv` waits for it, within its own time-out, before it sends the reset.

        Args:
            seed: An integer of any type, from which environment ``i`` gets ``seed + i``; one
                integer or None each; or None.
            options: Handed to each reset. ``options["reset_mask"]``, a bool array of shape
                ``(num_envs,)``, says which environments are reset; it is not handed on.

        Raises:
            AlreadyPendingCallError: A call that waits for all environments is pending.
            ClosedEnvironmentError: :meth:`close` was called.
            TypeError: The mask is no bool array.
            ValueError: The number of seeds is not ``num_envs``; the mask has another shape,
                selects nothing, or an environment that has not been received since it was
                sent to.
        """
        self._check_open()
        seeds = reset_seeds(seed, self.num_envs)
        self._check_not_waiting("async_reset")
        mask, options = reset_mask(options, self.num_envs)
        envs = np.arange(self.num_envs) if mask is None else np.flatnonzero(mask)
        batches = self._batches
        if mask is not None:
            self._check_received(envs)
        arguments = None
        if seed is not None or options is not None:
            arguments = {
                env: dumps({"seed": seeds[env], "options": options}) for env in envs.tolist()
            }
            self._check_not_waiting("async_reset")
        command = Command.RESET if arguments is None else Command.RESET_WITH_MESSAGE
        # Before it is sent, since Ctrl-C may come after that.
        self._resetting[envs] = True
        if mask is None and (self._pool.busy or batches.any_busy):
            batches.defer(command, arguments)
        else:
            if self._pool.gate.timed_out:
                self._drop_timed_out_to_send("async_reset")
            batches.send(command, arguments, envs)

    @exclusive
    def send(self, actions: Any, env_ids: Any = None) -> None:
        """Begin to step some sub-environments, for :meth:`recv`.

        Args:
            actions: A batch of as many actions as there are environments, which may be changed
                as soon as this returns.
            env_ids: The environment that each action is for, integers of any type, in any
                order. None for the environments that :meth:`recv` returned last.

        Raises:
            AlreadyPendingCallError: A call that waits for all environments is pending.
            AssertionError: Autoreset is disabled and an episode is over. Nothing was stepped.
            ClosedEnvironmentError: :meth:`close` was called.
            TypeError: ``env_ids`` are no integers.
            ValueError: An environment is unknown, named twice, or has not been received since
                it was sent to; or there are more or fewer actions than environments. Nothing
                was stepped.
        """
        self._send_actions(actions, env_ids, least=0)

    def _send_actions(self, actions: Any, env_ids: Any, least: int) -> None:
        self._check_open()
        if env_ids is None:
            env_ids = np.arange(self.num_envs) if self._received is None else self._received
        envs = checked_env_ids(env_ids, self.num_envs)
        self._check_not_waiting("send")
        self._check_received(envs)
        busy = np.count_nonzero(self._batches.busy) + len(envs)
        if busy < least:
            raise ValueError(
                f"expected so many environments in `env_ids` that {least} are at work, got {busy}"
            )
        if self._pool.gate.timed_out:
            self._drop_timed_out_to_send("send")
        if self.autoreset_mode is _DISABLED:
            ascending = np.sort(envs)
            over = np.logical_or(*self._pool.results.gather(ascending)[1:])
            if over.any():
                raise AssertionError(
                    "autoreset is disabled and episodes are over of environments "
                    f"{ascending[over].tolist()}"
                )
        if self._put_actions(actions, envs):
            self._batches.send(_STEP, None, envs)
            return
        items = split_actions(self._actions_of(len(envs)), actions, len(envs))
        arguments = {
            env: dumps(own_action(action)) for env, action in zip(envs.tolist(), items, strict=True)
        }
        self._check_not_waiting("send")
        self._batches.send(Command.STEP_WITH_MESSAGE, arguments, envs)

    @exclusive
    def recv(self, timeout: float | None = None) -> StepReturn[Any]:
        """Wait for the ``batch_size`` sub-environments that are ready first.

        No environment waits forever while others are fast: answers are taken from each worker
        in the order in which they were given, and from another worker first each time.

        Args:
            timeout: Seconds to wait; None for no limit.

        Returns:
            Observations, rewards (float64), terminations and truncations (bool) and infos of
            ``batch_size`` environments, in arrays that are the caller's own.
            ``infos["env_id"]``, an int64 array that ascends, says which environments they are.
            A reset has reward 0 and neither flag.

        Raises:
            AlreadyPendingCallError: A call that waits for all environments is pending.
            ClosedEnvironmentError: :meth:`close` was called.
            NoAsyncCallError: Fewer than ``batch_size`` environments were sent to.
            TimeoutError: The time is over. Nothing is lost: :meth:`recv` can be called again.
            WorkerDiedError: A worker died.
            Exception: What a sub-environment raised; ``error.__cause__.env_ids`` says which.
                It may be sent to again; what the others answered stays for the next call.
                Or what came of observations or infos that do not go together, such as arrays
                of unequal shapes; then these are all environments of the batch.
        """
        self._check_open()
        self._check_not_waiting("recv")
        batches = self._batches
        busy = np.count_nonzero(batches.busy)
        if busy < self.batch_size:
            raise NoAsyncCallError(
                f"Calling `recv`, which waits for {self.batch_size} environments, when {busy} "
                "were sent to by `async_reset` and `send`.",
                "recv",
            )
        deadline = deadline_after(timeout)
        self._pool.timed = True
        try:
            if self._pool.gate.timed_out:
                self._drop_timed_out(deadline)
            if batches.deferred:
                batches.begin_deferred(deadline)
            envs = batches.take(deadline)
            messages, infos_by_message = self._open_messages(envs)
        except TimedOut as late:
            raise late.error("recv", timeout) from None
        for env, others in messages.items():
            self._observations.keep(env, others)
        self._observations.written(envs)
        self._was_reset[envs] |= self._resetting[envs]
        self._resetting[envs] = False
        try:
            slots = batches.slots_of(envs)
            infos = (
                slots.gather(infos_by_message, None)
                if self._adds_plainly
                else self._add_each(slots.items(infos_by_message, None))
            )
            observations = self._observations.some(envs)
        except Exception as error:
            # A second wait would raise the same.
            batches.release(envs.tolist())
            text = f"The answers of environments {envs.tolist()} do not make a batch.\n"
            raise error from WorkerTraceback(text, envs.tolist())
        rewards, terminations, truncations = self._pool.results.gather(envs)
        if self._snapshots is not None:
            self._snapshots.note(envs)
        infos["env_id"] = envs
        infos["_env_id"] = np.ones(self.batch_size, dtype=np.bool_)
        self._received = envs.copy()
        self.observations = observations
        batches.release(envs.tolist())
        return observations, rewards, terminations, truncations, infos

    # --- the environments' own methods and attributes ---

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The seed of each sub-environment's generator."""
        return self.get_attr("np_random_seed")

    @property  # type: ignore[misc]
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        """A copy of the random number generator of each sub-environment."""
        return self.get_attr("np_random")

    @exclusive
    def render(self) -> tuple[RenderFrame, ...] | None:
        """The rendered frames of the sub-environments."""
        return self._within(self.call, "render")

    @exclusive
    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of each sub-environment, or get its attribute; see :meth:`call_async`."""
        self._within(self.call_async, name, *args, **kwargs)
        return self._within(self.call_wait)

    @exclusive
    def call_async(self, name: str, /, *args: Any, **kwargs: Any) -> None:
        """Begin to call a method of each sub-environment, or to get its attribute.

        Args:
            name: Name, looked up through the wrappers.
            *args: Arguments of the method; each environment gets copies.
            **kwargs: Keyword arguments of the method.

        Raises:
            AlreadyPendingCallError: Another call is pending.
            ClosedEnvironmentError: :meth:`close` was called.
            ValueError: ``name`` has a method of its own here, such as ``step``.
        """
        self._check_open()
        self._check_idle("call_async")
        if name in _OWN_METHODS:
            raise ValueError(
                f"Trying to call function `{name}` with `call`, use `{name}` directly instead."
            )
        argument = dumps((name, args, kwargs))
        self._check_idle("call_async")
        if self._partial:
            self._settle()
        arguments = dict.fromkeys(range(self.num_envs), argument)
        self._begin(AsyncState.WAITING_CALL, Command.CALL, arguments, None)

    @exclusive
    def call_wait(self, timeout: float | None = None) -> tuple[Any, ...]:
        """Wait for what :meth:`call_async` began.

        Args:
            timeout: Seconds to wait; None for no limit.

        Returns:
            One result an environment.

        Raises:
            ClosedEnvironmentError: :meth:`close` was called.
            NoAsyncCallError: :meth:`call_async` was not called.
            TimeoutError: The time is over, and the call is no longer pending; see
                :meth:`step_wait`.
        """
        messages = self._collect(AsyncState.WAITING_CALL, "call_wait", "call_async", timeout)
        # Nothing comes of a `set_attr` whose wait was interrupted.
        results = tuple([messages.get(env) for env in range(self.num_envs)])
        self._gate.state = _IDLE
        return results

    @exclusive
    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Get an attribute of each sub-environment, looked up through the wrappers."""
        return self._within(self.call, name)

    @exclusive
    def set_attr(self, name: str, values: list[Any] | tuple[Any, ...] | object) -> None:
        """Set an attribute of each sub-environment.

        Args:
            name: Name; set on the outermost wrapper that has it.
            values: A list or tuple with one value an environment, or one value for all; each
                environment gets a copy.

        Raises:
            AlreadyPendingCallError: Another call is pending.
            ClosedEnvironmentError: :meth:`close` was called.
            ValueError: The length of the list or tuple is not ``n``.
        """
        self._check_open()
        values = one_value_each(values, self.num_envs)
        self._check_idle("set_attr")
        arguments = {env: dumps((name, value)) for env, value in enumerate(values)}
        self._check_idle("set_attr")
        if self._partial:
            self._settle()
        self._begin(AsyncState.WAITING_CALL, Command.SET_ATTR, arguments, None)
        self._collect(AsyncState.WAITING_CALL, "set_attr", "set_attr", None)
        self._gate.state = _IDLE

    @property
    def _state(self) -> AsyncState:
        """The call of all environments that is under way, under Gymnasium's name."""
        return self._gate.state

    @property
    def parent_pipes(self) -> list[Any]:
        """This process's ends of the pipes to the workers."""
        return [pipe.connection for pipe in self._pool.workers.pipes]

    # --- close ---

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
            self._closer, self.closed, self._gate.closed = None, True, True

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
        state, self._gate.state = self._gate.state, _IDLE
        error = None
        try:
            if state is not _IDLE:
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
        """End the workers of an environment that was not closed."""
        pool = self.__dict__.get("_pool")
        if pool is not None:
            pool.close(0.0)
            self.closed = True

    # --- one call at a time ---

    def _check_open(self) -> None:
        if self.closed:
            raise self._closed_error()
        self._pool.check_usable()

    def _closed_error(self) -> ClosedEnvironmentError:
        return ClosedEnvironmentError(
            f"Trying to operate on `{type(self).__name__}`, after a call to `close()`."
        )

    def _check_not_closed_meanwhile(self, error: Exception) -> None:
        """Where a call failed: by a `close` of another thread, which takes all from under it?"""
        if not self._closing:
            return
        self._pool.let_go()
        if not isinstance(error, ClosedEnvironmentError):
            raise self._closed_error() from error

    def _refuse(self, name: str) -> NoReturn:
        """Say why a method cannot be called now: another call is under way."""
        if self._closing:
            raise self._closed_error()
        self._check_not_waiting(name, ending(self._user))
        raise in_use(name, self._user)

    def _within(
        self,
        method: Callable[Arguments, Result],
        /,
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result:
        """Call a method of this object as a part of the call that is under way.

        Where a subclass has its own, the call is lent to that: it may call others in its turn.
        """
        function = bare(method)
        if function is not None:
            return function(self, *args, **kwargs)
        user = get_ident()
        self._user = ~user
        try:
            return method(*args, **kwargs)
        finally:
            self._user = user

    def _check_not_waiting(self, name: str, end: str = ".") -> None:
        if self.closed:
            # By code of the caller's own that ran since the call began.
            self._check_open()
        if self._gate.state is not _IDLE:
            raise _already_pending(name, str(self._gate.state.value), end)

    def _check_idle(self, name: str, end: str = ".") -> None:
        self._check_not_waiting(name, end)
        if self._gate.ready_first and not self._partial:
            raise _already_pending(name, "send", end)

    # --- a call of all environments ---

    def _begin(
        self,
        state: AsyncState,
        command: Command,
        arguments: dict[int, bytes] | None,
        envs: list[int] | None,
    ) -> None:
        """Send a command, or keep it until late environments have answered."""
        pool = self._pool
        try:
            self._gate.state = state
            if pool.gate.timed_out:
                # Within the time-out of the wait that follows.
                self._deferred = (command, arguments, envs)
            else:
                pool.send(command, arguments, envs)
        except BaseException:
            # Ctrl-C may have come after the command was sent. Nothing is called here, so that a
            # second one cannot come between.
            if self._deferred is None and (pool.gate.timed_out or not pool.doorbell.num_pending):
                self._gate.state = _IDLE
            raise

    def _collect(
        self, state: AsyncState, name: str, begin: str, timeout: float | None
    ) -> dict[int, Any]:
        """Wait for the answers of a pending call; the messages that came with them.

        The call stays pending until its caller has all that it returns; so what interrupts it,
        above all Ctrl-C, loses nothing.
        """
        self._check_open()
        if self._gate.state is not state:
            raise NoAsyncCallError(
                f"Calling `{name}` without any prior call to `{begin}`.", state.value
            )
        pool = self._pool
        deadline = deadline_after(timeout)
        pool.timed = state is not AsyncState.WAITING_CALL
        try:
            if self._deferred is not None:
                if pool.gate.timed_out:
                    self._drop_timed_out(deadline)
                if not pool.busy:
                    pool.send(*self._deferred)
                self._deferred = None
            answers = pool.collect(deadline)
        except TimedOut as late:
            sent = self._deferred is None
            if sent:
                self._timed_out_state = state
            self._deferred = None
            self._gate.state = _IDLE
            pool.gate.timed_out = True
            raise late.error(name, timeout, sent) from None
        except WorkerDiedError:
            self._deferred = None
            self._gate.state = _IDLE
            raise
        self._take(state, answers)
        error = answers.error
        if error is not None:
            self._gate.state = _IDLE
            try:
                raise error
            finally:
                # The error's traceback keeps this frame, which would keep the error.
                del error
        return answers.messages

    def _drop_timed_out(self, deadline: float | None) -> None:
        """Wait for environments that are late with another call."""
        self._take(self._timed_out_state, self._pool.collect(deadline))
        # Not before: where Ctrl-C has come between, the same is taken once more.
        self._pool.gate.timed_out = False

    def _take(self, state: AsyncState, answers: Replies) -> None:
        """Note where the environments are now, also after a call that failed or came late."""
        if state is AsyncState.WAITING_RESET:
            for env in self._pool.recipients:
                if env not in answers.failures:
                    self._was_reset[env] = True
        if state is not AsyncState.WAITING_CALL:
            if not self.copy:
                self._observations.written(
                    set(self._pool.recipients) - set(answers.failures)
                    if answers.failures
                    else self._pool.sent
                )
            for env, (others, _) in answers.messages.items():
                if others:
                    self._observations.keep(env, others)

    def _returned(
        self, messages: dict[int, Any], copies: Sequence[np.ndarray] = ()
    ) -> tuple[Any, dict[str, Any]]:
        """Observations and infos of a call whose answers were taken; it ends here.

        Args:
            messages: What came by message.
            copies: Those of all blocks, if they were made already.
        """
        try:
            observations = self._batch_of_copies(copies) if copies else self._next_batch()
            infos = self._infos(messages)
        except Exception:
            # A second wait would raise the same.
            self._gate.state = _IDLE
            raise
        if self._snapshots is not None:
            self._snapshots.note(None)
        self.observations = observations
        if self.copy:
            self._gate.state = _IDLE
        else:
            target = self._observations.next_target
            set_flag = SECOND_SET if target else 0
            # All at once, as far as Ctrl-C can tell: nothing is called between these.
            self._gate.state, self._observations.target = _IDLE, target
            self._pool.set_flag = set_flag
        return observations, infos

    def _infos(self, messages: dict[int, Any]) -> dict[str, Any]:
        slots = self._pool.info_slots
        # Most steps have no messages, and before Python 3.12 making an empty dict by a comprehension
        # takes longer than all the rest of this.
        by_message = messages and {env: infos for env, (_, infos) in messages.items() if infos}
        if self._adds_plainly:
            return slots.gather(by_message, self._pool.sent)
        return self._add_each(slots.items(by_message, self._pool.sent))

    def _add_info(
        self, vector_infos: dict[str, Any], env_info: dict[str, Any], env_num: int
    ) -> dict[str, Any]:
        """Gymnasium's rule, with arrays of as many elements as a batch has environments.

        A subclass may have its own. It is called once for each info of the call, in order;
        ``env_num`` is the position in the batch, which with ``batch_size`` below ``num_envs``
        is not the environment's index.
        """
        if not self._partial:
            return super()._add_info(vector_infos, env_info, env_num)
        batch = SimpleNamespace(num_envs=self.batch_size, _add_info=self._add_info)
        return VectorEnv._add_info(cast(Any, batch), vector_infos, env_info, env_num)

    def _add_each(self, items: Iterable[tuple[int, dict[str, Any]]]) -> dict[str, Any]:
        """Infos with their positions, gathered by the rule that a subclass has."""
        infos: dict[str, Any] = {}
        for position, info in items:
            infos = self._add_info(infos, info, position)
        return infos

    # --- a ready-first call ---

    def _open_messages(
        self, envs: np.ndarray
    ) -> tuple[dict[int, list[Any]], dict[int, list[dict[str, Any]]]]:
        """Leaves by environment and infos by position; raises what an environment raised."""
        messages = self._batches.messages
        others: dict[int, list[Any]] = {}
        infos: dict[int, list[dict[str, Any]]] = {}
        if not messages:
            return others, infos
        failures = {}
        for position, env in enumerate(envs.tolist()):
            if env in messages:
                failed, content = messages[env]
                if failed:
                    failures[env] = content
                    continue
                if content[0]:
                    others[env] = content[0]
                if content[1]:
                    infos[position] = content[1]
        if failures:
            failed_envs = sorted(failures)
            self._resetting[failed_envs] = False
            self._batches.release(failed_envs)
            raise unpack_error(failures[failed_envs[0]], failed_envs)
        return others, infos

    def _settle(self) -> None:
        """Wait until the workers are free; who answers meanwhile is kept for :meth:`recv`."""
        # Where environments are late with another call, no other one is at work.
        if not self._pool.gate.timed_out:
            self._pool.timed = True
            try:
                self._batches.settle(None)
            except TimedOut as late:
                raise late.error("call", None) from None

    def _drop_timed_out_to_send(self, name: str) -> None:
        self._pool.timed = True
        try:
            self._drop_timed_out(None)
        except TimedOut as late:
            raise late.error(name, None) from None

    def _actions_of(self, count: int) -> Space[Any]:
        space = self._batched_action_spaces.get(count)
        if space is None:
            space = batch_space(self.single_action_space, count)
            self._batched_action_spaces[count] = space
        return space

    def _check_received(self, envs: np.ndarray) -> None:
        busy = self._batches.busy[envs]
        if busy.any():
            raise ValueError(
                f"environments {envs[busy].tolist()} were sent to and have not been received since"
            )


def _already_pending(name: str, pending: str, end: str) -> AlreadyPendingCallError:
    return AlreadyPendingCallError(
        f"Calling `{name}` while waiting for a pending call to `{pending}` to complete{end}",
        pending,
    )


@atexit.register
def _refuse_all_calls() -> None:
    """Before the pools close at exit: a thread that is in a call, or begins one, is told."""
    _refused.extend(_made.values())
    used = [envs for envs in _refused if envs._refuse_calls()]
    for envs in used:
        # At once, as `close` does it.
        envs._pool.close(0.0)
