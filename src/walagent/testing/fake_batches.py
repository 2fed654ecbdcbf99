"""The batches of the fake provider: files, batches and results, in the formats of two providers.

Its books say what was submitted, and what was answered and is charged.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import Message
from email.parser import BytesParser
from typing import Final

from walagent.message import Json
from walagent.models.replies import as_array, as_object
from walagent.models.wire_format import Body, WireError, need
from walagent.testing.http_server import Incoming, Outgoing

_OPENAI: Final = ("/v1/files", "/v1/batches")
_ANTHROPIC: Final = "/v1/messages/batches"
_MOST: Final = 100_000  # calls of one batch

Answers = Callable[[str, Body, Mapping[str, str]], tuple[int, Body]]
"""Answers a call of a path: body and headers to status and body."""


@dataclass(slots=True)
class FakeBatch:
    """One batch.

    Args:
        calls: their bodies, by custom_id.
        results: as its files have them; None until it has ended.
    """

    id: str
    path: str
    calls: Mapping[str, Body]
    metadata: Mapping[str, Json]
    made_at: datetime
    headers: Mapping[str, str]
    status: str = "in_progress"
    results: list[Body] | None = None
    errors: tuple[str, ...] = ()


@dataclass(slots=True)
class FakeBatches:
    """All batches; change the attributes to let it misbehave.

    Attributes:
        batches: in the order in which they were submitted, by ID.
        billed: how often each call was answered, by custom_id.
        hold: batches do not end while it is set; else at the first look at them.
        status: with which batches end: completed, expired, cancelled or failed.
        answered: whether a call is answered before the batch ends.
        spoil: changes the lines of the results, such as their order.
        room: calls of one batch, at most; a larger one fails as a whole.
        refuse: with which status the next submissions are refused; 0: none is.
        lose: the next submissions are taken, and their answers are lost.
    """

    answers: Answers
    batches: dict[str, FakeBatch] = field(default_factory=dict[str, FakeBatch])
    billed: Counter[str] = field(default_factory=Counter[str])
    hold: bool = False
    status: str = "completed"
    answered: Callable[[str], bool] = lambda _custom_id: True
    spoil: Callable[[FakeBatch, list[Body]], list[Body]] = lambda _batch, lines: lines[::-1]
    refuse: int = 0
    room: int = _MOST
    lose: int = 0
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def take(self, incoming: Incoming) -> Outgoing | None:
        """Answer a request; None: it is about no batch."""
        path, _, query = incoming.path.partition("?")
        try:
            if path.startswith(_ANTHROPIC):
                return self._anthropic(path.removeprefix(_ANTHROPIC).strip("/"), query, incoming)
            if path.startswith(_OPENAI):
                return self._openai(path.removeprefix("/v1/").split("/"), query, incoming)
        except WireError as error:
            return _sent(400, {"error": {"message": str(error), "type": "invalid_request_error"}})
        return None

    # OpenAI.

    def _openai(self, parts: Sequence[str], query: str, incoming: Incoming) -> Outgoing:
        match incoming.method, parts:
            case "POST", ["files"]:
                content = _uploaded(incoming)
                name = f"file-{len(self.files)}"
                self.files[name] = content
                return _sent(200, {"id": name, "object": "file", "bytes": len(content)})
            case "POST", ["batches"]:
                return self._submitted(self._openai_batch(incoming), self._openai_view)
            case "GET", ["batches"]:
                return self._page(query, "after", self._openai_view)
            case "GET", ["batches", batch_id]:
                return self._look(batch_id, self._openai_view)
            case "GET", ["files", name, "content"]:
                return Outgoing(200, self.files[name], {"content-type": "application/octet-stream"})
            case _:
                return _sent(404, {"error": {"message": f"no such path: {incoming.path}"}})

    def _openai_batch(self, incoming: Incoming) -> FakeBatch:
        asked = as_object(json.loads(incoming.body))
        need(asked.get("endpoint") == "/v1/chat/completions", "endpoint: not supported")
        need(asked.get("completion_window") == "24h", "completion_window: must be 24h")
        lines = self.files[asked["input_file_id"]].decode().splitlines()
        calls: dict[str, Body] = {}
        for line in map(json.loads, lines):
            need(line["method"] == "POST", "method: must be POST")
            need(line["url"] == asked["endpoint"], "url: must be the endpoint")
            need(line["custom_id"] not in calls, "custom_id: duplicate")
            calls[line["custom_id"]] = line["body"]
        need(len({each["model"] for each in calls.values()}) == 1, "model: one for all lines")
        metadata = as_object(asked.get("metadata"))
        return self._batch("batch", asked["endpoint"], calls, metadata, incoming)

    def _openai_view(self, batch: FakeBatch) -> Body:
        view: Body = {
            "id": batch.id,
            "object": "batch",
            "status": batch.status,
            "metadata": batch.metadata,
            "created_at": int(batch.made_at.timestamp()),
            "output_file_id": None,
            "error_file_id": None,
            "errors": {"data": [{"code": each} for each in batch.errors]},
        }
        if batch.results is None:
            return view
        whole = [line for line in batch.results if as_object(line.get("response")).get("body")]
        for name, lines in (("output", whole), ("error", [*batch.results])):
            kept = lines if name == "output" else [line for line in lines if line not in whole]
            if kept:
                self.files[f"{batch.id}-{name}"] = _jsonl(kept)
                view[f"{name}_file_id"] = f"{batch.id}-{name}"
        return view

    # Anthropic.

    def _anthropic(self, rest: str, query: str, incoming: Incoming) -> Outgoing:
        match incoming.method, rest.split("/") if rest else []:
            case "POST", []:
                given = as_array(as_object(json.loads(incoming.body)).get("requests"))
                calls = {each["custom_id"]: each["params"] for each in given}
                need(len(calls) == len(given), "custom_id: duplicate")
                need(all(len(each) <= 64 for each in calls), "custom_id: at most 64 characters")  # noqa: PLR2004
                path = "/v1/messages"
                return self._submitted(
                    self._batch("msgbatch", path, calls, {}, incoming), self._anthropic_view
                )
            case "GET", []:
                return self._page(query, "after_id", self._anthropic_view)
            case "GET", [batch_id]:
                return self._look(batch_id, self._anthropic_view)
            case "GET", [batch_id, "results"]:
                lines = self.batches[batch_id].results
                need(lines is not None, "results: the batch has not ended")
                headers = {"content-type": "application/x-jsonl"}
                return Outgoing(200, _jsonl(lines or []), headers)
            case _:
                return _sent(404, {"type": "error", "error": {"type": "not_found_error"}})

    def _anthropic_view(self, batch: FakeBatch) -> Body:
        done = 0 if batch.results is None else len(batch.calls)
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": "in_progress" if batch.results is None else "ended",
            "request_counts": {
                "processing": len(batch.calls) - done,
                "succeeded": done,
                "errored": 0,
                "canceled": 0,
                "expired": 0,
            },
            "created_at": batch.made_at.isoformat(),
            "results_url": None,
        }

    # Both.

    def _batch(
        self,
        word: str,
        path: str,
        calls: Mapping[str, Body],
        metadata: Mapping[str, Json],
        incoming: Incoming,
    ) -> FakeBatch:
        need(0 < len(calls) <= _MOST, "a batch must have calls")
        batch_id = f"{word}_{len(self.batches)}"
        return FakeBatch(batch_id, path, calls, metadata, datetime.now(UTC), incoming.headers)

    def _submitted(self, batch: FakeBatch, view: Callable[[FakeBatch], Body]) -> Outgoing:
        if self.refuse:
            return _sent(self.refuse, {"error": {"message": "scripted failure"}})
        self.batches[batch.id] = batch
        if self.lose:
            self.lose -= 1
            return Outgoing(200, b"", drop=True)
        return _sent(200, view(batch))

    def _look(self, batch_id: str, view: Callable[[FakeBatch], Body]) -> Outgoing:
        batch = self.batches.get(batch_id)
        if batch is None:
            return _sent(404, {"error": {"message": "no such batch", "type": "not_found_error"}})
        self._pass_time(batch)
        return _sent(200, view(batch))

    def _pass_time(self, batch: FakeBatch) -> None:
        if batch.results is None and not self.hold:
            self.end(batch)

    def _page(self, query: str, cursor: str, view: Callable[[FakeBatch], Body]) -> Outgoing:
        """List the latest first, two in a page, so that a client must turn pages."""
        given = dict(each.split("=") for each in query.split("&") if each)
        found = list(self.batches.values())[::-1]
        names = [each.id for each in found]
        start = names.index(given[cursor]) + 1 if cursor in given else 0
        page = found[start : start + 2]
        for each in page:
            self._pass_time(each)
        more = start + 2 < len(found)
        return _sent(200, {"data": [view(each) for each in page], "has_more": more})

    def end(self, batch: FakeBatch) -> None:
        """End a batch: answer its calls, and charge for those that are answered."""
        batch.status = self.status
        if len(batch.calls) > self.room:
            batch.status, batch.errors, batch.results = "failed", ("token_limit_exceeded",), []
            return
        is_openai = batch.path != "/v1/messages"
        write = _openai_line if is_openai else _anthropic_line
        lines: list[Body] = []
        for custom_id, body in batch.calls.items() if self.status != "failed" else ():
            if not self.answered(custom_id):
                lines.append(write(custom_id, 0, {}, self.status))
                continue
            status, answer = self.answers(batch.path, body, batch.headers)
            self.billed[custom_id] += status == 200  # noqa: PLR2004 - of HTTP
            lines.append(write(custom_id, status, answer, self.status))
        batch.results = self.spoil(batch, lines)


def _openai_line(custom_id: str, status: int, answer: Body, ended: str) -> Body:
    line: Body = {"id": f"r-{custom_id}", "custom_id": custom_id, "response": None, "error": None}
    if status:
        line["response"] = {"status_code": status, "request_id": "q", "body": answer}
        return line
    return {**line, "error": {"code": f"batch_{ended}", "message": "not executed"}}


def _anthropic_line(custom_id: str, status: int, answer: Body, ended: str) -> Body:
    if status == 200:  # noqa: PLR2004 - of HTTP
        result: Body = {"type": "succeeded", "message": answer}
    elif status:
        result = {"type": "errored", "error": answer}
    else:
        result = {"type": "canceled" if ended == "cancelled" else "expired"}
    return {"custom_id": custom_id, "result": result}


def _jsonl(lines: Sequence[Body]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def _sent(status: int, body: Body) -> Outgoing:
    return Outgoing(status, json.dumps(body).encode())


def _uploaded(incoming: Incoming) -> bytes:
    """Return the file of a multipart upload.

    Raises:
        WireError: it has none, or is not for a batch.
    """
    head = f"content-type: {incoming.headers.get('content-type', '')}\r\n\r\n".encode()
    given: Message = BytesParser().parsebytes(head + incoming.body)
    need(given.is_multipart(), "content-type: must be multipart/form-data")
    parts = {
        str(part.get_param("name", header="content-disposition")): part.get_payload(decode=True)
        for part in given.walk()
        if not part.is_multipart()
    }
    need(parts.get("purpose") == b"batch", "purpose: must be batch")
    content = parts.get("file")
    if not isinstance(content, bytes):
        raise WireError("file: required")
    return content
