"""Putting gymvec into Gymnasium, for programs that never heard of gymvec."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
import threading
import types
from collections.abc import Generator
from typing import Any

import gymnasium
from gymnasium import logger
from gymnasium.envs import registration
from gymnasium.envs.registration import VectorizeMode
from gymnasium.vector import async_vector_env, sync_vector_env
from gymnasium.vector import utils as gymnasium_utils

from gymvec import utils, vector
from gymvec.make import make_vec

__all__ = ["install", "installation", "installed", "uninstall"]

_FUNCTIONS = (
    utils.batch_space,
    utils.batch_differing_spaces,
    utils.iterate,
    utils.concatenate,
    utils.create_empty_array,
    utils.create_shared_memory,
    utils.read_from_shared_memory,
    utils.write_to_shared_memory,
)
_WRAPPER: Any = gymnasium_utils.CloudpickleWrapper
_VECTOR_ENVS = {
    "SyncVectorEnv": sync_vector_env.SyncVectorEnv,
    "AsyncVectorEnv": async_vector_env.AsyncVectorEnv,
}
# What `vector_envs=True` rebinds, and where.
_PLACES = {
    "SyncVectorEnv": (gymnasium.vector, sync_vector_env),
    "AsyncVectorEnv": (gymnasium.vector, async_vector_env),
    "make_vec": (gymnasium, registration),
}

_lock = threading.Lock()
if hasattr(os, "register_at_fork"):
    # A child must find the lock free, and no half of an installation.
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )

_is_installed = False
# Whether this process itself has said what it wants: then no unpickling changes that.
_has_chosen = False
# What was rebound: module, name, its value now, its value before.
_rebound: list[tuple[Any, str, Any, Any]] = []


def install(vector_envs: bool = False) -> None:
    """Let everything that uses ``gymnasium.vector.utils`` run on gymvec's kernels.

    The functions stay Gymnasium's own objects, so it does not matter who imported them and
    when. Handlers that users registered on them stay, as do those registered later. Child
    processes that receive Gymnasium's ``CloudpickleWrapper``, as those of its
    ``AsyncVectorEnv`` do, are installed into as well. Calling it again does no harm.

    Args:
        vector_envs: Also rebind ``gymnasium.vector.SyncVectorEnv`` and ``AsyncVectorEnv``, so
            that ``gymnasium.make_vec`` builds gymvec's vector environments, and has the mode
            ``"auto"`` of :func:`gymvec.make_vec`. With a custom ``worker`` it is still
            Gymnasium's class. Modules that imported the classes before keep Gymnasium's; a
            warning names these modules. Only :func:`uninstall` takes this back.

    Raises:
        RuntimeError: This Gymnasium is unlike those that gymvec knows; nothing was changed.
    """
    global _has_chosen
    with _lock:
        is_new = vector_envs and not _has_vector_envs()
        _install(vector_envs)
        _has_chosen = True
    if is_new:
        _warn_of_earlier_imports()


def uninstall() -> None:
    """Put back what :func:`install` replaced.

    What others registered or rebound since then stays as it is.
    """
    global _has_chosen
    with _lock:
        _uninstall()
        _has_chosen = True


def installed() -> bool:
    """Whether :func:`install` is in force in this process."""
    return _is_installed


@contextlib.contextmanager
def installation(vector_envs: bool = False) -> Generator[None, None, None]:
    """Install for the length of a ``with`` block; afterwards all is as it was before.

    Args:
        vector_envs: As for :func:`install`.

    Yields:
        None.

    Raises:
        RuntimeError: As for :func:`install`.
    """
    was_installed, had_vector_envs = _is_installed, _has_vector_envs()
    try:
        install(vector_envs)
        yield
    finally:
        if not was_installed:
            uninstall()
        elif not had_vector_envs:
            with _lock:
                _restore(_PLACES)


def _install(vector_envs: bool) -> None:
    global _is_installed
    stand_ins = _vector_env_stand_ins() if vector_envs else {}
    if not _is_installed:
        _check()
        for function in _FUNCTIONS:
            for builtin in function.router.builtins():
                if function.original.registry[builtin.kind] is builtin.standard:
                    function.original.register(builtin.kind, builtin)
        _WRAPPER.__reduce__ = _reduce
        for module in (gymnasium_utils.misc, gymnasium_utils, async_vector_env):
            _rebind(module, "clear_mpi_env_vars", utils.clear_mpi_env_vars)
        _is_installed = True
    if not _has_vector_envs():
        for name, ours in stand_ins.items():
            for module in _PLACES[name]:
                # While Gymnasium is being imported, it may not have its `make_vec` yet.
                if hasattr(module, name):
                    _rebind(module, name, ours)


def _uninstall() -> None:
    global _is_installed
    if not _is_installed:
        return
    for function in _FUNCTIONS:
        for builtin in function.router.builtins():
            if function.original.registry[builtin.kind] is builtin:
                function.original.register(builtin.kind, builtin.standard)
    if vars(_WRAPPER).get("__reduce__") is _reduce:
        del _WRAPPER.__reduce__
    _restore({name for _, name, _, _ in _rebound})
    _is_installed = False


def _rebind(module: Any, name: str, ours: Any) -> None:
    _rebound.append((module, name, ours, getattr(module, name)))
    setattr(module, name, ours)


def _restore(names: Any) -> None:
    for entry in list(_rebound):
        module, name, ours, theirs = entry
        if name in names:
            _rebound.remove(entry)
            if getattr(module, name, None) is ours:
                setattr(module, name, theirs)


def _has_vector_envs() -> bool:
    return any(name in _PLACES for _, name, _, _ in _rebound)


def _check() -> None:
    """Raise a RuntimeError unless Gymnasium has all that is about to be replaced."""
    faults = []
    for function in _FUNCTIONS:
        original = function.original
        if _parameters(original) != _parameters(function):
            faults.append(f"the parameters of {original.__name__}")
        missing = [
            builtin.kind.__name__
            for builtin in function.router.builtins()
            if builtin.kind not in original.registry
        ]
        if missing:
            faults.append(f"{original.__name__} has no handler of {', '.join(missing)}")
    if (
        not {"__getstate__", "__setstate__"} <= vars(_WRAPPER).keys()
        or _WRAPPER.__reduce__ is not object.__reduce__
        or _WRAPPER.__reduce_ex__ is not object.__reduce_ex__
    ):
        faults.append("how CloudpickleWrapper is pickled")
    if not hasattr(async_vector_env, "clear_mpi_env_vars"):
        faults.append("AsyncVectorEnv does not use clear_mpi_env_vars")
    if faults:
        raise RuntimeError(
            f"gymvec cannot be installed into Gymnasium {gymnasium.__version__}, which differs "
            f"from those it knows: {'; '.join(faults)}. Nothing was changed."
        )


def _parameters(function: Any) -> tuple[str, ...]:
    # inspect.signature would take most of the time that installing takes.
    code: types.CodeType = inspect.unwrap(function).__code__
    return code.co_varnames[: code.co_argcount]


def _reduce(wrapper: Any) -> tuple[Any, ...]:
    """``CloudpickleWrapper.__reduce__`` while gymvec is installed."""
    return _revive, (type(wrapper), _has_vector_envs()), wrapper.__getstate__()


def _revive(kind: Any, vector_envs: bool) -> Any:
    """Install where a wrapper arrives, before the function in it is unpickled."""
    with _lock:
        if not _has_chosen:
            _install(vector_envs)
    return kind.__new__(kind)


def _warn_of_earlier_imports() -> None:
    """Name the modules that keep Gymnasium's vector environments."""
    main = sys.modules.get("__main__")
    if sys.modules.get("__mp_main__", main) is not main:
        # A spawned process runs the main module again; its parent has warned.
        return
    names = {id(theirs): name for name, theirs in _VECTOR_ENVS.items()}
    found = []
    for module_name, module in sys.modules.copy().items():
        if module_name.partition(".")[0] in ("gymnasium", "gymvec", "__mp_main__"):
            continue
        # A module may load itself, or others, when it is asked for an attribute, so its
        # namespace is read without asking it.
        if not issubclass(type(module), types.ModuleType):
            continue
        namespace = types.ModuleType.__getattribute__(module, "__dict__").copy()
        if not names.keys().isdisjoint(map(id, namespace.values())):
            found += [
                f"{module_name}.{name}" for name, value in namespace.items() if id(value) in names
            ]
    if found:
        logger.warn(
            "%s came before `gymvec.install(vector_envs=True)` and stay Gymnasium's classes. Call "
            "it before these modules import them, or import them from gymvec there.",
            ", ".join(sorted(found)),
            stacklevel=3,
        )


