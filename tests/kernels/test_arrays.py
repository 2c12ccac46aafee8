"""What kernels ask of an array, and that one that declines or raises has touched nothing."""

import numpy as np
import pytest
from kernels.test_rows import Subclass
from names import name_of

from gymvec.kernels.infos import InfoBatch
from gymvec.vector.parent.fast_step import StepResults
from gymvec.vector.stepping import SAME_STEP, StepBlocks, step_environments
from gymvec.vector.transport.action_block import ActionBlock
from gymvec.vector.transport.info_schemas import MAX_SCHEMAS, SlotColumns, SlotWriter, same_schema
from gymvec.vector.worker.stepper import Stepper

N = 2
FLOATS, FLAGS = np.zeros(N), np.zeros(N, np.bool_)
BYTES, SLOTS = np.zeros(N, np.uint8), np.zeros((N, 64), np.uint8)
ENVS, NUMBERS = np.arange(N), np.zeros(N, np.int32)
TABLE = np.zeros((1, MAX_SCHEMAS + 1), np.int32)


def blocks(rewards=FLOATS, terminations=FLAGS, truncations=FLAGS):
    return StepBlocks(rewards.copy(), terminations.copy(), truncations.copy())


def stepper(messages):
    nothing = [print] * N
    return Stepper(
        nothing, [nothing], blocks(), messages, SlotWriter(SLOTS.copy()), SAME_STEP, 0, print, print
    )


def results(place, array):
    """StepResults of one worker with ``array`` in one place of four."""
    part = [FLOATS, FLAGS, FLAGS, FLAGS]
    part[place] = array
    return StepResults([part])


def schemas(place, array):
    arrays = [SLOTS, TABLE, NUMBERS, NUMBERS.copy()]
    arrays[place] = array
    return same_schema(*arrays)


def step(ended):
    nothing = [None] * N
    step_environments(nothing, nothing, nothing, blocks(), ended, SAME_STEP, InfoBatch(N), print)


def misaligned(array):
    """The same elements, one byte beside where they belong."""
    memory = np.zeros(array.nbytes + 1, np.uint8)
    moved = memory[1:].view(array.dtype).reshape(array.shape)
    moved[...] = array
    return moved


# A good array, and what takes it: each function that keeps the pointer of an array or raises.
TAKES = {
    "rewards": (FLOATS, lambda a: StepBlocks(a, FLAGS.copy(), FLAGS.copy())),
    "terminations": (FLAGS, lambda a: StepBlocks(FLOATS.copy(), a, FLAGS.copy())),
    "truncations": (FLAGS, lambda a: StepBlocks(FLOATS.copy(), FLAGS.copy(), a)),
    "ended": (FLAGS, step),
    "messages": (FLAGS, stepper),
    "rows of actions": (np.zeros((N, 8), np.uint8), lambda a: ActionBlock(a, BYTES.copy(), ())),
    "codes of actions": (BYTES, lambda a: ActionBlock(np.zeros((N, 8), np.uint8), a, ())),
    "slots to write": (SLOTS, SlotWriter),
    "out of same_schema": (NUMBERS, lambda a: schemas(3, a)),
}
READS = {
    "envs of actions": (
        ENVS,
        lambda a: ActionBlock(np.zeros((N, 8), np.uint8), BYTES.copy(), ()).put([1, 2], a),
    ),
    "envs of results": (ENVS, lambda a: StepResults([[FLOATS, FLAGS, FLAGS, FLAGS]]).gather(a)),
    "rewards of a worker": (FLOATS, lambda a: results(0, a)),
    "flags of a worker": (FLAGS, lambda a: results(1, a)),
    "messages of a worker": (FLAGS, lambda a: results(3, a)),
    "slots to read": (SLOTS, lambda a: SlotColumns(a, [])),
    "slots of same_schema": (SLOTS, lambda a: schemas(0, a)),
    "table of same_schema": (TABLE, lambda a: schemas(1, a)),
    "workers of same_schema": (NUMBERS, lambda a: schemas(2, a)),
}


def wrong(good, written):
    """Arrays that are not quite like ``good``, by what is wrong with them."""
    wide = np.repeat(good, 2, axis=-1)
    made = {
        "subclass": good.copy().view(Subclass),
        "strided": wide[..., ::2],
        "more dimensions": good[None].copy(),
        "fewer dimensions": good[0].copy(),
        "another dtype": good.astype(np.float32),
        "a list": good.tolist(),
        "none": None,
    }
    if good.dtype.itemsize > 1:
        made["byte order"] = good.astype(good.dtype.newbyteorder())
        made["misaligned"] = misaligned(good)
    if written:
        made["read-only"] = good.copy()
        made["read-only"].flags.writeable = False
    return made


def cases():
    for takes, written in ((TAKES, True), (READS, False)):
        for name, (good, take) in takes.items():
            for fault, array in wrong(good, written).items():
                # None means all environments there.
                if (name, fault) != ("envs of actions", "none"):
                    yield pytest.param(take, array, id=f"{name}: {fault}")


@pytest.mark.parametrize(("take", "array"), list(cases()))
def test_other_arrays_are_errors(take, array):
    with pytest.raises((TypeError, ValueError), match="expected|Argument '|must not be None"):
        take(array)


