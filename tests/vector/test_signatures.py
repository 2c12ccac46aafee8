"""Signatures are Gymnasium's, and errors of Python's name the class that callers know."""

import inspect
import pickle
from functools import partial

import gymnasium as gym
import pytest
from scripted import Scripted

import gymvec

KINDS = ("SyncVectorEnv", "AsyncVectorEnv")
METHODS = [
    (kind, name)
    for kind in KINDS
    for name, method in inspect.getmembers(getattr(gym.vector, kind), inspect.isfunction)
    if name == "__init__" or not name.startswith("_")
]
CALLS = {
    "reset": lambda envs: envs.reset(1, 2),
    "step": lambda envs: envs.step(),
    "call": lambda envs: envs.call(),
    "get_attr": lambda envs: envs.get_attr(1, 2),
    "set_attr": lambda envs: envs.set_attr("a"),
    "render": lambda envs: envs.render(1),
    "close": lambda envs: envs.close(1),
    "close_extras": lambda envs: envs.close_extras(1, 2, 3),
}
ASYNC_CALLS = CALLS | {
    "reset_async": lambda envs: envs.reset_async(other=1),
    "reset_wait": lambda envs: envs.reset_wait(other=1),
    "step_async": lambda envs: envs.step_async(),
    "step_wait": lambda envs: envs.step_wait(other=1),
    "call_async": lambda envs: envs.call_async(),
    "call_wait": lambda envs: envs.call_wait(other=1),
    "close_extras": lambda envs: envs.close(other=1),
}
OWN_CALLS = {
    "async_reset": lambda envs: envs.async_reset(other=1),
    "send": lambda envs: envs.send(),
    "recv": lambda envs: envs.recv(other=1),
}


def parameters(function):
    return [
        (parameter.name, parameter.kind, parameter.default)
        for parameter in inspect.signature(function).parameters.values()
    ]


class Loads(Scripted):
    def load(self, /, *args, **kwargs):
        return args, kwargs


@pytest.fixture(params=KINDS)
def envs(request):
    envs = getattr(gymvec, request.param)([Loads] * 2)
    yield envs
    envs.close()


@pytest.fixture
def async_envs():
    envs = gymvec.AsyncVectorEnv([Loads] * 2, num_workers=1)
    yield envs
    envs.close()


@pytest.mark.parametrize(("kind", "name"), METHODS)
def test_methods(kind, name):
    ours = parameters(getattr(getattr(gymvec, kind), name))
    theirs = parameters(getattr(getattr(gym.vector, kind), name))
    assert ours[: len(theirs)] == theirs
    assert all(
        kind is inspect.Parameter.KEYWORD_ONLY or default is not inspect.Parameter.empty
        for _, kind, default in ours[len(theirs) :]
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_public_name_is_there(kind):
    public = {name for name in dir(getattr(gym.vector, kind)) if not name.startswith("_")}
    assert public <= set(dir(getattr(gymvec, kind)))
    assert issubclass(getattr(gymvec, kind), gymvec.VectorEnv)


def test_make_vec():
    assert parameters(gymvec.make_vec) == parameters(gym.make_vec)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:.*came before `gymvec.install")
def test_classes_that_are_installed(kind):
    with gymvec.installation(vector_envs=True):
        installed = getattr(gym.vector, kind)

        class Derived(installed):
            def __init__(self, mine, *, more=1):
                super().__init__([mine])

        assert parameters(installed) == parameters(getattr(gymvec, kind))
        assert [name for name, *_ in parameters(Derived)] == ["mine", "more"]
        assert [name for name, *_ in parameters(gym.make_vec)][:3] == [
            "id",
            "num_envs",
            "vectorization_mode",
        ]


@pytest.mark.parametrize("name", ["name", "self"])
def test_arguments_of_a_call_may_have_any_name(async_envs, name):
    theirs = gym.vector.AsyncVectorEnv([Loads] * 2)
    for envs in (async_envs, theirs):
        envs.call_async("load", 1, **{name: "q"})
        assert envs.call_wait() == (((1,), {name: "q"}),) * 2
    theirs.close()


def named(envs, call):
    with pytest.raises(TypeError) as caught:
        call(envs)
    return str(caught.value).partition("()")[0]


@pytest.mark.parametrize("name", CALLS)
def test_errors_name_the_class(envs, name):
    assert named(envs, CALLS[name]) == f"{type(envs).__name__}.{name}"
    assert not envs.closed


@pytest.mark.parametrize("name", ASYNC_CALLS)
def test_errors_name_the_async_class_as_gymnasiums_do(async_envs, name):
    theirs = gym.vector.AsyncVectorEnv([Loads] * 2)
    wanted = named(theirs, ASYNC_CALLS[name])
    assert named(async_envs, ASYNC_CALLS[name]) == f"AsyncVectorEnv.{name}"
    assert wanted.rpartition(".")[2] == name
    theirs.close()
    assert len(async_envs.reset()) == 2


@pytest.mark.parametrize("name", OWN_CALLS)
def test_errors_of_further_methods(async_envs, name):
    assert named(async_envs, OWN_CALLS[name]) == f"AsyncVectorEnv.{name}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:.*came before `gymvec.install")
def test_errors_of_constructors(kind):
    cls = getattr(gymvec, kind)
    assert named(None, lambda _: cls([Loads], other=1)) == f"{kind}.__init__"
    assert named(None, lambda _: cls()) == f"{kind}.__init__"
    with gymvec.installation(vector_envs=True):
        cls = getattr(gym.vector, kind)
        assert named(None, lambda _: cls([Loads], other=1)) == f"{kind}.__init__"


@pytest.mark.parametrize("kind", KINDS)
def test_methods_are_pickled_by_their_names(kind):
    cls = getattr(gymvec, kind)
    for name in ("reset", "step", "call", "close"):
        method = getattr(cls, name)
        assert pickle.loads(pickle.dumps(partial(method))).func is method
        assert method.__qualname__ == f"{kind}.{name}"
