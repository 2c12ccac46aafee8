"""Environments stepped one after another in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from threading import get_ident
from typing import Any, Generic, NoReturn

import numpy as np
from gymnasium import Env, Space
from gymnasium.core import ActType, ObsType, RenderFrame
from gymnasium.error import ClosedEnvironmentError
from gymnasium.spaces import Box, MultiBinary, MultiDiscrete
from gymnasium.vector.vector_env import AutoresetMode, VectorEnv

from gymvec.kernels.infos import InfoBatch
from gymvec.utils import batch_space, concatenate, create_empty_array, iterate
from gymvec.vector import stepping
from gymvec.vector.arguments import (
    StepReturn,
    autoreset_mode_of,
    check_none_missing,
    one_value_each,
    reset_mask,
    reset_seeds,
)
from gymvec.vector.copying import keep_terminal, own_action, own_array
from gymvec.vector.distinct import check_distinct
from gymvec.vector.exclusive import exclusive, in_use
from gymvec.vector.space_tree import bind_stacker, is_builtin
from gymvec.vector.spaces import batched_observation_space, check_spaces

__all__ = ["SyncVectorEnv"]

_NEXT_STEP = AutoresetMode.NEXT_STEP
_SAME_STEP = AutoresetMode.SAME_STEP
_DISABLED = AutoresetMode.DISABLED


class _Missing:
    """Stands for the observation of an environment that was never reset. The class itself,
    because classes stay themselves when they are copied or pickled."""


class SyncVectorEnv(VectorEnv[ObsType, ActType, np.ndarray], Generic[ObsType, ActType]):
    """Vector environment that steps its sub-environments one after another.

    The twin of :class:`gymnasium.vector.SyncVectorEnv`: the same results in less time. An
    exception of a sub-environment is raised as it is; the others live on, and :meth:`reset`
    works.

    One call at a time: a second thread, a signal handler, or code of a sub-environment, an action
    or an info that a call runs may call nothing but :meth:`close`. A call during which this was
    closed returns what it has, or raises ``ClosedEnvironmentError`` from what failed since.

    Attributes:
        envs: The sub-environments.
        num_envs: Their number, ``n``.
        single_observation_space: Observation space of the first sub-environment.
        observation_space: Space of the batch of ``n`` observations.
        single_action_space: Action space of each sub-environment.
        action_space: Space of the batch of ``n`` actions.
        metadata: A copy of the first sub-environment's, with ``autoreset_mode``.
        render_mode: The first sub-environment's.
        spec: What recreates the vector environment, if ``make_vec`` made it.

    Example:
        >>> import gymnasium as gym
        >>> import gymvec
        >>> envs = gymvec.SyncVectorEnv([lambda: gym.make("CartPole-v1")] * 3)
        >>> envs
        SyncVectorEnv(num_envs=3)
        >>> observations, infos = envs.reset(seed=42)
        >>> observations.shape
        (3, 4)
        >>> observations, rewards, terminations, truncations, infos = envs.step([1, 0, 1])
        >>> rewards
        array([1., 1., 1.])
        >>> envs.close()
    """

    env_fns: Sequence[Callable[[], Env]]
    copy: bool
    observation_mode: str | tuple[Space[Any], Space[Any]]
    autoreset_mode: AutoresetMode
    envs: list[Env]
    num_envs: int
    metadata: dict[str, Any]
    render_mode: str | None
    single_action_space: Space[Any]
    action_space: Space[Any]
    single_observation_space: Space[Any]
    observation_space: Space[Any]
    # The places in `envs` of those that were closed.
    _closed_envs: frozenset[int] = frozenset()
    # As `exclusive` says; and the thread that is closing now.
    _user: int | None = None
    _closer: int | None = None

    def __init__(
        self,
        env_fns: Sequence[Callable[[], Env]],
        copy: bool = True,
        observation_mode: str | tuple[Space[Any], Space[Any]] = "same",
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
    ) -> None:
        """Create the sub-environments.

        Args:
            env_fns: Functions without arguments that make one environment each.
            copy: Whether observations returned by :meth:`reset` and :meth:`step` are the
                caller's own, at every depth. If not, their arrays are overwritten by the
                next call.
            observation_mode: ``"same"`` if all observation spaces are equal, ``"different"``
                if they share shape and dtype but not bounds, or a tuple of the batched and
                the single observation space.
            autoreset_mode: When an environment whose episode is over is reset; see
                https://farama.org/Vector-Autoreset-Mode.

        Raises:
            RuntimeError: The spaces of the sub-environments do not go together.
            TypeError: An element of the ``observation_mode`` tuple is no space.
            ValueError: ``observation_mode`` or ``autoreset_mode`` is none of these; or several
                sub-environments are one object.
        """
        super().__init__()
        self.env_fns = env_fns
        self.copy = copy
        self.observation_mode = observation_mode
        self.autoreset_mode = autoreset_mode_of(autoreset_mode)
        self.envs = []
        self._closed_envs = frozenset()
        try:
            for env_fn in env_fns:
                self.envs.append(env_fn())
            check_distinct(self.envs)
            self._take_spaces()
            self._make_arrays(self.num_envs)
            self._bind()
        except BaseException:
            # No other code can close them, and none shall do it again.
            self._close_each()
            self.closed = True
            raise

    def _make_arrays(self, n: int) -> None:
        self._env_obs: list[Any] = [_Missing] * n
        self._observations: Any = create_empty_array(
            self.single_observation_space, n=n, fn=np.zeros
        )
        self._rewards = np.zeros(n, dtype=np.float64)
        self._terminations = np.zeros(n, dtype=np.bool_)
        self._truncations = np.zeros(n, dtype=np.bool_)
        self._autoreset_envs = np.zeros(n, dtype=np.bool_)
        self._array_actions = isinstance(
            self.action_space, (Box, MultiDiscrete, MultiBinary)
        ) and is_builtin(iterate, self.action_space)

    def _bind(self) -> None:
        self._stack = bind_stacker(self.single_observation_space, self.num_envs)
        self._blocks = stepping.StepBlocks(self._rewards, self._terminations, self._truncations)

    def __getstate__(self) -> dict[str, Any]:
        """Everything but what is bound to this object's arrays, and the call that it is in."""
        state = self.__dict__.copy()
        del state["_stack"], state["_blocks"]
        state["_user"] = state["_closer"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over the state of a copy or a pickle."""
        self.__dict__.update(state)
        self._bind()

    def _take_spaces(self) -> None:
        first = self.envs[0]
        self.num_envs = len(self.envs)
        # The sub-environment's may be its class's.
        self.metadata = dict(first.metadata)
        self.metadata["autoreset_mode"] = self.autoreset_mode
        self.render_mode = first.render_mode
        self.single_action_space = first.action_space
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.observation_space, self.single_observation_space = batched_observation_space(
            self.observation_mode, [env.observation_space for env in self.envs]
        )
        check_spaces(self, self.envs)

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The seed of each sub-environment's generator."""
        return self.get_attr("np_random_seed")

    @property  # type: ignore[misc]
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        """The random number generator of each sub-environment."""
        return self.get_attr("np_random")

    @exclusive
    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[ObsType, dict[str, Any]]:
        """Reset the sub-environments, or some of them.

        Args:
            seed: An integer of any type, from which environment ``i`` gets ``seed + i``; one
                integer or None each; or None.
            options: Handed to each reset. ``options["reset_mask"]``, a bool array of shape
                ``(n,)``, says which environments are reset; it is not handed on, and
                ``options`` stay as they were.

        Returns:
            The batch of observations, also of environments that were left out, and the infos
            of those that were reset.

        Raises:
            ClosedEnvironmentError: :meth:`close` was called.
            TypeError: The mask is no bool array.
            ValueError: The number of seeds is not ``n``, the mask has another shape, selects
                nothing, or leaves out an environment that has no observation yet.
        """
        self._check_open()
        seeds = reset_seeds(seed, self.num_envs)
        mask, options = reset_mask(options, self.num_envs)
        chosen = range(self.num_envs)
        if mask is not None:
            chosen = np.flatnonzero(mask).tolist()
            check_none_missing(
                [i for i, obs in enumerate(self._env_obs) if obs is _Missing and not mask[i]]
            )

        infos = self._new_infos()
        for i in chosen:
            self._env_obs[i], info = self.envs[i].reset(seed=seeds[i], options=options)
            self._blocks.clear(i)
            self._autoreset_envs[i] = False
            infos.add(info, i)
        return self._batch(), infos.infos

    @exclusive
    def step(self, actions: ActType) -> StepReturn[ObsType]:
        """Take one step in each sub-environment.

        Args:
            actions: A batch of ``n`` actions. Each environment gets what
                :func:`gymvec.utils.iterate` yields; arrays are C-contiguous, native and its own.

        Returns:
            The batch of observations, rewards (float64, shape ``(n,)``), terminations and
            truncations (bool, shape ``(n,)``), and infos; all but the observations are always
            the caller's own.

        Raises:
            AssertionError: Autoreset is disabled and an episode is over. Nothing was stepped.
            ClosedEnvironmentError: :meth:`close` was called.
            ValueError: There are not ``n`` actions, and nothing was stepped; or a reward or
                an observation has a wrong shape.
        """
        self._check_open()
        mode = self.autoreset_mode
        if mode is _NEXT_STEP:
            how = stepping.NEXT_STEP
        elif mode is _SAME_STEP:
            how = stepping.SAME_STEP
        elif mode is _DISABLED:
            how = stepping.DISABLED
            if self._autoreset_envs.any():
                raise AssertionError(f"{self._autoreset_envs=}")
        else:
            raise ValueError(f"Unexpected autoreset mode, {mode}")
        infos = self._new_infos()
        stepping.step_environments(
            self.envs,
            self._split_actions(actions),
            self._env_obs,
            self._blocks,
            self._autoreset_envs,
            how,
            infos,
            keep_terminal,
        )
        return (
            self._batch(),
            self._rewards.copy(),
            self._terminations.copy(),
            self._truncations.copy(),
            infos.infos,
        )

    def _split_actions(self, actions: Any) -> list[Any]:
        """One action an environment, none of which shares memory with the caller's."""
        if (
            self._array_actions
            and type(actions) is np.ndarray
            and actions.ndim > 0
            and not actions.dtype.hasobject
        ):
            # One copy for all; the rows of a one-dimensional batch are scalars anyway.
            items = list(own_array(actions) if actions.ndim > 1 else iter(actions))
        else:
            rows: Iterator[Any] = iter(iterate(self.action_space, actions))
            items = [own_action(action) for action in islice(rows, self.num_envs + 1)]
            # Copying runs the actions' own code, which may have closed this.
            self._check_open()
        if len(items) != self.num_envs:
            more = "or more" if len(items) > self.num_envs else ""
            raise ValueError(
                f"expected {self.num_envs} actions, one for each environment, "
                f"got {len(items)} {more}".rstrip()
            )
        return items

    def _batch(self) -> Any:
        if self.copy:
            return self._stack(self._env_obs)
        self._observations = concatenate(
            self.single_observation_space, self._env_obs, self._observations
        )
        return self._observations

    def _new_infos(self) -> Any:
        if type(self)._add_info is VectorEnv._add_info:
            return InfoBatch(self.num_envs)
        return _OwnRule(self)

    def _check_open(self) -> None:
        if self._is_closed():
            raise self._closed_error()

    def _is_closed(self) -> bool:
        # The thread that closes may make calls until the sub-environments close: a subclass's
        # `close_extras` may save what they hold.
        return self.closed or (self._closer is not None and self._closer != get_ident())

    def _closed_error(self) -> ClosedEnvironmentError:
        return ClosedEnvironmentError(
            f"Trying to operate on `{type(self).__name__}`, after a call to `close()`."
        )

    def _check_not_closed_meanwhile(self, error: Exception) -> None:
        if self._is_closed() and not isinstance(error, ClosedEnvironmentError):
            raise self._closed_error() from error

    def _refuse(self, name: str) -> NoReturn:
        if self.closed or self._closer is not None:
            raise self._closed_error()
        raise in_use(name, self._user)

    @exclusive
    def render(self) -> tuple[RenderFrame, ...]:
        """The rendered frames of the sub-environments."""
        self._check_open()
        frames: list[Any] = [env.render() for env in self.envs]
        return tuple(frames)

    @exclusive
    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of each sub-environment, or get its attribute.

        Args:
            name: Name, looked up through the wrappers.
            *args: Arguments of the method.
            **kwargs: Keyword arguments of the method.

        Returns:
            One result an environment.
        """
        self._check_open()
        results = []
        for env in self.envs:
            attribute = env.get_wrapper_attr(name)
            results.append(attribute(*args, **kwargs) if callable(attribute) else attribute)
        return tuple(results)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Get an attribute of each sub-environment, looked up through the wrappers."""
        return self.call(name)

    @exclusive
    def set_attr(self, name: str, values: list[Any] | tuple[Any, ...] | Any) -> None:
        """Set an attribute of each sub-environment.

        Args:
            name: Name; set on the outermost wrapper that has it.
            values: A list or tuple with one value an environment, or one value for all.

        Raises:
            ValueError: The length of the list or tuple is not ``n``.
        """
        self._check_open()
        values = one_value_each(values, self.num_envs)
        for env, value in zip(self.envs, values, strict=True):
            env.set_wrapper_attr(name, value)

    def close(self, **kwargs: Any) -> None:
        """Close every sub-environment. A second call, also within the first, does nothing.

        Where the first was interrupted, the second closes what was not closed.

        Raises:
            Exception: What the first sub-environment raised whose ``close`` failed; all were
                asked to close.
        """
        if self.closed and len(self._closed_envs) >= len(self.envs):
            return
        me = get_ident()
        # Nothing is called from this look to the assignment: neither another thread nor Ctrl-C
        # comes between.
        if self._closer is not None:
            return
        self._closer = me
        try:
            # A call that this comes within is lent to a subclass's `close_extras`.
            self._user = ~me
            # Where it is true, the base class does nothing.
            self.closed = False
            super().close(**kwargs)
        finally:
            self._closer, self.closed = None, True

    def close_extras(self, **kwargs: Any) -> None:
        """Close every sub-environment; raise the first error afterwards."""
        # Calls by their `close` methods are refused.
        self.closed = True
        error = self._close_each()
        if error is not None:
            try:
                raise error
            finally:
                # The error's traceback keeps this frame, which would keep the error.
                del error

    def _close_each(self) -> BaseException | None:
        first: BaseException | None = None
        try:
            for i, env in enumerate(getattr(self, "envs", [])):
                if i in self._closed_envs:
                    continue
                try:
                    env.close()
                except Exception as error:
                    first = error if first is None else first
                except BaseException as error:
                    # Most likely Ctrl-C, which must not be lost, and has left it half closed.
                    first = error if first is None or isinstance(first, Exception) else first
                    continue
                self._closed_envs |= {i}
            return first
        finally:
            # As above.
            del first


class _OwnRule:
    """Gathers infos by the ``_add_info`` that a subclass has put in place of Gymnasium's."""

    def __init__(self, envs: SyncVectorEnv) -> None:
        self._add_info = envs._add_info
        self.infos: dict[str, Any] = {}

    def add(self, info: dict[str, Any], index: int) -> None:
        self.infos = self._add_info(self.infos, info, index)
