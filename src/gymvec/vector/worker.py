"""The worker's side: wait for commands, step environments, write, answer."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from gymnasium import Env, Space
from gymnasium.vector.vector_env import AutoresetMode

from gymvec import _bell, _steps
from gymvec._bell_worker import Worker
from gymvec._mailbox import THREADED
from gymvec._serve import Stepper, serve_pass
from gymvec._slots import SlotWriter
from gymvec._steps import StepBlocks
from gymvec.utils import CloudpickleWrapper
from gymvec.vector.actions import bind_action_reader
from gymvec.vector.arena import Arena, Layout
from gymvec.vector.copies import keep_terminal
from gymvec.vector.distinct import check_distinct
from gymvec.vector.errors import pack_error, text_of
from gymvec.vector.interrupts import let_interrupts_through
from gymvec.vector.lost import behind, set_lost
from gymvec.vector.mail import Mailbox, Subject, dumps, join_parts, parts_of
from gymvec.vector.registered import register_missing
from gymvec.vector.rows import bind_writer
from gymvec.vector.spaces import goes_with
from gymvec.vector.waiting import WaitMeter

__all__ = ["Command", "Orders", "run_worker"]

# How long a worker with unwritten letters waits for the pipe before it looks at its bell.
_FLUSH_SECONDS = 0.001
# How often a worker asks whether its parent lives, where no thread watches (Windows).
_PARENT_SECONDS = 1.0
_MODES = {
    AutoresetMode.NEXT_STEP: _steps.NEXT_STEP,
    AutoresetMode.SAME_STEP: _steps.SAME_STEP,
    AutoresetMode.DISABLED: _steps.DISABLED,
}


class Command(IntEnum):
    """What the parent asks of an environment. The letter that some come with has a part for each
    environment, with its pickled arguments."""

    STEP = 0  # the action is in the arena
    STEP_BY_LETTER = 1
    RESET = 2  # without seed and options
    RESET_BY_LETTER = 3
    CALL = 4
    SET_ATTR = 5
    CLOSE = 6


@dataclass
class Orders:
    """All that a worker needs to know, handed to its process."""

    index: int
    parent_pid: int
    arena: Arena
    layout: Layout
    env_fns: CloudpickleWrapper[Any]
    connection: Any
    unused: list[Any]
    observation_mode: str | tuple[Space[Any], Space[Any]]
    observation_space: Space[Any]
    action_space: Space[Any]
    autoreset_mode: AutoresetMode
    wait: str
    polling: bool
    core: int | None
    specs: list[bytes]
    measures_waiting: bool
    # Of a worker in place of one that died: the pickled last observation of each environment.
    last_seen: dict[int, bytes] | None


def run_worker(orders: Orders) -> None:
    """The target of a worker process."""
    _take_signals()
    for connection in orders.unused:
        connection.close()
    register_missing(orders.specs)
    part = orders.layout.slices[orders.index]
    bell = Worker(
        orders.arena.buffer,
        orders.layout.hub,
        part.lane,
        part.size,
        wait=orders.wait,
        polling=orders.polling,
    )
    bell.watch_parent(orders.parent_pid)
    mailbox = Mailbox(orders.connection)
    _Worker(orders, bell, mailbox).run()


def _take_signals() -> None:
    """Undo what a fork has copied of the parent's signal handling."""
    # The parent alone decides what Ctrl-C ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if callable(signal.getsignal(signal.SIGTERM)):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    let_interrupts_through()