@pytest.mark.parametrize("name", [*READS, *sorted(set(TAKES) - {"ended"})])
def test_such_arrays_are_taken(name):
    good, take = (READS | TAKES)[name]
    array = good.copy()
    array.flags.writeable = name in TAKES
    take(array)


def test_the_message_says_what_was_wanted():
    with pytest.raises(ValueError) as raised:
        StepBlocks(np.zeros(2), np.zeros(3, np.bool_), np.zeros(2, np.bool_))
    assert str(raised.value) == (
        "expected terminations as a writable, C-contiguous array of bool with 1 dimension(s) and "
        "length 2, got array([False, False, False])"
    )


# --- declined, and nothing touched -------------------------------------------------------

DECLINED = [
    [1, "x"], (1.5, None), [1, 2**70], [2.5, -(2**63) - 1], [1, True], [1, np.int64(2)], [1],
    [1, 2, 3], np.zeros(3), np.zeros((2, 1)), np.array([1, "x"], object), np.zeros(2, np.longdouble),
    np.zeros(4)[::2].reshape(2, 1), {1: 2}, "ab",
]  # fmt: skip


@pytest.mark.parametrize("envs", [None, np.array([1, 0])], ids=["all", "some"])
@pytest.mark.parametrize("actions", DECLINED, ids=name_of)
def test_declined_actions_leave_the_block_as_it_was(actions, envs):
    rows, codes = np.full((2, 8), 7, np.uint8), np.full(2, 9, np.uint8)
    assert ActionBlock(rows, codes, ()).put(actions, envs) is False
    assert (rows == 7).all()
    assert (codes == 9).all()


@pytest.mark.parametrize("actions", [[1, 2], (1.0, 2), np.zeros(2), np.zeros(4)[::2]], ids=name_of)
def test_actions_of_an_environment_outside_leave_the_block_as_it_was(actions):
    rows, codes = np.full((2, 8), 7, np.uint8), np.full(2, 9, np.uint8)
    for envs in ([0, 2], [0, -1]):
        with pytest.raises(IndexError, match="outside"):
            ActionBlock(rows, codes, ()).put(actions, np.array(envs))
    assert (rows == 7).all()
    assert (codes == 9).all()


@pytest.mark.parametrize(
    "actions",
    [
        np.arange(24.0).reshape(4, 6)[::2, ::2],
        np.arange(6, dtype=">i4").reshape(2, 3),
        np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
        misaligned(np.arange(6.0).reshape(2, 3)),
    ],
    ids=["strided", "swapped", "columns first", "misaligned"],
)
@pytest.mark.parametrize("envs", [None, np.array([2, 0])], ids=["all", "some"])
def test_actions_in_another_order_arrive(actions, envs):
    if envs is None:
        block = ActionBlock(np.zeros((2, 24), np.uint8), np.zeros(2, np.uint8), (3,))
    else:
        block = ActionBlock(np.zeros((3, 24), np.uint8), np.zeros(3, np.uint8), (3,))
    assert block.put(actions, envs) is True
    for env, expected in zip([0, 1] if envs is None else envs, actions, strict=True):
        action = block(env)
        assert action.dtype == actions.dtype.newbyteorder("=")
        assert action.tolist() == expected.tolist()


class Raises:
    """A value whose conversion raises."""

    def __bool__(self):
        raise KeyError("no value")

    __float__ = __bool__


@pytest.mark.parametrize(
    "returned",
    [
        (Raises(), True, True),
        (5.0, Raises(), True),
        (5.0, True, Raises()),
        (np.zeros(2), True, True),
        (5, True, np.zeros(2)),
    ],
    ids=["reward", "terminated", "truncated", "shape of the reward", "shape of the flag"],
)
def test_a_result_that_raises_leaves_its_row_as_it_was(returned):
    rewards, terminations, truncations = np.full(2, 3.0), FLAGS.copy(), FLAGS.copy()
    writer = StepBlocks(rewards, terminations, truncations)
    with pytest.raises((KeyError, ValueError)):
        writer.put(1, *returned)
    assert rewards.tolist() == [3.0, 3.0]
    assert not terminations.any()
    assert not truncations.any()


@pytest.mark.parametrize("flag", [1, 0, "x", "", [], [5], None, np.array([True]), 2.5], ids=name_of)
@pytest.mark.parametrize("reward", [2, True, np.float32(0.1), np.array([3]), "4.5"], ids=name_of)
def test_odd_results_are_those_of_an_assignment(reward, flag):
    rewards, flags = np.zeros(1), np.zeros((2, 1), np.bool_)
    expected_reward, expected_flag = np.zeros(1), np.zeros(1, np.bool_)
    errors = (ValueError, TypeError)
    try:
        expected_reward[0] = np.squeeze(reward) if isinstance(reward, np.ndarray) else reward
        expected_flag[0] = flag
    except errors as error:
        with pytest.raises(type(error)):
            StepBlocks(rewards, *flags).put(0, reward, flag, False)
        return
    assert StepBlocks(rewards, *flags).put(0, reward, flag, False) is expected_flag.tolist()[0]
    assert rewards.tolist() == expected_reward.tolist()
    assert flags.tolist() == [expected_flag.tolist(), [False]]
