"""Vector environments by id."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
from gymnasium import Env, Wrapper, error
from gymnasium.envs import registration
from gymnasium.envs.registration import EnvSpec, VectorizeMode
from gymnasium.vector import VectorEnv

from gymvec import vector
from gymvec.tune import arguments_of, tuned

__all__ = ["make_vec"]


def make_vec(
    id: str | EnvSpec,
    num_envs: int = 1,
    vectorization_mode: VectorizeMode | str | None = None,
    vector_kwargs: dict[str, Any] | None = None,
    wrappers: Sequence[Callable[[Env], Wrapper]] | None = None,
    **kwargs: Any,
) -> VectorEnv:
    """Make a vector environment: ``gymnasium.make_vec`` with gymvec's classes.

    Args:
        id: Id of a registered environment, with a module to import first if need be
            (``"module:Env-v0"``), or a spec. What the spec's ``kwargs`` say about the
            arguments below comes first.
        num_envs: Number of sub-environments.
        vectorization_mode: ``"sync"``, ``"async"`` or ``"vector_entry_point"``; None for the
            environment's own vector entry point if it has one, and ``"sync"`` if not. This is
            Gymnasium's rule, and such an entry point is not gymvec's: that of CartPole-v1 is a
            class of Gymnasium's. Say ``"sync"`` or ``"async"`` for gymvec's classes.
            ``"auto"`` measures for at most two seconds, in processes of its own, which of sync
            and async takes less time, with how many workers and which ``wait``
            (:func:`gymvec.autotune`); the logger ``gymvec`` says at level INFO what was
            chosen and why. The answer is kept for this process: the same environment with the
            same arguments and ``num_envs`` is not measured again. Of ``vector_kwargs``, those
            that only AsyncVectorEnv has are for async.
        vector_kwargs: Arguments of the vector environment's class.
        wrappers: Functions that wrap each sub-environment, innermost first; not for a vector
            entry point.
        **kwargs: Arguments of the environment.

    Returns:
        The vector environment: a SyncVectorEnv, an AsyncVectorEnv, or what the entry point
        makes. Its ``spec`` makes it again.

    Raises:
        gymnasium.error.Error: There is no such id, the environment has no such entry point,
            or the arguments are not for it.
        TypeError: With ``"auto"``: ``vector_kwargs`` has an argument that no class has.
        ValueError: The vectorization mode is none of these, or is ``"auto"`` with a
            ``batch_size``.

    Example:
        >>> import gymvec
        >>> envs = gymvec.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
        >>> envs
        SyncVectorEnv(CartPole-v1, num_envs=2)
        >>> envs.close()
    """
    arguments: dict[str, Any] = {
        "num_envs": num_envs,
        "vectorization_mode": vectorization_mode,
        "vector_kwargs": {} if vector_kwargs is None else vector_kwargs,
        "wrappers": [] if wrappers is None else wrappers,
    }
    spec, env_kwargs = _find_spec(id)
    for name in arguments:
        if name in env_kwargs:
            arguments[name] = env_kwargs.pop(name)
    env_kwargs.update(kwargs)
    factory = _factory(spec, env_kwargs, arguments["wrappers"])
    if arguments["vectorization_mode"] == "auto":
        _tune(arguments, spec, env_kwargs, factory)
    mode = _vectorize_mode(arguments["vectorization_mode"], spec)
    if mode not in (VectorizeMode.SYNC, VectorizeMode.ASYNC):
        # None of gymvec's classes has a part in this.
        return gymnasium.make_vec(
            id, num_envs, vectorization_mode, vector_kwargs, wrappers, **kwargs
        )
    _check_entry_point(spec)
    kind = vector.SyncVectorEnv if mode is VectorizeMode.SYNC else vector.AsyncVectorEnv
    envs = kind(
        env_fns=[factory for _ in range(arguments["num_envs"])], **arguments["vector_kwargs"]
    )
    envs.spec = _vector_spec(spec, env_kwargs, mode, arguments)
    return envs


def _tune(
    arguments: dict[str, Any],
    spec: EnvSpec,
    env_kwargs: dict[str, Any],
    factory: Callable[[], Env],
) -> None:
    """Put what takes the least time in place of the mode ``"auto"``."""
    _check_entry_point(spec)
    vector_kwargs = arguments["vector_kwargs"]
    identity = (spec, env_kwargs, arguments["wrappers"])
    choice = tuned(spec.id, factory, arguments["num_envs"], vector_kwargs, identity)
    arguments["vectorization_mode"] = choice.mode
    arguments["vector_kwargs"] = arguments_of(choice, vector_kwargs)
    if choice.num_workers is not None and "num_workers" in vector_kwargs:
        # The choice is capped; AsyncVectorEnv says so where the caller's number is too large.
        arguments["vector_kwargs"]["num_workers"] = vector_kwargs["num_workers"]


def _check_entry_point(spec: EnvSpec) -> None:
    if spec.entry_point is None:
        raise error.Error(
            f"Cannot create vectorized environment for {spec.id} because it doesn't have an "
            "entry point defined."
        )


def _find_spec(id: str | EnvSpec) -> tuple[EnvSpec, dict[str, Any]]:
    """The environment's spec without its ``kwargs``, and these, both the caller's own."""
    if isinstance(id, EnvSpec):
        spec = id
    elif isinstance(id, str):
        spec = registration._find_spec(id)
    else:
        raise error.Error(f"Invalid id type: {type(id)}. Expected `str` or `EnvSpec`")
    spec = copy.deepcopy(spec)
    env_kwargs = spec.kwargs
    spec.kwargs = {}
    return spec, env_kwargs


def _vectorize_mode(mode: VectorizeMode | str | None, spec: EnvSpec) -> VectorizeMode:
    if mode is None:
        has_own = spec.vector_entry_point is not None
        return VectorizeMode.VECTOR_ENTRY_POINT if has_own else VectorizeMode.SYNC
    try:
        return VectorizeMode(mode)
    except ValueError as unknown:
        raise ValueError(
            f"Invalid vectorization mode: {mode!r}, "
            f"valid modes: {[mode.value for mode in VectorizeMode]} and 'auto'"
        ) from unknown


def _factory(
    spec: EnvSpec, env_kwargs: dict[str, Any], wrappers: Sequence[Callable[[Env], Wrapper]]
) -> Callable[[], Env]:
    # The spec itself, not its id, which may be registered in this process only.
    def make_env() -> Env:
        env = gymnasium.make(spec, **env_kwargs.copy())
        for wrapper in wrappers or ():
            env = wrapper(env)
        return env

    return make_env


def _vector_spec(
    spec: EnvSpec, env_kwargs: dict[str, Any], mode: VectorizeMode, arguments: dict[str, Any]
) -> EnvSpec:
    """What recreates the vector environment; defaults are left out."""
    spec = copy.deepcopy(spec)
    spec.kwargs = env_kwargs.copy()
    if arguments["num_envs"] != 1:
        spec.kwargs["num_envs"] = arguments["num_envs"]
    spec.kwargs["vectorization_mode"] = mode.value
    for name in ("vector_kwargs", "wrappers"):
        if len(arguments[name]) > 0:
            spec.kwargs[name] = arguments[name]
    return spec
