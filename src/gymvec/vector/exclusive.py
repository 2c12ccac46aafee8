"""One call at a time of a vector environment."""

from __future__ import annotations

import functools
from collections.abc import Callable
from threading import get_ident
from typing import Any, TypeVar, cast

__all__ = ["Method", "exclusive", "bare", "in_use", "ending"]

Method = TypeVar("Method", bound=Callable[..., Any])
Result = TypeVar("Result")

# The methods without their guard. By identity: a subclass's own method may have copied the
# attributes of the one that it takes the place of.
_BARE: dict[Any, Callable[..., Any]] = {}


def exclusive(method: Method) -> Method:
    """Refuse a call of a method of a vector environment while another one is under way.

    Both would write to the same rows and pipes. The other call may be that of another thread, or
    of the same one, which calls this from a signal handler or from code of the caller's own that
    a call runs.

    The class has ``_user``: the thread that is in a call; ``~`` of it while that call has lent
    itself to a method of a subclass, which may call others; else None. Its ``_refuse`` raises why
    a method may not be called now, and its ``_check_not_closed_meanwhile`` raises another error
    where ``close`` made a call fail.
    """

    @functools.wraps(method)
    def guarded(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        me = get_ident()
        user = self._user
        if user is not None and user != ~me:
            self._refuse(method.__name__)
        # Nothing is called since the look: neither another thread nor a signal has come between.
        self._user = me
        try:
            return method(self, *args, **kwargs)
        except Exception as error:
            self._check_not_closed_meanwhile(error)
            raise
        finally:
            self._user = user

    _BARE[guarded] = method
    return cast(Method, guarded)


def bare(method: Callable[..., Result]) -> Callable[..., Result] | None:
    """The function without its guard of a bound method; None where a subclass has its own."""
    return _BARE.get(getattr(method, "__func__", None))


def in_use(name: str, user: int | None) -> RuntimeError:
    """The error of a call of method ``name`` while thread ``user`` is in another one."""
    who = "this" if user == get_ident() else "another"
    return RuntimeError(
        f"Calling `{name}` while {who} thread is in a call of this vector environment{ending(user)}"
    )


def ending(user: int | None) -> str:
    """What a refusal ends with: where thread ``user`` is this one, what it may call."""
    if user != get_ident():
        return "."
    return (
        ": a signal handler, or code of the caller's own that a call runs, may call nothing but "
        "`close`."
    )
