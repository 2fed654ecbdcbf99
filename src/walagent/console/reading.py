"""What pages read: queries, the first request of a run, replies, questions, trials and reasons."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar, cast

from starlette.requests import Request
from starlette.responses import Response

from walagent.base.concurrency import first_of
from walagent.console.acting import Acting
from walagent.console.evaluations import COMPLETED
from walagent.console.guard import token_of
from walagent.console.offer import Application, Offer
from walagent.console.own import check_texts, text_of
from walagent.console.replies import check_reader, disconnected, reader_of
from walagent.console.statements import read_rows
from walagent.http.exchange import RefusedError, answer, read_object
from walagent.message import Json
from walagent.sync.asgi import Receive, Scope, Send

T = TypeVar("T")

_PROMPT: Final = "console.run_prompt"
_DIGITS: Final = 19  # of an int8


class Reading:
    """Answers what changes nothing, as the principal who asks."""

    def __init__(self, acting: Acting, offer: Offer) -> None:
        self._acting = acting
        self._offer = offer

    async def query(self, request: Request) -> Response:
        """Answer with the rows of a query."""
        name: str = request.path_params["name"]
        if name == _PROMPT:
            return await self._prompt(request)
        given = dict(request.query_params)
        own = self._offer.own
        if own is not None and name in own.queries:
            caller, now = await self._acting.caller(token_of(request.scope), "read")
            return answer({"rows": await own.read(name, given, caller), "now": now})
        declared = self._offer.queries.get(name)
        if declared is None:
            raise RefusedError(404, f'there is no query "{name}"')
        values = {each: given.get(each, "") for each in declared.parameters}
        async with self._acting.transaction(token_of(request.scope)) as conn:
            rows = await read_rows(conn, declared.text, values)
            now = (await read_rows(conn, "select now() as now", {}))[0]["now"]
        if (completed := COMPLETED.get(name)) is not None:
            rows = [completed(row) for row in rows]
        return answer({"rows": rows, "now": now})

    async def _prompt(self, request: Request) -> Response:
        """Answer with what the model got: no statement knows it."""
        run = request.query_params.get("run", "")
        if not (run.isascii() and run.isdigit() and len(run) < _DIGITS):
            raise RefusedError(400, 'expected the number of a run in "run"')
        async with self._acting.transaction(token_of(request.scope)) as conn:
            found = await self._offer.prompt(conn, int(run))
        return answer({"rows": [] if found is None else [found]})

    async def replies(self, request: Request) -> Application:
        """Answer with what models write now, as events."""
        reader = reader_of(request.query_params)
        who = await self._acting.who(token_of(request.scope))

        async def check() -> None:
            async with self._acting.transaction(token_of(request.scope)) as conn:
                await check_reader(conn, reader)

        async def stream(scope: Scope, receive: Receive, send: Send) -> None:
            del scope  # it is the request's
            await self._offer.replies.send(reader, check, receive, send, who)

        return stream

    async def may_ask(self, request: Request) -> Response:
        """Answer whether the principal can ask questions."""
        await self._check_questions(request)
        return answer({})

    async def ask(self, request: Request) -> Response:
        """Answer a question."""
        questions = _offered(self._offer.questions, "questions are not answered here")
        is_own = await self._check_questions(request)
        who = await self._acting.who(token_of(request.scope))
        given = await read_object(request)
        question, session = given.get("question"), given.get("session")
        if not (isinstance(question, str) and isinstance(session, str)):
            raise RefusedError(400, 'expected "question" and "session"')
        token = None if is_own else token_of(request.scope)
        return answer(await questions.answer(question, session, token, who))

    async def _check_questions(self, request: Request) -> bool:
        questions = _offered(self._offer.questions, "questions are not answered here")
        async with self._acting.transaction(token_of(request.scope)) as conn:
            return await questions.check(conn)

    async def rows_to_try(self, request: Request) -> Response:
        """Answer with rows to try an attachment on."""
        trials = _offered(self._offer.trials, "agents are not tried here")
        may = await self._check_trial(request, request.query_params.get("attachment"))
        return answer(await trials.rows(may))

    async def try_row(self, request: Request) -> Response:
        """Try an attachment on a row, and take it back."""
        trials = _offered(self._offer.trials, "agents are not tried here")
        await self._acting.who(token_of(request.scope))  # nobody else's body is read
        given = await read_object(request)
        at, draft = given.get("at"), given.get("draft")
        may = await self._check_trial(request, given.get("attachment"))
        if not isinstance(at, dict) or not isinstance(draft, dict | None):
            raise RefusedError(400, 'expected objects in "at" and "draft"')
        cells = cast("dict[str, Json]", at)
        key = {name: text_of(value) or "" for name, value in cells.items()}
        check_texts(key)
        changes = cast("dict[str, Json]", draft or {})
        approved = given.get("assume_approved") is True
        # Who goes away pays for no further call of the model.
        tried = await _while_connected(
            request, lambda: trials.run(may, key, changes, approved=approved)
        )
        return answer(tried)

    async def _check_trial(self, request: Request, attachment: Json) -> object:
        if not isinstance(attachment, str):
            raise RefusedError(400, 'expected "attachment"')
        check_texts({"attachment": attachment})
        trials = _offered(self._offer.trials, "agents are not tried here")
        async with self._acting.transaction(token_of(request.scope)) as conn:
            return await trials.check(conn, attachment)

    async def why(self, request: Request) -> Response:
        """Answer why a row of a table has a run, or none."""
        reasons = _offered(self._offer.reasons, "rows are not explained here")
        relation, key = (request.query_params.get(name, "") for name in ("relation", "key"))
        if not (relation and key):
            raise RefusedError(400, 'expected "relation" and "key"')
        check_texts({"relation": relation, "key": key})
        token = token_of(request.scope)
        who = await self._acting.who(token)
        async with self._acting.transaction(token) as conn:
            name = await reasons.check(conn, relation)
            role = await self._acting.role_of(conn)
        return answer(await reasons.explain(name, key, self._acting.find(token), role, who))


def _offered(part: T | None, otherwise: str) -> T:
    """Return what is served, or refuse."""
    if part is None:
        raise RefusedError(404, otherwise)
    return part


async def _while_connected(
    request: Request, act: Callable[[], Awaitable[Mapping[str, Json]]]
) -> Mapping[str, Json]:
    """Return what *act* returns; it is cancelled when the client goes away."""
    found: list[Mapping[str, Json]] = []

    async def acted() -> None:
        found.append(await act())

    await first_of(tried=acted(), gone=disconnected(request.receive))
    return found[0] if found else {}
