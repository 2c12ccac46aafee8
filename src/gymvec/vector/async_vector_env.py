"""Environments stepped side by side in worker processes."""

from __future__ import annotations

import functools
import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic

import numpy as np
import numpy.typing as npt
from gymnasium import Env, Space, logger
from gymnasium.core import ActType, ObsType, RenderFrame
from gymnasium.error import AlreadyPendingCallError, ClosedEnvironmentError, NoAsyncCallError
from gymnasium.vector.async_vector_env import AsyncState
from gymnasium.vector.vector_env import AutoresetMode, VectorEnv

from gymvec._serve import SECOND_SET
from gymvec.utils import batch_space, create_empty_array
from gymvec.vector.actions import bind_action_writer, split_actions
from gymvec.vector.answers import Answers, Late
from gymvec.vector.arena import Layout
from gymvec.vector.copies import own_action
from gymvec.vector.cores import cpu_quota, usable_cores
from gymvec.vector.engine import Engine, StepArrays
from gymvec.vector.errors import StepTimeoutError, WorkerDiedError
from gymvec.vector.last_seen import LastSeen
from gymvec.vector.mail import dumps
from gymvec.vector.observations import Observations, check_shareable
from gymvec.vector.partial import SendRecv
from gymvec.vector.requests import reset_mask, reset_seeds
from gymvec.vector.restarts import RestartingEngine
from gymvec.vector.spaces import batched_observation_space, check_reports
from gymvec.vector.worker import Command

__all__ = ["AsyncVectorEnv"]

# What `call` must not be used for.
_OWN_METHODS = ("reset", "step", "close", "_setattr", "_check_spaces")
_WAIT_MODES = ("auto", "spin", "block")
_ON_DEATH = ("raise", "restart")
# Before Python 3.12 looking up a member of an enumeration takes as long as collecting a step.
_IDLE = AsyncState.DEFAULT
_STEPPING = AsyncState.WAITING_STEP
_DISABLED = AutoresetMode.DISABLED


