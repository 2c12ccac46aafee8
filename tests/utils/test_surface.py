"""What gymvec.utils looks like: names, signatures, docstrings and their examples."""

import doctest
import importlib
import importlib.resources
import inspect
import pkgutil
import re
import warnings

import gymnasium.vector.utils as theirs
import pytest

import gymvec
import gymvec.utils as ours

FUNCTIONS = [
    name for name in theirs.__all__ if inspect.isfunction(inspect.unwrap(getattr(theirs, name)))
]
MODULES = [
    module.name
    for module in pkgutil.walk_packages(gymvec.__path__, "gymvec.")
    if not module.name.endswith("__main__")
]


def test_names():
    assert ours.__all__ == theirs.__all__
    for name in ours.__all__:
        assert getattr(ours, name).__module__.split(".")[0] == "gymvec"
        assert getattr(ours, name).__name__ == name
        assert getattr(ours, name).__qualname__ == name


@pytest.mark.parametrize("module", ["space_utils", "shared_memory", "misc"])
def test_modules_have_the_same_names(module):
    mine = importlib.import_module(f"gymvec.utils.{module}")
    original = importlib.import_module(f"gymnasium.vector.utils.{module}")
    assert mine.__all__ == original.__all__
    for name in mine.__all__:
        assert getattr(mine, name) is getattr(ours, name)
    assert inspect.getdoc(mine)


def parameters(function):
    return [
        (parameter.name, parameter.kind, parameter.default)
        for parameter in inspect.signature(function).parameters.values()
    ]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signatures(name):
    assert parameters(getattr(ours, name)) == parameters(getattr(theirs, name))
    annotations = inspect.get_annotations(inspect.unwrap(getattr(ours, name)))
    assert {*annotations} == {name for name, *_ in parameters(getattr(ours, name))} | {"return"}


def test_signatures_of_the_wrapper():
    methods = [
        name for name, value in vars(theirs.CloudpickleWrapper).items() if inspect.isfunction(value)
    ]
    assert len(methods) == 4
    for name in methods:
        mine = getattr(ours.CloudpickleWrapper, name)
        assert parameters(mine) == parameters(getattr(theirs.CloudpickleWrapper, name))
        assert inspect.getdoc(mine)


def sections(function):
    return re.findall(r"^(Args|Returns|Yields|Raises|Examples?):$", inspect.getdoc(function), re.M)


@pytest.mark.parametrize("name", theirs.__all__)
def test_docstring_sections(name):
    mine, original = sections(getattr(ours, name)), sections(getattr(theirs, name))
    assert set(original) <= set(mine)
    assert mine == [s for s in ("Args", "Returns", "Yields", "Raises", "Example") if s in mine]
    assert inspect.getdoc(getattr(ours, name)) != inspect.getdoc(getattr(theirs, name))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_docstrings_name_every_argument(name):
    doc = inspect.getdoc(getattr(ours, name))
    for argument, *_ in parameters(getattr(theirs, name)):
        assert re.search(rf"^    {argument}: ", doc, re.M), argument


@pytest.mark.parametrize("name", MODULES)
def test_modules_and_their_examples(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module = importlib.import_module(name)
    results = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.failed == 0


@pytest.mark.parametrize("name", [n for n in theirs.__all__ if n != "clear_mpi_env_vars"])
def test_examples_are_run(name):
    # doctest follows __module__, which a decorator could hide.
    module = importlib.import_module(getattr(ours, name).__module__)
    found = [
        test for test in doctest.DocTestFinder().find(module) if test.name.endswith(f".{name}")
    ]
    assert found and found[0].examples


def test_there_are_modules():
    assert {
        "gymvec.utils",
        "gymvec.kernels.rows",
        "gymvec.utils._array_spaces",
        "gymvec.utils._dispatch",
    } <= set(MODULES)


@pytest.mark.parametrize("name", ["kernels.rows", "utils._array_spaces", "utils._dispatch"])
def test_stubs_name_what_there_is(name):
    module = importlib.import_module(f"gymvec.{name}")
    file = f"{name.replace('.', '/')}.pyi"
    stub = (importlib.resources.files("gymvec") / file).read_text()
    for public in re.findall(r"^(?:def|class) (\w+)", stub, re.M):
        assert hasattr(module, public), public
        assert inspect.getdoc(getattr(module, public)), public
    defined = {
        key
        for key, value in vars(module).items()
        if getattr(value, "__module__", None) == module.__name__ and not key.startswith("_")
    }
    assert defined <= set(re.findall(r"^(?:def|class) (\w+)", stub, re.M))
