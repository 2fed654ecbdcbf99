"""The contract of a decider: the agent's keeps it, and wrong deciders are found out."""

from collections.abc import Callable, Sequence
from itertools import count

import pytest

from tests.helpers.build import Steps, attachment, claim, run_of, tool, wants
from walagent.deciders.agent import AgentDecider
from walagent.domain.run import RunSpec, Step
from walagent.domain.tool_spec import Effect
from walagent.message import ModelSpec, Request, ToolCall
from walagent.moves import Act, Ask, Call, Decider, Move, Prompt, succeed
from walagent.testing import DECIDER_CHECKS, DeciderCase, DeciderCheck

REFUND, MAIL = tool(), tool("mail", effect=Effect.IDEMPOTENT, approval=True)
RUN = run_of(attachment(REFUND, MAIL), claim())
FIRST, SECOND = wants(call_id="a"), wants("mail", "b")
HISTORIES = {
    "words": Steps().reply("Nothing to do."),
    "calls": Steps().reply(FIRST, wants(call_id="c")).result(FIRST).result(wants(call_id="c"))
    .reply("Refunded."),
    "approval": Steps().reply(SECOND).approval(SECOND).decision(SECOND, "approved").intent(SECOND)
    .result(SECOND).reply("Sent."),
}  # fmt: skip


def made() -> AgentDecider:
    """The decider of agents."""
    return AgentDecider(b"secret")


@pytest.mark.parametrize("check", DECIDER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("history", HISTORIES)
async def test_the_agents_decider_keeps_the_contract(history: str, check: DeciderCheck) -> None:
    """For runs with and without calls, and for one that waited for a person."""
    await check(DeciderCase(made, RUN, HISTORIES[history]))


class Wrong(AgentDecider):
    """A decider that makes one move of its own after so many steps."""

    def __init__(self, at: int, move: Callable[[Sequence[Step]], Move]) -> None:
        super().__init__(b"secret")
        self._at = at
        self._move = move

    def next_move(self, run: RunSpec, steps: Sequence[Step]) -> Move:
        """Decide as an agent does, but once."""
        return self._move(steps) if len(steps) == self._at else super().next_move(run, steps)


class Drifting(AgentDecider):
    """A decider whose prompts differ each time."""

    _number = count()

    async def render(
        self, run: RunSpec, steps: Sequence[Step], prompt: Prompt, model: ModelSpec
    ) -> Request:
        """Add a number."""
        request = await super().render(run, steps, prompt, model)
        return Request(f"{request.system} {next(self._number)}", request.messages)


def counting() -> Callable[[], Decider]:
    """Deciders of which each ends its run with another result."""
    numbers = count()

    def make() -> Decider:
        number = next(numbers)
        return Wrong(4, lambda _: succeed(str(number)))

    return make


def spoiled(steps: Sequence[Step]) -> Move:
    """Write into a step."""
    steps[0].content["spoiled"] = True  # pyright: ignore[reportIndexIssue]
    return succeed("")


def again(steps: Sequence[Step]) -> Move:
    """Repeat a call that has a result."""
    call = ToolCall(steps[1].content["call_id"], "refund", {})
    return Act((Call(call, REFUND),))


def ends_after_an_error(steps: Sequence[Step]) -> Move:
    """Take an error of an attempt for something to ask about."""
    return succeed("") if steps[-1].kind == "error" else Ask()


@pytest.mark.parametrize(
    ("make", "broken"),
    [
        (counting(), "decides_from_the_steps_alone"),
        (lambda: Wrong(4, spoiled), "leaves_the_steps_unchanged"),
        (lambda: Wrong(1, lambda _: succeed("early")), "makes_the_moves_that_were_recorded"),
        (lambda: Wrong(4, lambda _: Ask()), "makes_the_moves_that_were_recorded"),
        (lambda: Wrong(2, again), "repeats_no_call_that_has_a_result"),
        (lambda: Wrong(1, ends_after_an_error), "ignores_errors_of_attempts"),
        (lambda: Drifting(b"secret"), "renders_the_same_request_again"),
    ],
)
async def test_a_wrong_decider_is_found_out(make: Callable[[], Decider], broken: str) -> None:
    """Each check fails for a decider that breaks what it is about."""
    (check,) = (each for each in DECIDER_CHECKS if each.__name__ == broken)
    calls = Steps().reply(FIRST, wants(call_id="c")).result(FIRST).result(wants(call_id="c"))
    with pytest.raises(AssertionError):
        await check(DeciderCase(make, RUN, calls.reply("Refunded.")))
