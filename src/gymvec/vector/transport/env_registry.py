"""Registered environments, for workers that do not inherit the parent's registry.

An id may be registered by a module that the worker does not import, or in ``__main__`` under
its guard, which the worker does not run.
"""

from __future__ import annotations

import contextlib
import pickle

from gymnasium.envs.registration import registry

__all__ = ["other_specs", "register_missing"]


def other_specs() -> list[bytes]:
    """The specs that importing Gymnasium does not register, pickled one by one."""
    # Imported where it is needed: it takes a quarter of the time of importing gymvec.
    import cloudpickle

    specs = []
    for spec in registry.values():
        if not str(spec.entry_point).startswith("gymnasium.envs."):
            # One that cannot travel is missing only where it is asked for. By value, as
            # cloudpickle does it: a class under the guard of ``__main__`` cannot be imported.
            with contextlib.suppress(Exception):
                specs.append(cloudpickle.dumps((spec.id, spec)))
    return specs


def register_missing(specs: list[bytes]) -> None:
    """Register those of :func:`other_specs` that this process does not know."""
    for packed in specs:
        with contextlib.suppress(Exception):
            name, spec = pickle.loads(packed)
            registry.setdefault(name, spec)
