"""Replies while models write them, for present readers; nothing of it is stored.

A reader is never waited for: it takes what was written since it last looked, however much that is.
A reply is streamed only if somebody read its run or thread when it began.
"""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from uuid import UUID

from walagent.base.concurrency import first_of
from walagent.domain.agent_spec import Finish
from walagent.domain.run import RunSpec, Step
from walagent.message import ModelSpec, Reply, Request, Stop, Text, Usage
from walagent.models.cost import input_bound
from walagent.moves import Kind

_KINDS = frozenset({"agent", "turn"})


@dataclass(eq=False, slots=True)
class LiveReply:
    """A reply that is being written.

    Args:
        number: distinguishes the replies of this process.
        thread: where it will be posted; None: nowhere.
    """

    number: int
    run_id: int
    agent: str
    thread: UUID | None
    pieces: list[str] = field(default_factory=list[str])
    written: int = 0  # how often it was begun again
    state: str = "writing"  # then "recorded" or "withdrawn"
    calls: bool = False  # whether it calls tools: then it is not posted
    readers: "set[Reader]" = field(default_factory=set["Reader"])

    def write(self, text: str) -> None:
        """Add a piece."""
        self.pieces.append(text)
        self._wake()

    def begin_again(self) -> None:
        """Take back what was written: the model is asked again."""
        self.pieces.clear()
        self.written += 1
        self._wake()

    def end(self, *, recorded: bool) -> None:
        """End it; the recorded reply takes its place, or nothing."""
        self.state = "recorded" if recorded else "withdrawn"
        self._wake()

    def _wake(self) -> None:
        for reader in self.readers:
            reader.changed.set()


@dataclass(eq=False, slots=True)
class Reader:
    """Reads the replies of a run, or those that are posted in a thread."""

    run_id: int | None = None
    thread: UUID | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    # What was read of each reply: how often it had begun again, and how many pieces.
    read: dict[LiveReply, tuple[int, int]] = field(default_factory=dict[LiveReply, tuple[int, int]])

    def wants(self, reply: LiveReply) -> bool:
        """Whether it reads *reply*."""
        if self.run_id is not None:
            return reply.run_id == self.run_id
        return reply.thread is not None and reply.thread == self.thread

    def take(self) -> list[Mapping[str, Any]]:
        """Return what happened since the last time: texts, and states that replies are in."""
        self.changed.clear()
        found = list[Mapping[str, Any]]()
        for reply, (written, taken) in list(self.read.items()):
            about = {"reply": reply.number, "run": reply.run_id, "agent": reply.agent}
            if written != reply.written:
                found.append({**about, "state": "begun again"})
            if text := "".join(reply.pieces[taken if written == reply.written else 0 :]):
                found.append({**about, "text": text})
            if reply.state == "writing":
                self.read[reply] = (reply.written, len(reply.pieces))
            else:
                gone = self.thread is not None and reply.calls
                found.append({**about, "state": "withdrawn" if gone else reply.state})
                del self.read[reply]
        return found


class LiveReplies:
    """The replies that models of this process write, and who reads them."""

    def __init__(self) -> None:
        self._readers = set[Reader]()
        self._open = set[LiveReply]()
        self._numbers = count(1)

    @property
    def readers(self) -> int:
        """How many read now."""
        return len(self._readers)

    @contextmanager
    def reading(self, reader: Reader) -> Generator[Reader]:
        """Let *reader* take replies, those that are being written from their begin on."""
        self._readers.add(reader)
        for reply in self._open:
            self._join(reader, reply)
        try:
            yield reader
        finally:
            self._readers.discard(reader)
            for reply in reader.read:
                reply.readers.discard(reader)

    @contextmanager
    def writing(self, run: RunSpec) -> Generator[LiveReply | None]:
        """Let the next reply of a run be read until this ends; None: nobody reads it."""
        reply = LiveReply(next(self._numbers), run.run_id, run.agent.name, _thread_of(run))
        readers = [each for each in self._readers if each.wants(reply)]
        if not readers or run.claim.kind not in _KINDS:
            yield None
            return
        self._open.add(reply)
        for reader in readers:
            self._join(reader, reply)
        recorded = False
        try:
            yield reply
            recorded = True
        finally:
            self._open.discard(reply)
            reply.end(recorded=recorded)
            reply.readers.clear()

    @staticmethod
    def _join(reader: Reader, reply: LiveReply) -> None:
        if reader.wants(reply):
            reply.readers.add(reader)
            reader.read[reply] = (reply.written, 0)
            reader.changed.set()


async def changes_of(reader: Reader, seconds: float) -> AsyncGenerator[list[Mapping[str, Any]]]:
    """Yield what happens; an empty list after *seconds* in which nothing did."""
    while True:
        try:
            async with asyncio.timeout(seconds):
                await reader.changed.wait()
        except TimeoutError:
            yield []
        else:
            yield reader.take()


def private(run: RunSpec) -> LiveReply | None:
    """Return a reply without readers, where a text of a person interrupts: what is said is kept."""
    if (run.turns or {}).get("meanwhile") != "interrupt":
        return None
    return LiveReply(0, run.run_id, run.agent.name, None)


async def wanted(
    asking: Coroutine[Any, Any, Reply], kind: Kind, run: RunSpec, steps: Sequence[Step]
) -> Reply | None:
    """Await a reply; None: it was not wanted any more, and the call was cancelled."""
    if (unwanted := kind.unwanted) is None:
        return await asking

    async def none() -> None:
        await unwanted(run, steps)

    return await first_of(reply=asking, unwanted=none())


def cut_reply(live: LiveReply | None, request: Request, model: ModelSpec) -> Reply:
    """Return what was said of a reply that was cut off.

    Its usage is estimated at 4 bytes a token: a provider does not say what a cancelled call used.
    """
    text = "".join(live.pieces).strip() if live else ""
    usage = Usage(input_bound(request) // 4, output_tokens=len(text.encode()) // 4 + 1)
    return Reply((Text(text),) if text else (), Stop.END, usage, model=model.model_id)


def _thread_of(run: RunSpec) -> UUID | None:
    """Return the thread where the next reply of a run is posted, if it calls no tool."""
    is_turn = run.claim.kind == "turn" and run.claim.reason != "summary"
    if not is_turn or run.agent.finish is not Finish.ANSWER:
        return None
    return UUID(run.claim.change["new"]["thread_id"])
