"""Single-dispatch functions that are twins of Gymnasium's.

A twin keeps its handlers in a ``functools.singledispatch`` table, so ``register``,
``registry`` and ``dispatch`` work as users know them. Besides these handlers it finds those
that users registered on Gymnasium's function of the same name;
:class:`gymvec.utils._dispatch.Router` says in which order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import singledispatch
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from gymnasium import Space
from gymnasium.error import CustomSpaceError

from gymvec.utils._dispatch import Router

_Function = TypeVar("_Function", bound=Callable[..., Any])
_P = ParamSpec("_P")
_R_co = TypeVar("_R_co", covariant=True)


class Registry(Protocol):
    """What a twin has besides being called, as a ``functools.singledispatch`` function has it."""

    @property
    def registry(self) -> Mapping[Any, Callable[..., Any]]: ...
    @property
    def router(self) -> Router: ...
    @property
    def original(self) -> Any: ...
    @overload
    def register(self, cls: type, func: None = None) -> Callable[[_Function], _Function]: ...
    @overload
    def register(self, cls: type, func: _Function) -> _Function: ...
    @overload
    def register(self, cls: _Function, func: None = None) -> _Function: ...
    def dispatch(self, cls: type, /) -> Callable[..., Any]: ...


class Twin(Registry, Protocol[_P, _R_co]):
    """A twin as a type checker sees it."""

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R_co: ...
    def dispatch(self, cls: type, /) -> Callable[..., _R_co]: ...


def twin(
    original: Any, default: Callable[..., Any]
) -> Callable[[Callable[_P, _R_co]], Twin[_P, _R_co]]:
    """Decorate a function that calls the handler it gets from its own ``dispatch``.

    The function spells its arguments out: forwarding ``*args`` and ``**kwargs``, as
    singledispatch does, takes longer than a kernel.

    Args:
        original: Gymnasium's function of the same name.
        default: Called for a class without a handler.
    """

    def decorate(function: Any) -> Any:
        table = singledispatch(default)
        router = Router(table, original)
        router.set_twin(function)
        function.register = table.register
        function.registry = table.registry
        function.dispatch = router.find
        function.router = router
        function.original = original
        return function

    return decorate


def handles(function: Any, *kinds: type) -> Callable[[_Function], _Function]:
    """Register the built-in handler of the given space classes on a twin."""

    def decorate(handler: _Function) -> _Function:
        for kind in kinds:
            function.register(kind, handler)
            function.router.add_builtin(kind, handler)
        return handler

    return decorate


def no_space(name: str) -> Callable[..., Any]:
    """The default of a twin that has a handler for every space: the argument is none."""

    def default(space: Any, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"The space provided to `{name}` is not a gymnasium Space instance, "
            f"type: {type(space)}, {space}"
        )

    return default


def no_handler(name: str) -> Callable[..., Any]:
    """The default of a twin that custom spaces must be registered for."""
    not_a_space = no_space(name)

    def default(space: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(space, Space):
            not_a_space(space)
        raise CustomSpaceError(
            f"Space of type `{type(space)}` doesn't have an registered `{name}` function. "
            f"Register `{type(space)}` for `{name}` to support it."
        )

    return default
