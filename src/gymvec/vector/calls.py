"""Calls of the environments' own methods, and their attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.core import ActType, ObsType, RenderFrame
from gymnasium.vector.async_vector_env import AsyncState

from gymvec.vector.exclusive import exclusive
from gymvec.vector.partial import SendRecv
from gymvec.vector.pending import IDLE
from gymvec.vector.requests import one_value_each
from gymvec.vector.transport.messages import Command, dumps

__all__ = ["Calls"]

# What `call` must not be used for.
_OWN_METHODS = ("reset", "step", "close", "_setattr", "_check_spaces")


class Calls(SendRecv[ObsType, ActType]):
    """The part of :class:`gymvec.AsyncVectorEnv` that neither resets nor steps."""

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
        self._state = IDLE
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
        self._state = IDLE
