"""Batches of whichever environments are ready first: ``async_reset``, ``recv`` and ``send``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.core import ActType, ObsType
from gymnasium.error import NoAsyncCallError
from gymnasium.vector.vector_env import AutoresetMode

from gymvec.utils import batch_space
from gymvec.vector.copying import own_action
from gymvec.vector.exclusive import exclusive
from gymvec.vector.parent.deadlines import TimedOut, deadline_after
from gymvec.vector.parent.ready_first import Batches
from gymvec.vector.pending import Pending
from gymvec.vector.requests import checked_env_ids, reset_mask, reset_seeds
from gymvec.vector.returned import StepReturn
from gymvec.vector.transport.actions import split_actions
from gymvec.vector.transport.exceptions import WorkerTraceback, unpack_error
from gymvec.vector.transport.messages import Command, dumps

__all__ = ["SendRecv"]

# Looked up once, as IDLE is.
_STEP = Command.STEP


class SendRecv(Pending[ObsType, ActType]):
    """The part of :class:`gymvec.AsyncVectorEnv` that does not wait for all environments.

    Names and order of arguments are those of EnvPool and of the Arcade Learning Environment.
    """

    def _bind_batches(self) -> None:
        self._batches = Batches(self._pool, self.num_envs, self.batch_size)
        self._batched_action_spaces: dict[int, Space[Any]] = {}
        self._resetting = np.zeros(self.num_envs, dtype=np.bool_)
        self._received: np.ndarray | None = None

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
            if self._pool.timed_out:
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
        if self._pool.timed_out:
            self._drop_timed_out_to_send("send")
        if self.autoreset_mode is AutoresetMode.DISABLED:
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
            if self._pool.timed_out:
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
            # Whoever waited once more would get the same.
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

    # --- what these share ---

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
        # Where environments are late with another call, nobody else is at work.
        if not self._pool.timed_out:
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
