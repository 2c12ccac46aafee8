"""Finding the handler of a class in two registries at once: gymvec's and Gymnasium's.

``functools.singledispatch`` caches what it finds, so it would not see what is registered
on Gymnasium's function afterwards. Walking both registries at each call is always right,
and compiled it takes less time than singledispatch's own look-up.
"""

from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject


cdef class Builtin:
    """gymvec's own handler of one class, and Gymnasium's that it is the twin of.

    ``gymvec.install`` puts this object on Gymnasium's registry. A user's handler there may
    ask for it by ``dispatch(Box)`` or ``registry[Box]`` and call it with an instance of a
    subclass, or from the very handler that took its place. Looking the instance's class up
    would then end in that handler again, so the whole look-up is only made where
    Gymnasium's function itself would choose this object.
    """

    cdef readonly object kind
    cdef readonly object standard
    cdef readonly object __wrapped__
    cdef object _handler
    cdef Router _router

    def __cinit__(self, Router router not None, kind, handler):
        self._router = router
        self.kind = kind
        self._handler = self.__wrapped__ = handler

    def __call__(self, *args, **kwargs):
        cdef Router router = self._router
        cdef object kind, chosen, handler = self._handler
        if args:
            kind = args[0].__class__
            if kind is self.kind:
                chosen = router._original_registry[kind]
            else:
                chosen = router._original_dispatch(kind)
            if chosen is self:
                handler = router.find(kind)
                if handler is self:
                    # A user registered this object for a class of their own.
                    handler = self._handler
        return handler(*args, **kwargs) if kwargs else handler(*args)

    @property
    def __name__(self):
        return self._handler.__name__

    @property
    def __module__(self):
        return self._handler.__module__

    def __repr__(self):
        return f"<gymvec's {self._router._original.__name__} of {self.kind.__name__}>"


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
    cdef object _original
    cdef object _original_dispatch
    cdef object _original_registry
    cdef object _twin
    cdef dict _builtins

    def __cinit__(self, table, original):
        self._dispatch = table.dispatch
        self._registry = table.registry
        self._original = original
        self._original_dispatch = original.dispatch
        self._original_registry = original.registry
        self._builtins = {}
        self.add_builtin(object, table.registry[object])

    def add_builtin(self, kind, handler):
        """Mark ``handler`` as the built-in one of ``kind``: a user's comes before it."""
        cdef Builtin builtin = Builtin.__new__(Builtin, self, kind, handler)
        self._builtins[kind] = builtin
        self._find_standard(builtin)

    cdef _find_standard(self, Builtin builtin):
        cdef object theirs = self._original_registry.get(builtin.kind)
        if getattr(theirs, "__module__", None) == self._original.__module__:
            builtin.standard = theirs

    def set_twin(self, twin):
        """Tell gymvec's public function: found on Gymnasium's registry, it is not a user's."""
        self._twin = twin

    def builtins(self):
        """The built-in handlers, each with Gymnasium's own where that is known.

        A handler that stood in for Gymnasium's at import may be gone by now.
        """
        for builtin in self._builtins.values():
            if (<Builtin>builtin).standard is None:
                self._find_standard(builtin)
        return tuple(self._builtins.values())

    def has(self, kind):
        """Whether a handler is registered for exactly this class, here or in Gymnasium."""
        return kind in self._registry or kind in self._original_registry

    cpdef find(self, kind):
        """The handler of the class ``kind``."""
        cdef PyObject* found = PyDict_GetItemWithError(self._builtins, kind)
        cdef Builtin builtin
        if found is not NULL:
            builtin = <Builtin>found
            # A class that Gymnasium had a handler for keeps having one.
            if (
                builtin.standard is not None
                and self._registry[kind] is builtin._handler
                and not self._users(self._original_registry[kind], builtin)
            ):
                return builtin._handler
        return self._walk(kind)

    cdef bint _users(self, theirs, Builtin builtin) except -1:
        """Whether a user registered ``theirs`` on Gymnasium's function.

        Where gymvec has no handler for the class, Gymnasium's own counts as a user's: a
        later Gymnasium may have spaces that are unknown here.
        """
        if theirs is None or theirs is self._twin:
            return False
        return builtin is None or (theirs is not builtin and theirs is not builtin.standard)

    cdef object _walk(self, kind):
        cdef object mine, theirs
        cdef Builtin builtin
        for base in kind.__mro__:
            builtin = self._builtins.get(base)
            mine = self._registry.get(base)
            if mine is not None and (builtin is None or mine is not builtin._handler):
                return mine
            theirs = self._original_registry.get(base)
            if self._users(theirs, builtin):
                return theirs
            if mine is not None and base is not object:
                return mine
        # What is left are virtual subclasses of abstract classes, and the default.
        builtin = self._builtins[object]
        mine = self._dispatch(kind)
        theirs = self._original_dispatch(kind)
        if mine is builtin._handler and self._users(theirs, builtin):
            return theirs
        return mine
