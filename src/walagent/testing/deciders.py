"""The requirements of the executor on a decider, as checks that any decider can run.

HISTORY = [Step(0, StepKind.REPLY, {...}), ...]  # of an ended run

@pytest.mark.parametrize("check", DECIDER_CHECKS)
async def test_it_is_a_decider(check: DeciderCheck) -> None:
    await check(DeciderCase(MyDecider, run, HISTORY))
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

import orjson

from walagent.domain.run import RunSpec, Step, StepKind
from walagent.message import ModelSpec
from walagent.moves import Act, Ask, Decider, End, Move, Note, Wait

_MODEL = ModelSpec("model", "scripted", "model")


@dataclass(frozen=True, slots=True)
class DeciderCase:
    """An ended run, and its decider.

    Args:
        make: creates the decider, as another process does after a crash.
        history: all steps of the run, oldest first, without the steps that a retry added.
        model: the model that prompts are rendered for.
    """

    make: Callable[[], Decider]
    run: RunSpec
    history: Sequence[Step]
    model: ModelSpec = _MODEL


DeciderCheck = Callable[[DeciderCase], Awaitable[None]]


async def decides_from_the_steps_alone(case: DeciderCase) -> None:
    """The same steps give the same move: from a new decider, and as read from the database."""
    decider = case.make()
    for steps in _prefixes(case):
        move = decider.next_move(case.run, steps)
        _equal(decider.next_move(case.run, steps), move, steps)
        _equal(case.make().next_move(case.run, [_stored(step) for step in steps]), move, steps)


async def leaves_the_steps_unchanged(case: DeciderCase) -> None:
    """Steps are shared: a move and a prompt only read them."""
    decider = case.make()
    for steps in _prefixes(case):
        before = deepcopy(steps)
        move = decider.next_move(case.run, steps)
        if isinstance(move, Ask):
            await decider.render(case.run, steps, move.prompts[0], case.model)
        _equal(steps, before, steps)


async def makes_the_moves_that_were_recorded(case: DeciderCase) -> None:
    """Each recorded step belongs to the move before it; the last step is followed by the end."""
    decider = case.make()
    for steps in _prefixes(case):
        move = decider.next_move(case.run, steps)
        if len(steps) == len(case.history):
            _holds(isinstance(move, End), f"{_after(steps)} the move is {move}, not the end")
        else:
            step = case.history[len(steps)]
            _holds(_records(move, step), f"{_after(steps)} {move} does not record {step}")


async def repeats_no_call_that_has_a_result(case: DeciderCase) -> None:
    """Calls of a move have different IDs, and none has a result since the last reply."""
    for steps in _prefixes(case):
        move = case.make().next_move(case.run, steps)
        match move:
            case Act(calls):
                ids = [call.call.id for call in calls]
                done = {step.content.get("call_id") for step in _since_reply(steps)}
                _holds(bool(ids) and len({*ids}) == len(ids), f"{_after(steps)} calls {ids}")
                _holds(done.isdisjoint(ids), f"{_after(steps)} a call is repeated: {ids}")
            case Ask(prompts):
                _holds(bool(prompts), f"{_after(steps)} there is no prompt to ask with")
            case _:
                pass


async def ignores_errors_of_attempts(case: DeciderCase) -> None:
    """An attempt that failed changes no decision: the next one continues."""
    decider = case.make()
    for steps in _prefixes(case):
        error = Step(len(steps), StepKind.ERROR, {"reason": "the connection was lost"})
        move = decider.next_move(case.run, steps)
        _equal(decider.next_move(case.run, [*steps, error]), move, steps)


async def renders_the_same_request_again(case: DeciderCase) -> None:
    """A prompt that is rendered again, after a lost reply, is the same request."""
    decider = case.make()
    for steps in _prefixes(case):
        move = decider.next_move(case.run, steps)
        for prompt in move.prompts if isinstance(move, Ask) else ():
            request = await decider.render(case.run, steps, prompt, case.model)
            again = await decider.render(case.run, steps, prompt, case.model)
            _holds(bool(request.messages), f"{_after(steps)} the request has no message")
            _equal(again, request, steps)


DECIDER_CHECKS: tuple[DeciderCheck, ...] = (
    decides_from_the_steps_alone,
    leaves_the_steps_unchanged,
    makes_the_moves_that_were_recorded,
    repeats_no_call_that_has_a_result,
    ignores_errors_of_attempts,
    renders_the_same_request_again,
)


def _prefixes(case: DeciderCase) -> Iterator[Sequence[Step]]:
    """Yield the steps as they were before each move."""
    for length in range(len(case.history) + 1):
        yield case.history[:length]


def _stored(step: Step) -> Step:
    """Return a step as the database returns it: plain JSON, keys in another order."""
    content = orjson.loads(orjson.dumps(step.content, default=str, option=orjson.OPT_SORT_KEYS))
    return replace(step, content=content)


def _records(move: Move, step: Step) -> bool:
    """Whether carrying out *move* can record *step* first."""
    match move:
        case Ask(prompts):
            names = {prompt.by for prompt in prompts}
            return step.kind is StepKind.REPLY and step.content.get("by", "agent") in names
        case Act(calls):
            ids = {call.call.id for call in calls}
            outcomes = {StepKind.INTENT, StepKind.RESULT}
            return step.kind in outcomes and step.content.get("call_id") in ids
        case Note(kind, content):
            return step.kind is kind and step.content == content
        case Wait(_, call):
            return step.content.get("call_id") == call.id
        case End():
            return False


def _since_reply(steps: Sequence[Step]) -> Iterator[Step]:
    """Yield the results since the last reply, latest first."""
    for step in reversed(steps):
        if step.kind is StepKind.REPLY:
            return
        if step.kind is StepKind.RESULT:
            yield step


def _after(steps: Sequence[Step]) -> str:
    return f"after {len(steps)} steps"


def _equal(found: object, expected: object, steps: Sequence[Step]) -> None:
    _holds(found == expected, f"{_after(steps)} {found} instead of {expected}")


def _holds(condition: bool, message: str) -> None:  # noqa: FBT001 - as an assert
    if not condition:
        raise AssertionError(message)
