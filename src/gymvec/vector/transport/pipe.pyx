"""One end of a pipe for messages, and what Ctrl-C must not cut in two.

Compiled because Ctrl-C is noticed between two steps of Python code, and nowhere in here but at
the calls that this file says so of: what was read is not lost, and nothing is written twice.
"""

cimport cython
from cpython.dict cimport PyDict_Update
from libc.stdint cimport uint64_t
from libc.string cimport memcpy

import os
import select
import socket
import sys
import threading
from _queue import Empty, SimpleQueue
from collections import deque

cdef extern from *:
    """
    #if defined(_WIN32) || defined(GV_PORTABLE)
    #define GV_THREADED 1
    #else
    #define GV_THREADED 0
    #endif
    """
    const bint GV_THREADED

THREADED = bool(GV_THREADED)
"""Whether vector environments use :class:`ThreadedMessagePipe`: on Windows, in portable builds."""

cdef enum:
    HEADER_BYTES = 8  # the size of the message
    READ_BYTES = 1 << 18


@cython.final
cdef class MessagePipe:
    """One end of a duplex pipe that is never waited for in a write.

    Args:
        connection: The end, from ``context.Pipe()``. It becomes non-blocking.

    Attributes:
        connection: The end.
        sent: Messages that were taken to be sent.
        received: Messages that were handed out.
    """

    cdef readonly object connection
    cdef readonly Py_ssize_t sent
    cdef readonly Py_ssize_t received
    cdef int _fd
    cdef object _unwritten
    cdef bytearray _read

    def __cinit__(self, connection):
        self.connection = connection
        self._fd = connection.fileno()
        os.set_blocking(self._fd, False)
        self._unwritten = deque()
        self._read = bytearray()

    @property
    def unwritten(self):
        """Whether there is something left to write."""
        return len(self._unwritten) > 0

    def keep(self, bytes message not None):
        """Take a message that :meth:`flush` will write."""
        self.put(message)

    cdef int put(self, bytes message) except -1:
        cdef uint64_t size = <uint64_t>len(message)
        header = (<char*>&size)[:HEADER_BYTES]
        self._unwritten.extend((memoryview(header), memoryview(message)))
        self.sent += 1
        return 0

    def forget(self):
        """Give up what is unwritten: the other side is gone."""
        self._unwritten.clear()

    def post(self, bytes message not None):
        """Send a message, or keep what does not go now. Returns whether all is written."""
        self.put(message)
        return self.flush()

    def flush(self):
        """Write what was kept, as far as it goes now. Returns whether all is written.

        Raises:
            BrokenPipeError: The other side is gone.
        """
        while self._unwritten:
            part = self._unwritten[0]
            try:
                # A signal is noticed here only where nothing was written.
                written = os.write(self._fd, part)
            except BlockingIOError:
                return False
            if written == len(part):
                self._unwritten.popleft()
            else:
                self._unwritten[0] = part[written:]
        return True

    def receive(self):
        """The next message if all of it is there, without waiting, or None.

        Raises:
            EOFError: The other side is gone, and every whole message was handed out.
        """
        cdef Py_ssize_t size = self.whole()
        if size < 0:
            return None
        message = bytes(self._read[HEADER_BYTES:HEADER_BYTES + size])
        self.drop(size)
        return message

    def take(self, parse, dict into not None):
        """Hand the next message out, or leave it where it is: nothing in between.

        Args:
            parse: Function of a message that returns a dict; called again with the same message
                where it was interrupted.
            into: Takes the items of that dict.

        Returns:
            Whether there was a message.

        Raises:
            EOFError: As in :meth:`receive`.
        """
        cdef Py_ssize_t size = self.whole()
        if size < 0:
            return False
        items = parse(bytes(self._read[HEADER_BYTES:HEADER_BYTES + size]))
        PyDict_Update(into, items)
        self.drop(size)
        return True

    cdef Py_ssize_t whole(self) except -2:
        """Read until there is a whole message; its size, or -1 where there is none yet."""
        cdef uint64_t size
        while True:
            if len(self._read) >= HEADER_BYTES:
                memcpy(&size, <char*>self._read, HEADER_BYTES)
                if <uint64_t>(len(self._read) - HEADER_BYTES) >= size:
                    return <Py_ssize_t>size
            try:
                # A signal is noticed here only where nothing was read.
                data = os.read(self._fd, READ_BYTES)
            except BlockingIOError:
                return -1
            except ConnectionResetError as error:
                raise EOFError("the other end of the pipe is gone") from error
            if not data:
                raise EOFError("the other end of the pipe is closed")
            self._read += data

    cdef int drop(self, Py_ssize_t size) except -1:
        del self._read[:HEADER_BYTES + size]
        self.received += 1
        return 0

    def wait(self, double seconds):
        """Wait until there is something to read, or room for what is unwritten."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN | (select.POLLOUT if self._unwritten else 0))
        poll.poll(seconds * 1000)

    def close(self):
        """Close this end."""
        self._unwritten.clear()
        self.connection.close()


# What a sender puts among the messages that came, to end a wait: all is written, or the end.
cdef object WRITTEN = object()
cdef object ENDED = object()


@cython.final
cdef class ThreadedMessagePipe:
    """A :class:`MessagePipe` for pipes that can only be waited for, as on Windows.

    One thread writes and one reads, whole messages each; between them and the caller are queues
    whose methods are not Python code, so that Ctrl-C finds a message on one side or the other. The
    threads begin with the first use, after all workers were started.

    Args:
        connection: The end, from ``context.Pipe()``. It stays blocking.

    Attributes:
        connection: The end.
        sent: Messages that were taken to be sent.
        received: Messages that were handed out.
    """

    cdef readonly object connection
    cdef readonly Py_ssize_t sent
    cdef readonly Py_ssize_t received
    cdef Py_ssize_t _written
    cdef object _outgoing
    cdef object _incoming
    cdef object _message
    cdef object _error
    cdef bint _started
    cdef bint _ended

    def __cinit__(self, connection):
        connection.fileno()  # as early as MessagePipe finds what is no connection
        self.connection = connection
        self._outgoing = SimpleQueue()
        self._incoming = SimpleQueue()

    cdef int start(self) except -1:
        if not self._started:
            for target in (self._send, self._receive):
                threading.Thread(target=target, daemon=True).start()
            self._started = True
        return 0

    def _send(self):
        """The thread that writes; None ends it."""
        while (message := self._outgoing.get()) is not None:
            try:
                self.connection.send_bytes(message)
            except OSError as error:
                self._error = error
                break
            self._written += 1
            if self._written == self.sent:
                self._incoming.put(WRITTEN)

    def _receive(self):
        """The thread that reads, until the other side is gone."""
        try:
            while True:
                self._incoming.put(self.connection.recv_bytes())
        except (EOFError, OSError):
            self._incoming.put(ENDED)

    @property
    def unwritten(self):
        """Whether there is something left to write."""
        return self._written < self.sent

    def keep(self, bytes message not None):
        """Take a message, which is written from now on."""
        self.put(message)

    cdef int put(self, bytes message) except -1:
        self._outgoing.put(message)
        self.sent += 1
        return 0

    def forget(self):
        """Give up what is unwritten: the other side is gone."""
        self._written = self.sent
        self._error = None

    def post(self, bytes message not None):
        """Send a message. Returns whether all is written."""
        self.put(message)
        return self.flush()

    def flush(self):
        """Whether all is written.

        Raises:
            BrokenPipeError: The other side is gone.
        """
        self.start()
        if self._error is not None and self._written < self.sent:
            raise BrokenPipeError("the other end of the pipe is gone") from self._error
        return self._written >= self.sent

    def receive(self):
        """As :meth:`MessagePipe.receive`."""
        if not self.fetch(0.0):
            return None
        message, self._message = self._message, None
        self.received += 1
        return message

    def take(self, parse, dict into not None):
        """As :meth:`MessagePipe.take`."""
        if not self.fetch(0.0):
            return False
        items = parse(self._message)
        PyDict_Update(into, items)
        self._message = None
        self.received += 1
        return True

    cdef bint fetch(self, double seconds) except -1:
        """Whether a message is at hand, after one wait."""
        self.start()
        while self._message is None and not self._ended:
            try:
                found = self._incoming.get(seconds > 0, seconds)
            except Empty:
                return False
            if found is ENDED:
                self._ended = True
            elif found is not WRITTEN:
                self._message = found
            elif seconds > 0:
                return False
        if self._message is None:
            raise EOFError("the other end of the pipe is closed")
        return True

    def wait(self, double seconds):
        """Wait until there is something to read, or all is written."""
        try:
            self.fetch(seconds)
        except EOFError:
            pass  # Told by what reads or writes next.

    def close(self):
        """Close this end."""
        self._outgoing.put(None)
        self.forget()
        if sys.platform != "win32" and self._started and not self.connection.closed:
            # A thread that reads goes on reading what was closed, or what has its number next.
            with socket.socket(fileno=os.dup(self.connection.fileno())) as end:
                end.shutdown(socket.SHUT_RDWR)
        self.connection.close()


def publish(doorbell, command, envs, list messages not None, bint immediate):
    """Send a command and take its messages, both or neither.

    Args:
        doorbell: The parent's control words, a
            :class:`gymvec.vector.transport.control_parent.Parent`.
        command: Opcode.
        envs: The environments; None for all.
        messages: Pairs of a pipe and a message, still to be flushed.
        immediate: As for ``Parent.send``.

    Raises:
        ValueError: As in ``Parent.send``; no message is taken.
    """
    # The caller's list may change while the control words run code of theirs.
    messages = [(pipe, message) for pipe, message in messages]
    for pipe, message in messages:
        if type(pipe) not in (MessagePipe, ThreadedMessagePipe) or type(message) is not bytes:
            raise TypeError(f"expected a MessagePipe and bytes, got {type(pipe)}, {type(message)}")
    if envs is None:
        doorbell.send_all(command, immediate)
    else:
        doorbell.send(envs, command, immediate)
    for pipe, message in messages:
        if type(pipe) is MessagePipe:
            (<MessagePipe>pipe).put(<bytes>message)
        else:
            (<ThreadedMessagePipe>pipe).put(<bytes>message)


def drain(doorbell, limit, list into not None):
    """Take answers that are there, and note whose they are.

    Args:
        doorbell: As for :func:`publish`.
        limit: Most answers to take.
        into: Takes the environments.
    """
    into += doorbell.drain(limit)
