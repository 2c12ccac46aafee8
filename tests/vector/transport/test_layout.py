"""The layout of shared memory is the one that docs/internals/memory.md shows."""

import math
import re
from pathlib import Path

import gymnasium as gym
import pytest

from gymvec.vector.transport.memory import Layout

PAGE = Path(__file__).parents[3] / "docs" / "internals" / "memory.md"


@pytest.fixture
def layout():
    with gym.make("CartPole-v1") as env:
        return Layout(env.observation_space, env.action_space, num_envs=8, num_workers=2)


def test_the_map_of_eight_cartpoles(layout):
    text = PAGE.read_text(encoding="utf-8")
    (size,) = re.findall(r"eight CartPoles with two workers have ([\d,]+) bytes", text)
    table = text.partition("| offset | region | offset | region |")[2].partition("\n\n")[0]
    offsets = sorted(map(int, re.findall(r"\| (\d+) \|", table)))
    (observations,) = layout.observations
    (actions,) = layout.actions
    places = [
        place.offset
        for part in layout.slices
        for place in (part.rewards, part.terminations, part.truncations, part.messages)
    ]
    places += [part.queue for part in layout.slices]
    places += [observations.offset, actions.rows.offset, actions.codes.offset]
    assert offsets == sorted([layout.header, *places, layout.info_slots.offset])
    assert layout.size == int(size.replace(",", ""))


def extent(place):
    """Where an array begins, and its bytes."""
    return place.offset, place.dtype.itemsize * math.prod(place.shape)


@pytest.mark.parametrize(("num_envs", "num_workers"), [(1, 1), (8, 3), (300, 7)])
def test_nothing_overlaps_and_no_two_writers_share_a_line(num_envs, num_workers):
    space = gym.spaces.Dict(a=gym.spaces.Box(-1, 1, (3,)), b=gym.spaces.Discrete(5))
    layout = Layout(space, space, num_envs, num_workers, num_sets=2)
    places = [block for blocks in layout.observations for block in blocks.values()]
    places += [place for action in layout.actions for place in (action.rows, action.codes)]
    places += [part.rewards for part in layout.slices]
    places.append(layout.info_slots)
    regions = [extent(place) for place in places]
    regions += [
        (layout.header, 256),
        *((part.queue, 128 + 16 * part.size) for part in layout.slices),
    ]
    assert all(offset % 64 == 0 for offset, _ in regions)
    # They share lines with the rewards of the same worker, and with nothing else.
    regions += [
        extent(place)
        for part in layout.slices
        for place in (part.terminations, part.truncations, part.messages)
    ]
    regions.sort()
    for (start, size), (following, _) in zip(regions, regions[1:], strict=False):
        assert start + size <= following
    assert regions[-1][0] + regions[-1][1] <= layout.size
    for part in layout.slices:
        begin = part.rewards.offset
        for place in (part.terminations, part.truncations, part.messages):
            assert begin < place.offset < begin + 11 * part.size
