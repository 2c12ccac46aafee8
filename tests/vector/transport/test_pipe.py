"""Both kinds of pipe: messages arrive whole and in order, and no side waits for the other."""

import multiprocessing
import threading
import time

import pytest

from gymvec.vector.transport.pipe import MessagePipe, ThreadedMessagePipe

LONG = 30.0
LETTERS = [b"", b"a", b"b" * 70_000, b"\0\xff" * 3, b"c" * 3_000_000, b"d"]


@pytest.fixture(params=[MessagePipe, ThreadedMessagePipe])
def ends(request):
    ours, theirs = (request.param(end) for end in multiprocessing.Pipe())
    yield ours, theirs
    ours.close()
    theirs.close()


def until(condition):
    """Wait for what happens within moments; a test whose condition never comes fails here."""
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def next_message(pipe, other):
    """The next message of a pipe, while the other end goes on writing."""
    messages = []

    def arrived():
        other.flush()
        messages.append(pipe.receive())
        return messages[-1] is not None

    until(arrived)
    return messages[-1]


def test_messages_arrive_in_order(ends):
    ours, theirs = ends
    assert theirs.receive() is None
    for message in LETTERS:
        ours.keep(message)
    assert [next_message(theirs, ours) for _ in LETTERS] == LETTERS
    assert theirs.receive() is None
    assert ours.sent == len(LETTERS) and theirs.received == len(LETTERS)
    until(ours.flush)
    assert not ours.unwritten


def test_neither_side_waits_for_the_other(ends):
    ours, theirs = ends
    big = b"x" * 2_000_000
    assert not ours.post(big) or ours.sent == 1
    assert not theirs.post(big) or theirs.sent == 1
    assert next_message(theirs, ours) == big
    assert next_message(ours, theirs) == big


def test_a_message_that_is_not_parsed_stays(ends):
    ours, theirs = ends
    ours.post(b"message")
    into = {}

    def fails(message):
        assert message == b"message"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        until(lambda: theirs.take(fails, into))
    assert into == {} and theirs.received == 0
    assert theirs.take(lambda message: {1: message}, into)
    assert into == {1: b"message"} and theirs.received == 1
    assert not theirs.take(fails, into)


def test_wait_ends_with_a_message(ends):
    ours, theirs = ends
    timer = threading.Timer(0.05, ours.post, [b"message"])
    timer.start()
    begun = time.monotonic()
    theirs.wait(LONG)
    assert time.monotonic() - begun < LONG / 2
    until(lambda: theirs.receive() == b"message")
    timer.join()


def test_wait_ends_by_itself(ends):
    begun = time.monotonic()
    ends[0].wait(0.02)
    assert time.monotonic() - begun >= 0.015


def test_the_other_side_is_gone(ends):
    ours, theirs = ends
    ours.post(b"last")
    until(ours.flush)
    ours.close()
    assert next_message(theirs, theirs) == b"last"

    def ended():
        with pytest.raises(EOFError):
            while theirs.receive() is None:
                theirs.wait(0.01)
        return True

    until(ended)
    ended()  # and it stays so

    def breaks():
        try:
            theirs.post(b"x" * 100_000)
        except (BrokenPipeError, ConnectionResetError):
            return True
        return False

    until(breaks)
    theirs.forget()
    assert not theirs.unwritten


def test_only_bytes_are_messages(ends):
    for wrong in ("text", None, 3):
        with pytest.raises(TypeError):
            ends[0].post(wrong)
        with pytest.raises(TypeError):
            ends[0].keep(wrong)
    assert ends[0].sent == 0 and not ends[0].unwritten
