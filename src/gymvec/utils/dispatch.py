"""Single-dispatch functions that are twins of Gymnasium's.

A twin is a ``functools.singledispatch`` function, so ``register``, ``registry`` and
``dispatch`` work as users know them. Besides its own handlers it finds those that users
registered on Gymnasium's function of the same name; :class:`gymvec._dispatch.Router` says
in which order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch, wraps
from typing import Any, TypeVar

from gymvec._dispatch import Router

_Function = TypeVar("_Function", bound=Callable[..., Any])


def twin(original: Any) -> Callable[[_Function], Any]:
    """Decorate the default of a function that is the twin of Gymnasium's ``original``."""

    def decorate(default: _Function) -> Any:
        table = singledispatch(default)
        route = Router(table, original)

        @wraps(default)
        def function(*args: Any, **kwargs: Any) -> Any:
            if not args:
                raise TypeError(f"{default.__name__} requires at least 1 positional argument")
            return route(args[0].__class__)(*args, **kwargs)

        route.set_twin(function)
        function.register = table.register  # type: ignore[attr-defined]
        function.registry = table.registry  # type: ignore[attr-defined]
        function.dispatch = route  # type: ignore[attr-defined]
        function.original = original  # type: ignore[attr-defined]
        return function

    return decorate


def handles(function: Any, *kinds: type) -> Callable[[_Function], _Function]:
    """Register the built-in handler of the given space classes on a twin."""

    def decorate(handler: _Function) -> _Function:
        for kind in kinds:
            function.register(kind, handler)
            function.dispatch.add_builtin(kind, handler)
        return handler

    return decorate


def not_a_space(name: str, space: Any) -> TypeError:
    """The error for an argument that is no space at all."""
    return TypeError(
        f"The space provided to `{name}` is not a gymnasium Space instance, "
        f"type: {type(space)}, {space}"
    )