def _vector_env_stand_ins() -> dict[str, Any]:
    """What stands in for Gymnasium's vector environments, and for its ``make_vec``."""
    stand_ins = {
        name: _stand_in(getattr(vector, name), theirs) for name, theirs in _VECTOR_ENVS.items()
    }
    return {**stand_ins, "make_vec": _with_our_modes(registration.make_vec)}


def _with_our_modes(theirs: Any) -> Any:
    """``gymnasium.make_vec``, which leaves modes that it does not know to gymvec's."""
    known = (None, *VectorizeMode, *(mode.value for mode in VectorizeMode))

    @functools.wraps(theirs)
    def with_our_modes(
        id: Any, num_envs: int = 1, vectorization_mode: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        make = theirs if vectorization_mode in known else make_vec
        return make(id, num_envs, vectorization_mode, *args, **kwargs)

    return with_our_modes


def _stand_in(ours: Any, theirs: Any) -> Any:
    """A class that builds ``ours``, or ``theirs`` for a custom worker, and contains both."""
    signature = inspect.signature(theirs)

    class StandIn(type(ours)):  # type: ignore[misc]
        @property
        def __signature__(cls) -> inspect.Signature:
            """The constructor's, which inspect would not look for behind ``__call__``."""
            own = inspect.signature(cls.__init__)  # type: ignore[misc]
            return own.replace(parameters=list(own.parameters.values())[1:])

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            if cls is not stand_in:
                return super().__call__(*args, **kwargs)
            try:
                worker = signature.bind_partial(*args, **kwargs).arguments.get("worker")
            except TypeError:
                worker = None  # The arguments are for gymvec's class alone, or wrong.
            return (ours if worker is None else theirs)(*args, **kwargs)

        def __instancecheck__(cls, instance: Any) -> bool:
            if cls is stand_in:
                return isinstance(instance, ours | theirs)
            return bool(super().__instancecheck__(instance))

        def __subclasscheck__(cls, subclass: Any) -> bool:
            if cls is stand_in:
                return issubclass(subclass, ours | theirs)
            return bool(super().__subclasscheck__(subclass))

    stand_in = StandIn(ours.__name__, (ours,), {"__module__": ours.__module__})
    return stand_in
