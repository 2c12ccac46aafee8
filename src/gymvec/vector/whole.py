"""Resets and steps of all environments; with ``batch_size`` below ``num_envs`` of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from threading import get_ident
from typing import Any

import numpy as np
from gymnasium.core import ActType, ObsType
from gymnasium.vector.async_vector_env import AsyncState
from gymnasium.vector.vector_env import AutoresetMode

from gymvec.vector.copying import own_action
from gymvec.vector.exclusive import exclusive
from gymvec.vector.parent.worker_pool import StepArrays
from gymvec.vector.partial import SendRecv
from gymvec.vector.pending import IDLE, STEPPING
from gymvec.vector.requests import check_none_missing, reset_mask, reset_seeds
from gymvec.vector.returned import StepReturn
from gymvec.vector.transport.actions import split_actions
from gymvec.vector.transport.control import SECOND_SET
from gymvec.vector.transport.messages import Command, dumps

__all__ = ["ResetStep"]

# Looked up once, as IDLE is.
_DISABLED = AutoresetMode.DISABLED


class ResetStep(SendRecv[ObsType, ActType]):
    """The part of :class:`gymvec.AsyncVectorEnv` that waits for all environments of a batch."""

    def _bind_steps(self) -> None:
        self._next_batch = self._observations.bound_batch(self.copy)
        self._batch_of_copies = self._observations.bound_batch_of_copies()
        # Whether a step is nothing more than beginning it and waiting for it.
        self._steps_at_once = (
            self.autoreset_mode is not _DISABLED
            and type(self).step_async is ResetStep.step_async
            and type(self).step_wait is ResetStep.step_wait
        )

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
            if self._partial or env_ids is not None:
                self._send_actions(actions, env_ids, least=self.batch_size)
                return self._within(self.recv)
            if (
                self._steps_at_once
                and self._state is IDLE
                and not self.closed
                and not self._batches.any_busy
            ):
                finished = self._step_at_once(actions)
                if finished:
                    return self._finished(*finished)
                if self._state is STEPPING:
                    return self._within(self.step_wait)
            self._within(self.step_async, actions)
            return self._within(self.step_wait)
        except Exception as error:
            self._check_not_closed_meanwhile(error)
            raise
        finally:
            self._user = user

    def _step_at_once(
        self, actions: ActType
    ) -> tuple[StepArrays, list[np.ndarray]] | tuple[()] | None:
        pool = self._pool
        results = pool.results
        before = results.sent
        try:
            # Before the command is sent, since Ctrl-C may come after that.
            self._state = STEPPING
            finished = pool.step(self._put_actions, actions)
            if finished is None:
                self._state = IDLE
        except BaseException:
            # If it was sent, `step_wait` returns what comes of it, also if that was taken.
            if results.sent == before:
                self._state = IDLE
            raise
        return finished

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
        pool = self._pool
        if self.closed or not pool.usable:
            self._check_open()
        if self._state is not IDLE or self._batches.any_busy:
            self._check_idle("step_async")
        late = pool.timed_out
        # Of late environments the workers know.
        if self.autoreset_mode is _DISABLED and not late:
            over = np.logical_or(*pool.results.collect()[1:])
            if over.any():
                raise AssertionError(f"autoreset is disabled and episodes are over: {over}")
        # A late environment may not have read its last action yet.
        if not late and self._put_actions(actions, None):
            try:
                self._state = STEPPING
                pool.send_steps()
            except BaseException:
                # As in `_begin`.
                if not pool.doorbell.num_pending:
                    self._state = IDLE
                raise
        else:
            items = split_actions(self.action_space, actions, self.num_envs)
            arguments = {env: dumps(own_action(action)) for env, action in enumerate(items)}
            self._check_idle("step_async")
            self._begin(STEPPING, Command.STEP_WITH_MESSAGE, arguments, None)

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
        if timeout is None and self._state is STEPPING and self._deferred is None:
            finished = self._pool.finish()
            if finished is not None:
                return self._finished(*finished)
        messages = self._collect(STEPPING, "step_wait", "step_async", timeout)
        results = self._pool.results.collect()
        observations, infos = self._returned(messages)
        return observations, *results, infos

    def _finished(self, results: StepArrays, copies: list[np.ndarray]) -> tuple[Any, ...]:
        """What a step returns that sent no message."""
        if not self.copy:
            self._observations.written(None)
        observations, infos = self._returned({}, copies)
        return observations, *results, infos

    # --- what these share ---

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
            # Whoever waited once more would get the same.
            self._state = IDLE
            raise
        if self._snapshots is not None:
            self._snapshots.note(None)
        self.observations = observations
        if self.copy:
            self._state = IDLE
        else:
            target = self._observations.next_target
            set_flag = SECOND_SET if target else 0
            # All at once, as far as Ctrl-C can tell: nothing is called between these.
            self._state, self._observations.target = IDLE, target
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
