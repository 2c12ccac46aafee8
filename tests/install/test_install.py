"""install, uninstall, installed and installation in one process."""

import copy
import pickle
import threading

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import (
    Box,
    Dict,
    Discrete,
    Graph,
    MultiBinary,
    MultiDiscrete,
    OneOf,
    Sequence,
    Space,
    Text,
    Tuple,
)
from gymnasium.vector import utils as theirs
from gymnasium.vector.utils import clear_mpi_env_vars as their_clear_mpi_env_vars
from gymnasium.vector.utils import concatenate, create_empty_array

import gymvec
from gymvec import vector as gymvec_vector

NAMES = (
    "batch_space",
    "batch_differing_spaces",
    "iterate",
    "concatenate",
    "create_empty_array",
    "create_shared_memory",
    "read_from_shared_memory",
    "write_to_shared_memory",
)
PLACES = (theirs, theirs.misc, gymnasium.vector.async_vector_env)
BOX = Box(-1, 1, (3,), np.float32, seed=1)
DICT = Dict(a=Box(0, 1, (2,)), b=Tuple((Discrete(3, start=1), MultiBinary(2))), seed=2)


def registries():
    return {name: dict(getattr(theirs, name).registry) for name in NAMES}


@pytest.fixture(autouse=True)
def untouched():
    """Each test begins with Gymnasium as it is and leaves it so."""
    before = registries()
    yield
    gymvec.uninstall()
    now = registries()
    for name in NAMES:
        assert {kind: now[name][kind] for kind in before[name]} == before[name]
    assert "__reduce__" not in vars(theirs.CloudpickleWrapper)
    assert all(place.clear_mpi_env_vars is their_clear_mpi_env_vars for place in PLACES)


@pytest.fixture
def handler_of_box():
    """Puts Gymnasium's own handler back on batch_space after a test that replaced it."""
    original = theirs.batch_space.registry[Box]
    yield original
    gymvec.uninstall()
    theirs.batch_space.register(Box, original)


def runs_on_gymvec():
    """Gymnasium's own handler of Dict fails on a generator, after the first key."""
    items = (DICT.sample() for _ in range(2))
    try:
        concatenate(DICT, items, create_empty_array(DICT, n=2))
    except ValueError:
        return False
    return True


def test_on_and_off():
    before = registries()
    assert not gymvec.installed() and not runs_on_gymvec()
    gymvec.install()
    assert gymvec.installed() and runs_on_gymvec()
    now = registries()
    for name in NAMES:
        assert now[name].keys() == before[name].keys()
        for kind, handler in before[name].items():
            if kind is object or kind.__module__.startswith("gymnasium."):
                assert now[name][kind] is not handler
    gymvec.uninstall()
    assert not gymvec.installed() and not runs_on_gymvec()
    assert registries() == before


def test_functions_and_wrapper_stay_the_same_objects():
    before = [getattr(theirs, name) for name in (*NAMES, "CloudpickleWrapper")]
    gymvec.install()
    assert before == [getattr(theirs, name) for name in (*NAMES, "CloudpickleWrapper")]


def test_repeated_calls():
    gymvec.uninstall()
    gymvec.install()
    once = registries()
    gymvec.install()
    assert registries() == once
    gymvec.uninstall()
    gymvec.uninstall()
    assert not gymvec.installed()


SPACES = [
    BOX,
    Discrete(5, seed=1),
    MultiDiscrete([2, 3], seed=1),
    MultiBinary((2, 2), seed=1),
    DICT,
    Tuple((BOX, Text(4)), seed=1),
    OneOf((BOX, Discrete(2)), seed=1),
    Sequence(BOX, stack=True, seed=1),
    Graph(BOX, Discrete(3), seed=1),
]


