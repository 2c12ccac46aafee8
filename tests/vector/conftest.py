"""What the tests of this folder share."""

from multiprocessing.heap import Arena

import pytest
from control_words import layout

from gymvec.vector.transport.control_parent import Parent
from gymvec.vector.transport.control_worker import Worker


@pytest.fixture
def local():
    """A parent with queues of 3 and 2 environments, and their workers, all in this thread."""
    queues, size = layout([3, 2])
    segment = Arena(size)
    parent = Parent(segment.buffer, 0, queues, wait="block")
    workers = [Worker(segment.buffer, 0, *queue, wait="block") for queue in queues]
    yield parent, workers
    for subject in (parent, *workers):
        subject.close()
