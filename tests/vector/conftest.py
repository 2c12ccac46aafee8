"""What the tests of this folder share."""

from multiprocessing.heap import Arena

import pytest
from control_words import layout

from gymvec.vector.transport.control_parent import Parent
from gymvec.vector.transport.control_worker import Worker


@pytest.fixture
def local():
    """A parent with lanes of 3 and 2 environments, and their workers, all in this thread."""
    lanes, size = layout([3, 2])
    arena = Arena(size)
    parent = Parent(arena.buffer, 0, lanes, wait="block")
    workers = [Worker(arena.buffer, 0, *lane, wait="block") for lane in lanes]
    yield parent, workers
    for subject in (parent, *workers):
        subject.close()