def shown(value):
    """A value in a form that compares, with its types."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return type(value), [(key, shown(part)) for key, part in value.items()]
    if isinstance(value, tuple):
        return type(value), [shown(part) for part in value]
    return type(value), value


@pytest.mark.parametrize("space", SPACES, ids=lambda space: type(space).__name__)
def test_same_results(space):
    def results():
        batch = theirs.batch_space(space, n=3)
        items = [copy.deepcopy(space).sample() for _ in range(3)]
        out = theirs.create_empty_array(space, n=3)
        together = theirs.concatenate(space, items, out)
        found = [batch, shown(together), theirs.batch_differing_spaces([space, space])]
        if not isinstance(space, Discrete):
            found.append([shown(item) for item in theirs.iterate(batch, together)])
        if not isinstance(space, Graph | Sequence):
            memory = theirs.create_shared_memory(space, n=3)
            for index in range(3):
                theirs.write_to_shared_memory(space, index, items[index], memory)
            found.append(shown(theirs.read_from_shared_memory(space, memory, n=3)))
        return found

    without = results()
    gymvec.install()
    assert results() == without


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("space", [3, None, [3], [Discrete(2), Box(0, 1)], []], ids=str)
def test_same_errors(name, space):
    if name == "batch_differing_spaces" and gymnasium.__version__ < "1.4":
        pytest.skip("before 1.4 these were assertions")
    function = getattr(theirs, name)
    arguments = {"iterate": 1, "concatenate": 2, "read_from_shared_memory": 1}.get(name, 0)
    arguments = 3 if name == "write_to_shared_memory" else arguments

    def error():
        with pytest.raises((TypeError, ValueError)) as caught:
            function(space, *[None] * arguments)
        # What follows lists handlers with their addresses.
        return caught.type, str(caught.value).partition("current list")[0]

    without = error()
    gymvec.install()
    assert error() == without


class Unregistered(Space):
    def __init__(self):
        super().__init__((2,), np.float32)

    def __eq__(self, other):
        return type(other) is Unregistered

    def sample(self, mask=None, probability=None):
        return "sample"

    def contains(self, x):
        return True


class SubBox(Box):
    pass


@pytest.mark.parametrize("inner", [Unregistered(), SubBox(0, 1, (2,))], ids=["custom", "subclass"])
def test_tuple_of_unregistered_spaces_iterates_over_the_items(inner):
    space, items = Tuple((inner, inner)), ((1, 2), (3, 4))
    without = list(theirs.iterate(space, items))
    gymvec.install()
    assert list(theirs.iterate(space, items)) == without == [(1, 2), (3, 4)]


def test_unregistered_space_as_without():
    space = Unregistered()
    without = theirs.batch_space(space, n=2), theirs.concatenate(space, "ab", None)
    gymvec.install()
    assert (theirs.batch_space(space, n=2), theirs.concatenate(space, "ab", None)) == without
    for name, rest in (("create_shared_memory", ()), ("iterate", (None,))):
        with pytest.raises(gymnasium.error.CustomSpaceError, match=f"registered `{name}` func"):
            getattr(theirs, name)(space, *rest)


def test_cached_look_ups_do_not_survive():
    class Cached(Box):
        pass

    space = Cached(0, 1, (2,))
    theirs.batch_space(space)
    original = theirs.batch_space.dispatch(Cached)
    gymvec.install()
    assert theirs.batch_space.dispatch(Cached) is not original
    theirs.batch_space(space)
    gymvec.uninstall()
    assert theirs.batch_space.dispatch(Cached) is original


@pytest.mark.parametrize("register_on", [theirs, gymvec.utils], ids=["gymnasium", "gymvec"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_users_handlers_are_heard(register_on, when):
    class Mine(Box):
        pass

    class MineToo(Mine):
        pass

    def handler(space, n=1):
        return "mine", n

    if when == "before":
        register_on.batch_space.register(Mine, handler)
    gymvec.install()
    if when == "after":
        register_on.batch_space.register(Mine, handler)
    for kind in (Mine, MineToo):
        space = kind(0, 1, (2,))
        assert theirs.batch_space(space, n=2) == ("mine", 2)
        assert gymvec.utils.batch_space(space, 3) == ("mine", 3)
    theirs.iterate.register(Mine, lambda space, items: iter("mine"))
    assert list(theirs.iterate(Tuple((Mine(0, 1, (2,)),)), ([7],))) == [(c,) for c in "mine"]
    gymvec.uninstall()
    if register_on is theirs:
        assert theirs.batch_space(Mine(0, 1), n=2) == ("mine", 2)


def test_users_handler_inside_a_structure():
    class Mine(Box):
        pass

    theirs.concatenate.register(Mine, lambda space, items, out: "mine")
    gymvec.install()
    space = Dict(a=Mine(0, 1), b=Tuple((Mine(0, 1),)))
    out = theirs.create_empty_array(space, n=2)
    result = theirs.concatenate(space, [space.sample() for _ in range(2)], out)
    assert result == {"a": "mine", "b": ("mine",)}


@pytest.mark.parametrize("ask", ["dispatch", "registry"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_users_handler_that_calls_the_one_of_the_base_class(ask, when):
    class Mine(Box):
        pass

    def of_box():
        if ask == "dispatch":
            return theirs.batch_space.dispatch(Box)
        return theirs.batch_space.registry[Box]

    if when == "after":
        gymvec.install()
    theirs.batch_space.register(Mine, lambda space, n=1: ("mine", of_box()(space, n)))
    gymvec.install()
    expected = ("mine", Box(0, 1, (2, 3)))
    assert theirs.batch_space(Mine(0, 1, (3,)), 2) == expected
    assert gymvec.utils.batch_space(Mine(0, 1, (3,)), 2) == expected
    gymvec.uninstall()
    assert theirs.batch_space(Mine(0, 1, (3,)), 2) == expected


@pytest.mark.parametrize("when", ["before", "after"])
def test_users_handler_around_the_one_it_replaced(handler_of_box, when):
    if when == "after":
        gymvec.install()
    before = theirs.batch_space.dispatch(Box)
    theirs.batch_space.register(Box, lambda space, n=1: ("mine", before(space, n)))
    expected = ("mine", Box(-1, 1, (2, 3)))
    for change in (gymvec.install, gymvec.uninstall, gymvec.install):
        change()
        assert theirs.batch_space(BOX, 2) == expected
        assert gymvec.utils.batch_space(BOX, 2) == expected


def test_handler_of_a_built_in_class_stays(handler_of_box):
    def mine(space, n=1):
        return "mine"

    theirs.batch_space.register(Box, mine)
    gymvec.install()
    assert theirs.batch_space(BOX, 2) == "mine"
    gymvec.uninstall()
    assert theirs.batch_space.registry[Box] is mine


def test_handler_that_came_later_is_left(handler_of_box):
    def mine(space, n=1):
        return "mine"

    gymvec.install()
    theirs.batch_space.register(Box, mine)
    gymvec.uninstall()
    assert theirs.batch_space.registry[Box] is mine
    gymvec.install()
    assert theirs.batch_space(BOX) == gymvec.utils.batch_space(BOX) == "mine"


@pytest.mark.parametrize("when", ["before", "after"])
def test_built_in_handler_registered_for_a_class_of_ones_own(when):
    class Mine(Space):
        pass

    class MineToo(Mine):
        pass

    if when == "after":
        gymvec.install()
    theirs.iterate.register(Mine, theirs.iterate.dispatch(Box))
    for change in (gymvec.uninstall, gymvec.install, gymvec.uninstall):
        for kind in (Mine, MineToo):
            assert list(theirs.iterate(kind(), [1, 2])) == [1, 2]
            assert list(gymvec.utils.iterate(kind(), [1, 2])) == [1, 2]
        change()
    # The registration stays; other tests shall not take it for Gymnasium's.
    theirs.iterate.register(Mine, lambda space, items: iter(items))


def test_space_that_only_a_later_gymnasium_knows():
    class Later(Space):
        pass

    def handler(space, n=1):
        return "theirs"

    handler.__module__ = theirs.batch_space.__module__
    theirs.batch_space.register(Later, handler)
    gymvec.install()
    assert theirs.batch_space(Later()) == gymvec.utils.batch_space(Later()) == "theirs"
    assert theirs.batch_space.registry[Later] is handler
    # The registration stays; other tests shall not take it for Gymnasium's.
    handler.__module__ = __name__


@pytest.mark.parametrize("name", NAMES)
def test_what_stands_on_the_registry_looks_like_a_handler(name):
    gymvec.install()
    handler = getattr(theirs, name).registry[Box]
    assert callable(handler) and "box" in repr(handler).lower()
    assert handler.__name__ and handler.__wrapped__ and handler.__module__.startswith("gymvec")
    with pytest.raises(TypeError, match="argument"):
        handler()


def test_sequence_and_graph_use_it():
    gymvec.install()
    space = Sequence(DICT, stack=True, seed=1)
    assert space.sample() in space
    graph = Graph(BOX, Discrete(3), seed=1)
    assert graph.from_jsonable(graph.to_jsonable([graph.sample()]))[0] in graph


def test_clear_mpi_env_vars_is_rebound_and_put_back():
    gymvec.install()
    for place in PLACES:
        assert place.clear_mpi_env_vars is gymvec.utils.clear_mpi_env_vars
    theirs.clear_mpi_env_vars = int
    gymvec.uninstall()
    assert theirs.clear_mpi_env_vars is int
    theirs.clear_mpi_env_vars = their_clear_mpi_env_vars
    assert theirs.misc.clear_mpi_env_vars is their_clear_mpi_env_vars


class Counted(theirs.CloudpickleWrapper):
    """A subclass with more to keep."""

    def __init__(self, fn, count):
        super().__init__(fn)
        self.count = count

    def __getstate__(self):
        return self.count, super().__getstate__()

    def __setstate__(self, state):
        self.count = state[0]
        super().__setstate__(state[1])


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_wrappers_pickle_over_install_and_uninstall(protocol):
    def cycle(*wrappers):
        return [pickle.loads(pickle.dumps(wrapper, protocol)) for wrapper in wrappers]

    number = 42
    wrapper, counted = theirs.CloudpickleWrapper(lambda: number), Counted(lambda: number, 7)
    old = pickle.dumps(wrapper, protocol)
    gymvec.install()
    new = pickle.dumps(wrapper, protocol)
    assert pickle.loads(old)() == pickle.loads(new)() == 42
    again, counted_again = cycle(wrapper, counted)
    assert type(again) is theirs.CloudpickleWrapper and again() == copy.deepcopy(wrapper)() == 42
    assert type(counted_again) is Counted and counted_again.count == 7 and counted_again() == 42
    gymvec.uninstall()
    assert pickle.loads(new)() == pickle.loads(old)() == 42
    assert not gymvec.installed(), "unpickling undid uninstall()"


def test_installation():
    with gymvec.installation():
        assert gymvec.installed()
        with gymvec.installation():
            pass
        assert gymvec.installed() and runs_on_gymvec()
    assert not gymvec.installed() and not runs_on_gymvec()
    with pytest.raises(KeyError), gymvec.installation():
        raise KeyError
    assert not gymvec.installed()


def test_gymnasium_with_other_insides_stays_untouched(monkeypatch):
    before = registries()
    theirs.CloudpickleWrapper.__reduce__ = lambda self: (int, ())
    try:
        with pytest.raises(RuntimeError, match="CloudpickleWrapper is pickled. Nothing was ch"):
            gymvec.install()
    finally:
        del theirs.CloudpickleWrapper.__reduce__
    with monkeypatch.context() as patch:
        patch.setattr(gymvec.utils.iterate, "original", theirs.concatenate)
        with pytest.raises(RuntimeError, match=f"{gymnasium.__version__}.*the parameters of"):
            gymvec.install()
    with monkeypatch.context() as patch:
        patch.delattr(gymnasium.vector.async_vector_env, "clear_mpi_env_vars")
        with pytest.raises(RuntimeError, match="clear_mpi_env_vars"):
            gymvec.install()
    assert registries() == before and not gymvec.installed()
    gymvec.install()


def test_threads():
    errors, stop = [], threading.Event()
    expected = shown(concatenate(BOX, [np.ones(3, np.float32)], create_empty_array(BOX)))

    def change():
        try:
            for _ in range(30):
                gymvec.install()
                gymvec.uninstall()
        except Exception as error:
            errors.append(error)

    def use():
        try:
            while not stop.is_set():
                items = [np.ones(3, np.float32)]
                assert shown(concatenate(BOX, items, create_empty_array(BOX))) == expected
        except Exception as error:
            errors.append(error)

    changing = [threading.Thread(target=change) for _ in range(4)]
    using = [threading.Thread(target=use) for _ in range(2)]
    for thread in [*using, *changing]:
        thread.start()
    for thread in changing:
        thread.join()
    stop.set()
    for thread in using:
        thread.join()
    assert errors == [] and not gymvec.installed()


class Fast(gymnasium.vector.SyncVectorEnv):
    pass


class FastAsync(gymnasium.vector.VectorEnv):
    def __init__(self, env_fns, shared_memory=True, num_workers=None, worker=None):
        assert worker is None
        self.num_envs, self.num_workers = len(env_fns), num_workers
        self.metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP}
        self.closed = True


def custom_worker(*args):
    gymnasium.vector.async_vector_env._async_worker(*args)


# Modules of other tests have the classes of Gymnasium.
@pytest.mark.filterwarnings("ignore:.*came before `gymvec.install")
def test_vector_envs(monkeypatch):
    sync, asynchronous = gymnasium.vector.SyncVectorEnv, gymnasium.vector.AsyncVectorEnv
    monkeypatch.setattr(gymvec_vector, "SyncVectorEnv", Fast, raising=False)
    monkeypatch.setattr(gymvec_vector, "AsyncVectorEnv", FastAsync, raising=False)
    gymvec.install()
    assert gymnasium.vector.SyncVectorEnv is sync
    with gymvec.installation(vector_envs=True):
        env = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
        assert type(env) is Fast
        env.close()
        env = gymnasium.make_vec(
            "CartPole-v1", 2, vectorization_mode="async", vector_kwargs={"num_workers": 3}
        )
        assert type(env) is FastAsync and env.num_workers == 3
        assert isinstance(env, gymnasium.vector.AsyncVectorEnv)
        assert not isinstance(env, gymnasium.vector.SyncVectorEnv)
        assert issubclass(FastAsync, gymnasium.vector.AsyncVectorEnv)
        theirs_now = gymnasium.make_vec(
            "CartPole-v1", 1, vectorization_mode="async", vector_kwargs={"worker": custom_worker}
        )
        assert type(theirs_now) is asynchronous
        assert isinstance(theirs_now, gymnasium.vector.AsyncVectorEnv)
        theirs_now.close()

        class Derived(gymnasium.vector.AsyncVectorEnv):
            pass

        assert type(Derived([None])) is Derived and not isinstance(env, Derived)
        assert isinstance(Derived([None]), FastAsync)
    assert gymnasium.vector.SyncVectorEnv is sync
    assert gymnasium.vector.AsyncVectorEnv is asynchronous
    assert gymvec.installed()
    gymvec.install(vector_envs=True)
    gymvec.install()
    assert gymnasium.vector.SyncVectorEnv is not sync
    gymvec.uninstall()
    assert gymnasium.vector.SyncVectorEnv is sync
    assert gymnasium.vector.AsyncVectorEnv is asynchronous
