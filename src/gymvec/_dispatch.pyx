"""Finding the handler of a class in two registries at once: gymvec's and Gymnasium's.

``functools.singledispatch`` caches what it finds, so it would not see what is registered
on Gymnasium's function afterwards. Walking both registries at each call is always right,
and compiled it takes less time than singledispatch's own look-up.
"""

from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject


cdef class Router:
    """Handlers of a single-dispatch function and of its twin in Gymnasium.

    ``router.find(kind)`` returns the handler of a class. At each class along the method
    resolution order, what a user registered here comes first, then what a user registered
    on Gymnasium's function, then the built-in handler.

    Args:
        table: gymvec's function, made by ``functools.singledispatch``.
        original: Gymnasium's function of the same name.
    """

    cdef object _dispatch
    cdef object _registry
    cdef object _original_dispatch
    cdef object _original_registry
    cdef dict _builtin
    cdef dict _standard
    cdef dict _not_users

    def __init__(self, table, original):
        self._dispatch = table.dispatch
        self._registry = table.registry
        self._original_dispatch = original.dispatch
        self._original_registry = original.registry
        self._builtin = {object: table.registry[object]}
        self._standard = {
            kind: handler
            for kind, handler in original.registry.items()
            if handler.__module__ == original.__module__
        }
        # By identity: a handler need not have a hash.
        self._not_users = {id(handler): handler for handler in self._standard.values()}

    def add_builtin(self, kind, handler):
        """Mark ``handler`` as the built-in one of ``kind``: a user's comes before it."""
        self._builtin[kind] = handler

    def add_installed(self, handler):
        """Mark ``handler`` as gymvec's own where it stands on Gymnasium's registry."""
        self._not_users[id(handler)] = handler

    @property
    def standard(self):
        """Gymnasium's own handlers by class, as they were at import."""
        return dict(self._standard)

    def has(self, kind):
        """Whether a handler is registered for exactly this class, here or in Gymnasium."""
        return kind in self._registry or kind in self._original_registry

    def find(self, kind):
        """The handler of the class ``kind``."""
        cdef PyObject* builtin = PyDict_GetItemWithError(self._builtin, kind)
        cdef PyObject* standard = PyDict_GetItemWithError(self._standard, kind)
        cdef object theirs
        if (
            builtin is not NULL
            and standard is not NULL
            and self._registry[kind] is <object>builtin
        ):
            theirs = self._original_registry[kind]
            if theirs is <object>standard or id(theirs) in self._not_users:
                return <object>builtin
        return self._walk(kind)

    cdef object _walk(self, kind):
        cdef object mine, theirs
        for base in kind.__mro__:
            mine = self._registry.get(base)
            if mine is not None and mine is not self._builtin.get(base):
                return mine
            theirs = self._original_registry.get(base)
            if theirs is not None and id(theirs) not in self._not_users:
                return theirs
            if mine is not None and base is not object:
                return mine
        # What is left are virtual subclasses of abstract classes, and the default.
        mine = self._dispatch(kind)
        theirs = self._original_dispatch(kind)
        if mine is self._builtin[object] and id(theirs) not in self._not_users:
            return theirs
        return mine