class _Worker:
    def __init__(self, orders: Orders, bell: Worker, mailbox: Mailbox) -> None:
        self._bell = bell
        self._mailbox = mailbox
        self._part = orders.layout.slices[orders.index]
        self._first = self._part.start
        self._orders = orders
        self._letters = self._part.letters.view(orders.arena)
        self._outbox: list[tuple[int, Subject, bytes]] = []
        self._reports: list[tuple[int, Subject, bytes]] = []
        self._inbox: dict[int, memoryview] = {}
        self._envs: list[Any] = [None] * self._part.size
        self._open = self._part.size
        self._stepper: Stepper | None = None
        self._actions: Any = None
        self._meter = WaitMeter() if orders.measures_waiting and self._part.size > 1 else None
        self._is_copy = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._disown)

    def _disown(self) -> None:
        """This process is a child that an environment has forked: it must not answer."""
        self._is_copy = True
        # Unless another thread waits on it, which is not here.
        with contextlib.suppress(RuntimeError):
            self._bell.close()

    def _let_copies_end(self, error: BaseException) -> None:
        """Where an environment raised: in a child that it has forked, that ends the child."""
        if self._is_copy:
            # `sys.exit`, above all.
            raise error

    def run(self) -> None:
        """Serve until every environment is closed."""
        commands: dict[int, Callable[[int], None]] = {Command.CLOSE: self._close}
        if self._build():
            commands |= self._bind()
        if self._orders.last_seen is None:
            self._mailbox.post(join_parts(self._reports))
        else:
            self._resume(self._orders.last_seen)
        bell, stepper, actions = self._bell, self._stepper, self._actions
        fail, post, step = self._fail, self._post_outbox, int(Command.STEP)
        while self._open > 0:
            self._rest()
            # While it is measured a step is a command like others.
            plain = step if self._meter is None else -1
            serve_pass(bell, stepper, plain, actions, commands, fail, post)
            post()
        self._write_all()

    def _rest(self) -> None:
        """Wait for the bell; meanwhile write what the pipe did not take at first."""
        while not self._mailbox.flush():
            self._mailbox.wait(_FLUSH_SECONDS)
            if self._bell.wait(0):
                return
        if not THREADED:
            self._bell.wait()
            return
        while not self._bell.wait(_PARENT_SECONDS):
            if not _bell.parent_alive(self._orders.parent_pid):
                os._exit(_bell.ORPHANED_EXIT)

    # --- letters ---

    def _send(self, env: int, content: Any, schema: Any = None) -> None:
        """Announce a letter with the answer that comes next, and write it after the pass."""
        self._letters[env] = True
        if schema is not None:
            self._outbox.append((self._first + env, Subject.SCHEMA, dumps(schema)))
        self._outbox.append(self._envelope(env, content))

    def _fail(self, env: int, error: BaseException) -> None:
        self._let_copies_end(error)
        self._letters[env] = True
        self._outbox.append((self._first + env, Subject.ERROR, pack_error(error)))

    def _envelope(self, env: int, content: Any) -> tuple[int, Subject, bytes]:
        # Pickled at once: the next environment may change what this one has returned.
        index = self._first + env
        try:
            return index, Subject.ANSWER, dumps(content)
        except BaseException as error:
            failure = RuntimeError(
                f"what environment {index} returned cannot be pickled: "
                f"{type(error).__name__}: {text_of(error)}"
            )
            return index, Subject.ERROR, pack_error(failure)

    def _post_outbox(self) -> None:
        if self._outbox:
            outbox, self._outbox = self._outbox, []
            self._mailbox.post(join_parts(outbox))

    def _argument_of(self, env: int) -> Any:
        """What the parent sent with the command of an environment, unpickled anew for each."""
        index = self._first + env
        while index not in self._inbox:
            letter = self._mailbox.receive()
            if letter is None:
                self._mailbox.wait(1.0)
            else:
                self._inbox.update((env, content) for env, _, content in parts_of(letter))
        return pickle.loads(self._inbox.pop(index))

    # --- environments ---

    def _build(self) -> bool:
        """Make the environments and reports about them. Whether all can be worked with."""
        orders = self._orders
        fits = True
        env_fns: Any = orders.env_fns.fn
        for i, env_fn in enumerate(env_fns):
            try:
                if orders.core is not None:
                    os.sched_setaffinity(0, {orders.core})
                env = self._envs[i] = env_fn()
                if i + 1 == self._part.size:
                    check_distinct(self._envs, self._first)
                report = self._describe(env)
            except BaseException as error:
                self._let_copies_end(error)
                self._reports.append((self._first + i, Subject.ERROR, pack_error(error)))
                return False
            fits = fits and report["same_observation_space"] and report["same_action_space"]
            self._reports.append(self._envelope(i, report))
        return fits

    def _describe(self, env: Env) -> dict[str, Any]:
        orders = self._orders
        if orders.observation_mode == "same":
            same = orders.observation_space == env.observation_space
        else:
            same = goes_with(env.observation_space, orders.observation_space)
        return {
            "same_observation_space": same,
            "same_action_space": orders.action_space == env.action_space,
            "observation_space": (
                env.observation_space if orders.observation_mode == "different" else None
            ),
            "metadata": dict(env.metadata),
            "render_mode": env.render_mode,
        }

    def _bind(self) -> dict[int, Callable[[int], None]]:
        """What to do at each command but a plain step and the last."""
        arena, layout, part = self._orders.arena, self._orders.layout, self._part
        self._actions = bind_action_reader(layout, arena)
        self._stepper = stepper = Stepper(
            self._envs,
            [
                [bind_writer(blocks, self._first + i) for i in range(part.size)]
                for blocks in layout.observation_blocks(arena)
            ],
            StepBlocks(
                part.rewards.view(arena),
                part.terminations.view(arena),
                part.truncations.view(arena),
                first=part.start,
            ),
            self._letters,
            SlotWriter(layout.info_slots.view(arena)[part.start : part.stop]),
            _MODES[self._orders.autoreset_mode],
            self._first,
            keep_terminal,
            self._send,
        )
        return {
            Command.STEP: self._measured_step,
            Command.STEP_BY_LETTER: lambda env: stepper.step(env, self._argument_of(env)),
            Command.RESET: lambda env: stepper.reset(env, seed=None, options=None),
            Command.RESET_BY_LETTER: lambda env: stepper.reset(env, **self._argument_of(env)),
            Command.CALL: self._call,
            Command.SET_ATTR: self._set_attr,
        }

    def _measured_step(self, env: int) -> None:
        assert self._stepper is not None
        step = self._stepper.step
        meter, action = self._meter, self._actions(self._first + env)
        if meter is None:
            # The last step that was measured is behind us in this pass.
            step(env, action)
            return
        meter.measure(step, env, action)
        if not meter.done:
            return
        self._meter = None
        share = meter.share()
        if share is not None:
            self._outbox.append((self._first + env, Subject.WAITS, dumps(share)))
            if not self._letters[env]:
                self._send(env, (None, []))

    def _resume(self, last_seen: dict[int, bytes]) -> None:
        """Go on in place of a worker that died; end with the reason where that cannot be."""
        failure = b""
        if self._stepper is None:
            env, subject, packed = self._reports[-1]
            failure = packed
            if subject is not Subject.ERROR:
                error = RuntimeError(f"environment {env} came back with other spaces")
                failure = pack_error(error)
        else:
            same_step = self._orders.autoreset_mode is AutoresetMode.SAME_STEP
            try:
                for i in range(self._part.size):
                    observation = pickle.loads(last_seen[self._first + i])
                    set_lost(self._envs, i, observation, same_step)
            except Exception as error:
                failure = pack_error(error)
        self._mailbox.post(join_parts([(self._first, Subject.BUILT, failure)]))
        if failure:
            self._write_all()
            sys.exit(1)

    def _write_all(self) -> None:
        while not self._mailbox.flush():
            self._mailbox.wait(1.0)

    def _call(self, env: int) -> None:
        name, args, kwargs = self._argument_of(env)
        attribute = behind(self._envs[env], name).get_wrapper_attr(name)
        self._send(env, attribute(*args, **kwargs) if callable(attribute) else attribute)

    def _set_attr(self, env: int) -> None:
        self._letters[env] = False
        name, value = self._argument_of(env)
        behind(self._envs[env]).set_wrapper_attr(name, value)

    def _close(self, env: int) -> None:
        self._letters[env] = False
        self._open -= 1
        closing, self._envs[env] = self._envs[env], None
        if closing is not None:
            behind(closing).close()