class AsyncVectorEnv(SendRecv, VectorEnv[ObsType, ActType, np.ndarray], Generic[ObsType, ActType]):
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
            num_workers: Number of processes, at most ``n``. None for one a core that this
                process may use.
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
            ValueError: An argument has a value that is not among those above, or an observation
                of custom spaces alone cannot lie in shared memory.
        """
        # Made a second time: nobody could end the workers of the first.
        self.__del__()
        # Until the end there is nothing to close.
        self.closed = True
        if worker is not None:
            raise ValueError(
                "gymvec.AsyncVectorEnv has its own worker. For a `worker` of your own use "
                "gymnasium.vector.AsyncVectorEnv"
            )
        if len(env_fns) == 0:
            raise ValueError("expected at least one function in `env_fns`, got none")
        if wait not in _WAIT_MODES:
            raise ValueError(f"expected `wait` to be one of {_WAIT_MODES}, got {wait!r}")
        if cpu_affinity is not None and len(cpu_affinity) == 0:
            raise ValueError("expected at least one core in `cpu_affinity`, or None")
        if on_worker_death not in _ON_DEATH:
            raise ValueError(
                f"expected `on_worker_death` to be one of {_ON_DEATH}, got {on_worker_death!r}"
            )
        if step_timeout is not None and not step_timeout > 0:
            raise ValueError(
                f"expected `step_timeout` to be a positive number of seconds or None, got "
                f"{step_timeout!r}"
            )
        if cpu_affinity is not None and not hasattr(os, "sched_setaffinity"):
            raise ValueError("`cpu_affinity` needs Linux; leave it None on this system")
        self.env_fns = env_fns
        self.on_worker_death = on_worker_death
        self.step_timeout = step_timeout
        self.shared_memory = shared_memory
        self.copy = copy
        self.context = context
        self.daemon = daemon
        self.worker = worker
        self.observation_mode = observation_mode
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.max_concurrency = _positive(max_concurrency, "max_concurrency")
        self.num_envs = len(env_fns)
        self.num_workers = min(
            self.num_envs,
            _positive(num_workers, "num_workers") or usable_cores(),
            self.max_concurrency or self.num_envs,
        )
        self.batch_size = _positive(batch_size, "batch_size") or self.num_envs
        if self.batch_size > self.num_envs:
            raise ValueError(
                f"`batch_size` must be at most the number of environments, {self.num_envs}, "
                f"got {batch_size}"
            )
        self._partial = self.batch_size < self.num_envs
        self._state = _IDLE
        description = self._describe_single(observation_space, action_space)
        if not isinstance(observation_mode, str):
            _, single = batched_observation_space(observation_mode, [])
        elif observation_mode in ("same", "different"):
            single = description["observation_space"]
        else:
            batched_observation_space(observation_mode, [])
        self.single_action_space = description["action_space"]
        self.single_observation_space = single
        if shared_memory:
            check_shareable(single)

        self._engine = self._start(wait, cpu_affinity, start_timeout)
        try:
            reports = self._engine.reports(_deadline(start_timeout))
            spaces = check_reports(self, reports)
        except Late:
            self._engine.end(0.0)
            raise StepTimeoutError(
                f"the environments were not built within `start_timeout={start_timeout}` seconds"
            ) from None
        except BaseException:
            self._engine.close(None)
            raise
        first = reports[0][2]
        self.metadata = {**first["metadata"], "autoreset_mode": self.autoreset_mode}
        self.render_mode = first["render_mode"]
        self.action_space = batch_space(self.single_action_space, self.batch_size)
        if observation_mode == "same":
            spaces = spaces[: self.batch_size]
        self.observation_space, _ = batched_observation_space(observation_mode, spaces)
        self._bind()
        self.closed = False

    def _describe_single(
        self, observation_space: Space[Any] | None, action_space: Space[Any] | None
    ) -> dict[str, Space[Any]]:
        """The spaces of one environment, built in this process if they are not given."""
        if observation_space is None or action_space is None:
            env = self.env_fns[0]()
            try:
                if observation_space is None:
                    observation_space = env.observation_space
                if action_space is None:
                    action_space = env.action_space
            finally:
                env.close()
        return {"observation_space": observation_space, "action_space": action_space}

    def _start(
        self, wait: str, cpu_affinity: Sequence[int] | None, start_timeout: float | None
    ) -> Engine:
        quota = cpu_quota()
        if wait == "auto" and quota is not None and quota < self.num_workers + 1:
            # Time spent spinning would count against those who work.
            wait = "block"
        kind: Callable[..., Engine] = Engine
        if self.on_worker_death == "restart":
            kind = functools.partial(RestartingEngine, start_timeout=start_timeout)
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
            orders={
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
        engine = self._engine
        self.processes = engine.workers.processes
        self._observations = Observations(
            self.single_observation_space,
            engine.layout,
            engine.arena,
            self.num_envs,
            self.batch_size,
        )
        self._next_batch = self._observations.bound_batch(self.copy)
        self._last_seen: LastSeen | None = None
        if isinstance(engine, RestartingEngine):
            self._last_seen = engine.last_seen = LastSeen(
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
        self._put_actions = bind_action_writer(engine.layout, engine.arena, self.action_space)
        # A call that is sent once late environments have answered, and what they are late with.
        self._deferred: tuple[Command, dict[int, bytes] | None, list[int] | None] | None = None
        self._late_state = AsyncState.DEFAULT
        self._was_reset = np.zeros(self.num_envs, dtype=np.bool_)
        # Whether a step is nothing more than beginning it and waiting for it.
        self._steps_at_once = (
            self.autoreset_mode is not _DISABLED
            and type(self).step_async is AsyncVectorEnv.step_async
            and type(self).step_wait is AsyncVectorEnv.step_wait
        )
        self._adds_plainly = type(self)._add_info is VectorEnv._add_info
        self._bind_batches()

    @property
    def parent_pipes(self) -> list[Any]:
        """This process's ends of the pipes to the workers."""
        return [mailbox.connection for mailbox in self._engine.workers.mailboxes]

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The seed of each sub-environment's generator."""
        return self.get_attr("np_random_seed")

    @property  # type: ignore[misc]
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        """A copy of the random number generator of each sub-environment."""
        return self.get_attr("np_random")

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[ObsType, dict[str, Any]]:
        """Reset the sub-environments, or some of them; see :meth:`reset_async`."""
        self.reset_async(seed=seed, options=options)
        return self.reset_wait()

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
            self.async_reset(seed, options)
            return
        self._check_open()
        seeds = reset_seeds(seed, self.num_envs)
        self._check_idle("reset_async", end="")
        mask, options = reset_mask(options, self.num_envs)
        envs = None if mask is None else np.flatnonzero(mask).tolist()
        if mask is not None and not (self._was_reset | mask).all():
            missing = np.flatnonzero(~(self._was_reset | mask)).tolist()
            raise ValueError(
                f"`options['reset_mask']` leaves out environments that were never reset: {missing}"
            )
        command, arguments = Command.RESET, None
        if seed is not None or options is not None:
            command = Command.RESET_BY_LETTER
            arguments = {
                env: dumps({"seed": seeds[env], "options": options})
                for env in (range(self.num_envs) if envs is None else envs)
            }
            self._check_idle("reset_async", end="")
        self._begin(AsyncState.WAITING_RESET, command, arguments, envs)

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
            TimeoutError: The time is over. Late answers are dropped.
        """
        if self._partial:
            observations, *_, infos = self.recv(timeout)
            return observations, infos
        letters = self._collect(AsyncState.WAITING_RESET, "reset_wait", "reset_async", timeout)
        return self._observe(), self._infos(letters)

    def step(
        self, actions: ActType, env_ids: Any = None
    ) -> tuple[
        ObsType,
        npt.NDArray[np.float64],
        npt.NDArray[np.bool_],
        npt.NDArray[np.bool_],
        dict[str, Any],
    ]:
        """Take one step in each sub-environment; see :meth:`step_async` and :meth:`step_wait`.

        With ``env_ids``, or with ``batch_size`` below ``num_envs``, this is :meth:`send` and
        :meth:`recv`.
        """
        if self._partial or env_ids is not None:
            self._send_actions(actions, env_ids, least=self.batch_size)
            return self.recv()
        if (
            self._steps_at_once
            and self._state is _IDLE
            and not self.closed
            and not self._batches.any_busy
        ):
            finished = self._step_at_once(actions)
            if finished:
                return self._finished(*finished)
            if self._state is _STEPPING:
                return self.step_wait()
        self.step_async(actions)
        return self.step_wait()

    def _step_at_once(
        self, actions: ActType
    ) -> tuple[StepArrays, np.ndarray | None] | tuple[()] | None:
        engine = self._engine
        try:
            # Before the command is sent, since Ctrl-C may come after that.
            self._state = _STEPPING
            finished = engine.step(self._put_actions, actions)
        except BaseException:
            if not engine.busy:
                self._state = _IDLE
            raise
        if finished is None:
            self._state = _IDLE
        return finished

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
            self.send(actions)
            return
        engine = self._engine
        if self.closed or not engine.usable:
            self._check_open()
        if self._state is not _IDLE or self._batches.any_busy:
            self._check_idle("step_async")
        late = engine.late
        # Of late environments the workers know.
        if self.autoreset_mode is _DISABLED and not late:
            over = np.logical_or(*engine.results.collect()[1:])
            if over.any():
                raise AssertionError(f"autoreset is disabled and episodes are over: {over}")
        # A late environment may not have read its last action yet.
        if not late and self._put_actions(actions, None):
            try:
                self._state = _STEPPING
                engine.send_steps()
            except BaseException:
                # Ctrl-C may have come after the command was sent.
                if not engine.busy:
                    self._state = _IDLE
                raise
        else:
            items = split_actions(self.action_space, actions, self.num_envs)
            arguments = {env: dumps(own_action(action)) for env, action in enumerate(items)}
            self._check_idle("step_async")
            self._begin(_STEPPING, Command.STEP_BY_LETTER, arguments, None)

    def step_wait(
        self, timeout: float | None = None
    ) -> tuple[
        ObsType,
        npt.NDArray[np.float64],
        npt.NDArray[np.bool_],
        npt.NDArray[np.bool_],
        dict[str, Any],
    ]:
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
            TimeoutError: The time is over. Late answers are dropped.
        """
        if self._partial:
            return self.recv(timeout)
        if timeout is None and self._state is _STEPPING and self._deferred is None:
            finished = self._engine.finish()
            if finished is not None:
                return self._finished(*finished)
        letters = self._collect(_STEPPING, "step_wait", "step_async", timeout)
        results = self._engine.results.collect()
        return self._observe(), *results, self._infos(letters)

    def _finished(self, results: StepArrays, observations: Any) -> tuple[Any, ...]:
        """What a step returns that sent no letter."""
        self._state = _IDLE
        if observations is not None:
            self.observations = observations
        else:
            if not self.copy:
                self._observations.written(None)
            observations = self._observe()
        return observations, *results, self._infos({})

    def render(self) -> tuple[RenderFrame, ...] | None:
        """The rendered frames of the sub-environments."""
        return self.call("render")

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of each sub-environment, or get its attribute; see :meth:`call_async`."""
        self.call_async(name, *args, **kwargs)
        return self.call_wait()

    def call_async(self, name: str, *args: Any, **kwargs: Any) -> None:
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

    def call_wait(self, timeout: float | None = None) -> tuple[Any, ...]:
        """Wait for what :meth:`call_async` began.

        Args:
            timeout: Seconds to wait; None for no limit.

        Returns:
            One result an environment.

        Raises:
            ClosedEnvironmentError: :meth:`close` was called.
            NoAsyncCallError: :meth:`call_async` was not called.
            TimeoutError: The time is over. Late answers are dropped.
        """
        letters = self._collect(AsyncState.WAITING_CALL, "call_wait", "call_async", timeout)
        # Nothing comes of a `set_attr` whose wait was interrupted.
        return tuple([letters.get(env) for env in range(self.num_envs)])

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Get an attribute of each sub-environment, looked up through the wrappers."""
        return self.call(name)

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
        if not isinstance(values, (list, tuple)):
            values = [values] * self.num_envs
        if len(values) != self.num_envs:
            raise ValueError(
                "Values must be a list or tuple with length equal to the number of environments. "
                f"Got `{len(values)}` values for {self.num_envs} environments."
            )
        self._check_idle("set_attr")
        arguments = {env: dumps((name, value)) for env, value in enumerate(values)}
        self._check_idle("set_attr")
        if self._partial:
            self._settle()
        self._begin(AsyncState.WAITING_CALL, Command.SET_ATTR, arguments, None)
        self._collect(AsyncState.WAITING_CALL, "set_attr", "set_attr", None)

    def close(  # type: ignore[override]
        self, timeout: float | None = None, terminate: bool = False
    ) -> None:
        """Close the sub-environments and end the workers. Always ends; a second call does nothing.

        Args:
            timeout: Seconds for a pending call and for the environments to close, 5 if None.
                After that the processes are ended by SIGTERM and SIGKILL.
            terminate: End the processes at once.

        Raises:
            Exception: What the first sub-environment raised whose ``close`` failed; all
                workers are gone nevertheless.
        """
        try:
            super().close(timeout=timeout, terminate=terminate)
        finally:
            self.closed = True

    def close_extras(self, timeout: float | None = None, terminate: bool = False) -> None:
        """Close the sub-environments and end the workers."""
        state, self._state = self._state, _IDLE
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
            raise error

    def _end(self, timeout: float | None) -> BaseException | None:
        try:
            return self._engine.close(timeout)
        finally:
            # They keep the arena. What else does is the caller's, or `observations`.
            del self._observations, self._next_batch, self._put_actions, self._batches
            del self._last_seen

    def __del__(self) -> None:
        """End the workers of an environment that nobody closed."""
        engine = self.__dict__.get("_engine")
        if engine is not None and not self.closed:
            engine.close(0.0)
            self.closed = True

    # --- what the calls above share ---

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedEnvironmentError(
                f"Trying to operate on `{type(self).__name__}`, after a call to `close()`."
            )
        self._engine.check_usable()

    def _check_idle(self, name: str, end: str = ".") -> None:
        if self.closed:
            # By code of the caller's own that ran since the call began.
            self._check_open()
        if self._batches.any_busy and not self._partial:
            raise AlreadyPendingCallError(
                f"Calling `{name}` while waiting for a pending call to `send` to complete{end}",
                "send",
            )
        if self._state is not _IDLE:
            raise AlreadyPendingCallError(
                f"Calling `{name}` while waiting for a pending call to `{self._state.value}` "
                f"to complete{end}",
                str(self._state.value),
            )

    def _begin(
        self,
        state: AsyncState,
        command: Command,
        arguments: dict[int, bytes] | None,
        envs: list[int] | None,
    ) -> None:
        """Send a command, or keep it until late environments have answered."""
        engine = self._engine
        try:
            self._state = state
            if engine.late:
                # Within the time-out of the wait that follows.
                self._deferred = (command, arguments, envs)
            else:
                engine.send(command, arguments, envs)
        except BaseException:
            # Ctrl-C may have come after the command was sent.
            if self._deferred is None and (engine.late or not engine.busy):
                self._state = _IDLE
            raise

    def _collect(
        self, state: AsyncState, name: str, begin: str, timeout: float | None
    ) -> dict[int, Any]:
        """Wait for the answers of a pending call; the letters that came with them.

        What else interrupts the wait, above all Ctrl-C, leaves the call pending.
        """
        self._check_open()
        if self._state is not state:
            raise NoAsyncCallError(
                f"Calling `{name}` without any prior call to `{begin}`.", state.value
            )
        engine = self._engine
        deadline = _deadline(timeout)
        engine.timed = state is not AsyncState.WAITING_CALL
        try:
            if self._deferred is not None:
                if engine.late:
                    self._take(self._late_state, engine.drop_late(deadline))
                if not engine.busy:
                    engine.send(*self._deferred)
                self._deferred = None
            answers = engine.collect(deadline)
        except Late as late:
            if self._deferred is None:
                self._late_state = state
            self._deferred = None
            self._state = _IDLE
            engine.late = True
            raise late.error(name, timeout) from None
        except WorkerDiedError:
            self._state = _IDLE
            raise
        self._take(state, answers)
        self._state = _IDLE
        if answers.failures:
            raise answers.error  # type: ignore[misc]
        return answers.letters

    def _take(self, state: AsyncState, answers: Answers) -> None:
        """Note where the environments are now, also after a call that failed or came late."""
        if state is AsyncState.WAITING_RESET:
            for env in self._engine.recipients:
                if env not in answers.failures:
                    self._was_reset[env] = True
        if state is not AsyncState.WAITING_CALL:
            if not self.copy:
                self._observations.written(
                    set(self._engine.recipients) - set(answers.failures)
                    if answers.failures
                    else self._engine.sent
                )
            for env, (others, _) in answers.letters.items():
                if others:
                    self._observations.keep(env, others)

    def _observe(self) -> Any:
        self.observations = observations = self._next_batch()
        if self._last_seen is not None:
            self._last_seen.note(None)
        if not self.copy:
            self._engine.set_flag = SECOND_SET if self._observations.target else 0
        return observations

    def _infos(self, letters: dict[int, Any]) -> dict[str, Any]:
        slots = self._engine.info_slots
        by_letter = {env: infos for env, (_, infos) in letters.items() if infos}
        if self._adds_plainly:
            return slots.gather(by_letter, self._engine.sent)
        gathered: dict[str, Any] = {}
        for env, info in slots.items(by_letter, self._engine.sent):
            gathered = self._add_info(gathered, info, env)
        return gathered


def _positive(value: int | None, name: str) -> int | None:
    if value is None:
        return None
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        raise ValueError(f"`{name}` must be an integer or None, got {type(value)}.")
    if value < 1:
        raise ValueError(f"`{name}` must be a positive or None, got {value}.")
    return int(value)


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout
