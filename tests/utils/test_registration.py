"""Handlers that users register, on Gymnasium's functions or on gymvec's."""

import functools
import subprocess
import sys

import gymnasium.vector.utils as theirs
import pytest
from gymnasium.error import CustomSpaceError
from gymnasium.spaces import Box, Dict, Discrete, Space, Tuple

import gymvec.utils as ours

# Each function with the arguments that follow the space.
CALLS = {
    "batch_space": (2,),
    "iterate": ([1, 2],),
    "concatenate": ([1, 2], None),
    "create_empty_array": (2,),
    "create_shared_memory": (2,),
    "read_from_shared_memory": (None, 2),
    "write_to_shared_memory": (0, 1, None),
}
FUNCTIONS = pytest.mark.parametrize("name", CALLS)
# Where a handler is registered.
PACKAGES = pytest.mark.parametrize("package", [ours, theirs], ids=["gymvec", "gymnasium"])


def new_space(base=Space):
    """A class of its own, so that no test sees the handlers of another."""
    return type("Mine", (base,), {})


def instance(kind):
    if issubclass(kind, Box):
        return kind(0, 1, (2,))
    if issubclass(kind, Discrete):
        return kind(3)
    return kind([Discrete(2)]) if issubclass(kind, Tuple) else kind(None, None)


def answer(text):
    return lambda space, *args, **kwargs: text


def call(name, space):
    return getattr(ours, name)(space, *CALLS[name])


@FUNCTIONS
@PACKAGES
@pytest.mark.parametrize("base", [Space, Box, Discrete, Tuple])
def test_a_class_of_the_users(name, package, base):
    kind = new_space(base)
    getattr(package, name).register(kind, answer("mine"))
    assert call(name, instance(kind)) == "mine"


@FUNCTIONS
@PACKAGES
def test_registered_after_the_first_call(name, package):
    kind = new_space(Box)
    space = instance(kind)
    for _ in range(2):
        try:
            assert call(name, space) != "mine"
        except (TypeError, ValueError):
            # The arguments fit no Box; what matters is that its handler was asked.
            pass
    getattr(package, name).register(kind)(answer("mine"))
    assert call(name, space) == "mine"
    getattr(package, name).register(kind, answer("newer"))
    assert call(name, space) == "newer"


@FUNCTIONS
def test_gymvecs_registration_comes_first(name):
    kind = new_space(Box)
    getattr(ours, name).register(kind, answer("on gymvec"))
    getattr(theirs, name).register(kind, answer("on gymnasium"))
    assert call(name, instance(kind)) == "on gymvec"
    assert getattr(theirs, name)(instance(kind), *CALLS[name]) == "on gymnasium"


@FUNCTIONS
def test_the_nearer_class_comes_first(name):
    parent = new_space(Box)
    child = new_space(parent)
    getattr(ours, name).register(parent, answer("parent on gymvec"))
    assert call(name, instance(child)) == "parent on gymvec"
    getattr(theirs, name).register(child, answer("child on gymnasium"))
    assert call(name, instance(child)) == "child on gymnasium"
    assert call(name, instance(parent)) == "parent on gymvec"


@FUNCTIONS
@PACKAGES
def test_along_the_order_of_bases(name, package):
    left, right = new_space(Box), new_space(Box)
    both = type("Both", (left, right), {})
    getattr(package, name).register(right, answer("right"))
    assert call(name, instance(both)) == "right"
    getattr(package, name).register(left, answer("left"))
    assert call(name, instance(both)) == "left"


@FUNCTIONS
@PACKAGES
def test_a_mixin_that_is_no_space(name, package):
    mixin = type("Mixin", (), {})
    space = instance(type("Mixed", (mixin, Box), {}))
    getattr(package, name).register(mixin, answer("mixin"))
    assert call(name, space) == "mixin"


@FUNCTIONS
@PACKAGES
def test_a_class_that_is_no_space_at_all(name, package):
    kind = type("Odd", (), {})
    with pytest.raises(TypeError, match="not a gymnasium Space instance"):
        call(name, kind())
    getattr(package, name).register(kind, answer("odd"))
    assert call(name, kind()) == "odd"


@PACKAGES
def test_any_subset_of_the_functions(package):
    kind = new_space()
    space = instance(kind)
    package.iterate.register(kind, answer(iter(["a", "b"])))
    assert list(ours.iterate(space, None)) == ["a", "b"]
    assert ours.create_empty_array(space, 2) is None
    assert ours.concatenate(space, [1, 2], None) == (1, 2)
    with pytest.raises(CustomSpaceError):
        ours.create_shared_memory(space, 2)


@PACKAGES
def test_inside_other_spaces(package):
    kind = new_space(Box)
    inner = instance(kind)
    package.create_empty_array.register(kind, lambda space, n=1, fn=None: ["empty", n])
    package.concatenate.register(kind, lambda space, items, out: [out, *items])
    package.create_shared_memory.register(kind, lambda space, n=1, ctx=None: {})
    package.write_to_shared_memory.register(
        kind, lambda space, index, value, shared_memory: shared_memory.update({index: value})
    )
    package.read_from_shared_memory.register(
        kind, lambda space, shared_memory, n=1: [shared_memory.get(i) for i in range(n)]
    )
    package.iterate.register(kind, lambda space, items: iter(items))
    for space, wrap in ((Tuple([inner]), lambda x: (x,)), (Dict({"a": inner}), lambda x: {"a": x})):
        out = ours.create_empty_array(space, 2)
        assert out == wrap(["empty", 2])
        assert ours.concatenate(space, [wrap(1), wrap(2)], out) == wrap([["empty", 2], 1, 2])
        assert list(ours.iterate(space, wrap([3, 4]))) == [wrap(3), wrap(4)]
        memory = ours.create_shared_memory(space, 2)
        ours.write_to_shared_memory(space, 1, wrap("x"), memory)
        assert ours.read_from_shared_memory(space, memory, 2) == wrap([None, "x"])


@PACKAGES
def test_batch_differing_spaces(package):
    kind = new_space()
    spaces = [instance(kind), instance(kind)]
    with pytest.raises(TypeError, match="registered"):
        ours.batch_differing_spaces(spaces)
    package.batch_differing_spaces.register(kind, lambda spaces: len(spaces))
    assert ours.batch_differing_spaces(spaces) == 2
    # As in Gymnasium, only a handler of exactly this class counts.
    child = new_space(kind)
    with pytest.raises(TypeError, match="registered"):
        ours.batch_differing_spaces([instance(child)])


@PACKAGES
def test_what_register_returns(package):
    kind = new_space()

    @ours.iterate.register(kind)
    def handler(space, items):
        return "decorated"

    assert handler(None, None) == "decorated"
    assert ours.iterate(instance(kind), []) == "decorated"

    @ours.iterate.register
    def annotated(space: kind, items):
        return "annotated"

    assert annotated(None, None) == "annotated"
    assert ours.iterate(instance(kind), []) == "annotated"
    assert ours.iterate.registry[kind] is annotated
    assert ours.iterate.dispatch(kind) is annotated
    assert ours.iterate.dispatch(new_space(kind)) is annotated


class Handler:
    """A callable that is equal to others and so has no hash."""

    def __eq__(self, other):
        return True

    def __call__(self, space, *args, **kwargs):
        return "handled"


@FUNCTIONS
@PACKAGES
@pytest.mark.parametrize(
    "handler", [Handler(), functools.partial(Handler().__call__)], ids=["object", "partial"]
)
def test_handlers_that_are_no_functions(name, package, handler):
    kind = new_space(Box)
    getattr(package, name).register(kind, handler)
    assert call(name, instance(kind)) == "handled"


@pytest.mark.parametrize("name", [*CALLS, "batch_differing_spaces"])
def test_the_registry(name):
    function, original = getattr(ours, name), getattr(theirs, name)
    standard = {
        kind for kind, h in original.registry.items() if h.__module__ == original.__module__
    }
    assert standard <= set(function.registry)
    for kind in standard:
        assert function.registry[kind] is function.dispatch(kind)
        assert function.dispatch(kind) is not original.registry[kind]
    with pytest.raises(TypeError):
        function.registry[int] = None
    with pytest.raises(TypeError):
        function.register("no class", answer("x"))


OVERRIDE = """
import gymnasium.vector.utils as theirs
from gymnasium.spaces import Box, Discrete, Dict
def mine(space, *args, **kwargs): return "mine"
{before}
import gymvec.utils as ours
assert ours.create_empty_array(Discrete(2), 2).tolist() == [0, 0]
{after}
assert ours.create_empty_array(Box(0, 1, (2,)), 2) == "mine"
assert ours.create_empty_array(Dict({{"a": Box(0, 1, (2,))}}), 2) == {{"a": "mine"}}
assert ours.create_empty_array(type("Mine", (Box,), {{}})(0, 1, (2,)), 2) == "mine"
assert ours.create_empty_array(Discrete(2), 2).tolist() == [0, 0]
"""
REGISTER = "{}.create_empty_array.register(Box, mine)"


@pytest.mark.parametrize(
    "before, after",
    [
        (REGISTER.format("theirs"), ""),
        ("", REGISTER.format("theirs")),
        ("", "ours.create_empty_array(Box(0, 1, (2,)), 2);" + REGISTER.format("theirs")),
        ("", "ours.create_empty_array(Box(0, 1, (2,)), 2);" + REGISTER.format("ours")),
        (
            "def other(space, n=1, fn=None): return 'other'\ntheirs.create_empty_array.register(Box, other)",
            REGISTER.format("ours"),
        ),
    ],
    ids=["before the import", "after", "after a call", "on gymvec", "both"],
)
def test_a_built_in_class_of_the_users_own(before, after):
    # In a process of its own, as singledispatch has no way to take a handler back.
    code = OVERRIDE.format(before=before, after=after)
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
