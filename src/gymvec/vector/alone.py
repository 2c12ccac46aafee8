"""One thread at a time in the calls of a vector environment."""

from __future__ import annotations

import functools
from collections.abc import Callable
from threading import get_ident
from typing import Any, TypeVar, cast

__all__ = ["Method", "alone"]

Method = TypeVar("Method", bound=Callable[..., Any])


def alone(method: Method) -> Method:
    """Refuse a call of a method of ``Pending`` while another thread is in one.

    Both would write to the same pipes and rows. The calls of one thread may be within each other.
    """

    @functools.wraps(method)
    def guarded(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        me = get_ident()
        user = self._user
        if user is not None and user != me:
            self._refuse(method.__name__)
        # Nothing is called since the look: neither another thread nor Ctrl-C has come between.
        self._user = me
        try:
            return method(self, *args, **kwargs)
        except Exception as error:
            self._check_not_closed_meanwhile(error)
            raise
        finally:
            self._user = user

    return cast(Method, guarded)
