"""The one call of all environments that may be pending: begun, waited for, or late."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import get_ident
from types import SimpleNamespace
from typing import Any, Generic, NoReturn, ParamSpec, TypeVar, cast

import numpy as np
from gymnasium.core import ActType, ObsType
from gymnasium.error import AlreadyPendingCallError, ClosedEnvironmentError, NoAsyncCallError
from gymnasium.vector.async_vector_env import AsyncState
from gymnasium.vector.vector_env import AutoresetMode, VectorEnv

from gymvec.vector.errors import WorkerDiedError
from gymvec.vector.exclusive import bare
from gymvec.vector.parent.deadlines import TimedOut, deadline_after
from gymvec.vector.parent.observations import Observations
from gymvec.vector.parent.ready_first import Batches
from gymvec.vector.parent.replies import Replies
from gymvec.vector.parent.snapshots import Snapshots
from gymvec.vector.parent.worker_pool import WorkerPool
from gymvec.vector.transport.actions import Write
from gymvec.vector.transport.messages import Command

__all__ = ["IDLE", "STEPPING", "Pending"]

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

# Before Python 3.12 looking up a member of an enumeration takes as long as collecting a step.
IDLE = AsyncState.DEFAULT
STEPPING = AsyncState.WAITING_STEP


class Pending(VectorEnv[ObsType, ActType, np.ndarray], Generic[ObsType, ActType]):
    """The part of :class:`gymvec.AsyncVectorEnv` that all of its calls go through."""

    copy: bool
    batch_size: int
    autoreset_mode: AutoresetMode
    observations: Any
    _partial: bool
    _state: AsyncState
    _pool: WorkerPool
    _batches: Batches
    _observations: Observations
    _put_actions: Write
    _snapshots: Snapshots | None
    # The thread that is in a call, or ~ of it while that has lent itself to a method of a
    # subclass; and whether `close` was called.
    _user: int | None = None
    _closing: bool = False
    # The thread that is closing now, and whether another one was in a call then.
    _closer: int | None = None
    _used_beside: bool = False

    def _bind_pending(self) -> None:
        # A call that is sent once late environments have answered, and what they are late with.
        self._deferred: tuple[Command, dict[int, bytes] | None, list[int] | None] | None = None
        self._timed_out_state = IDLE
        self._was_reset = np.zeros(self.num_envs, dtype=np.bool_)
        self._adds_plainly = type(self)._add_info is Pending._add_info

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
        who, end = "another thread", "."
        if self._user == get_ident():
            who = "this thread"
            end = (
                ": a signal handler, or code of the caller's own that a call runs, may call "
                "nothing but `close`."
            )
        self._check_not_waiting(name, end)
        raise RuntimeError(
            f"Calling `{name}` while {who} is in a call of this vector environment{end}"
        )

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
        if self._state is not IDLE:
            raise _already_pending(name, str(self._state.value), end)

    def _check_idle(self, name: str, end: str = ".") -> None:
        self._check_not_waiting(name, end)
        if self._batches.any_busy and not self._partial:
            raise _already_pending(name, "send", end)

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
            self._state = state
            if pool.timed_out:
                # Within the time-out of the wait that follows.
                self._deferred = (command, arguments, envs)
            else:
                pool.send(command, arguments, envs)
        except BaseException:
            # Ctrl-C may have come after the command was sent. Nothing is called here, so that a
            # second one cannot come between.
            if self._deferred is None and (pool.timed_out or not pool.doorbell.num_pending):
                self._state = IDLE
            raise

    def _collect(
        self, state: AsyncState, name: str, begin: str, timeout: float | None
    ) -> dict[int, Any]:
        """Wait for the answers of a pending call; the messages that came with them.

        The call stays pending until its caller has all that it returns; so what interrupts it,
        above all Ctrl-C, loses nothing.
        """
        self._check_open()
        if self._state is not state:
            raise NoAsyncCallError(
                f"Calling `{name}` without any prior call to `{begin}`.", state.value
            )
        pool = self._pool
        deadline = deadline_after(timeout)
        pool.timed = state is not AsyncState.WAITING_CALL
        try:
            if self._deferred is not None:
                if pool.timed_out:
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
            self._state = IDLE
            pool.timed_out = True
            raise late.error(name, timeout, sent) from None
        except WorkerDiedError:
            self._deferred = None
            self._state = IDLE
            raise
        self._take(state, answers)
        error = answers.error
        if error is not None:
            self._state = IDLE
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
        self._pool.timed_out = False

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


def _already_pending(name: str, pending: str, end: str) -> AlreadyPendingCallError:
    return AlreadyPendingCallError(
        f"Calling `{name}` while waiting for a pending call to `{pending}` to complete{end}",
        pending,
    )
