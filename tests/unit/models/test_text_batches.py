"""Texts of concurrent calls are sent together, and each has its own result."""

import asyncio
from collections.abc import Sequence

import pytest

from walagent.errors import ModelRejectedError, ModelUnavailableError
from walagent.message import Usage
from walagent.models.provider import Embedding
from walagent.models.text_batches import TextBatches
from walagent.models.usage import usage_of


def embedding_of(text: str) -> Embedding:
    """Return an embedding that says which text it is of."""
    return Embedding((float(len(text)),), 1, cached=False)


class Sent:
    """Notes what is sent; refuses what contains the word "bad"."""

    def __init__(self, error: type[Exception] = ModelRejectedError, *, holds: bool = False) -> None:
        self.requests: list[list[str]] = []
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()
        self._error = error
        if not holds:
            self.may_end.set()

    async def __call__(self, texts: Sequence[str]) -> Sequence[Embedding]:
        """Embed texts."""
        self.requests.append(list(texts))
        self.begun.set()
        await self.may_end.wait()
        if any("bad" in text for text in texts):
            raise self._error("refused")
        return [embedding_of(text) for text in texts]


async def test_what_is_asked_at_once_is_one_request() -> None:
    """In the order in which it was asked for."""
    sent = Sent()
    batches = TextBatches(sent)
    texts = [str(10**n) for n in range(5)]
    found = await asyncio.gather(*map(batches.embed, texts))
    assert found == [embedding_of(text) for text in texts]
    assert sent.requests == [texts]


async def test_tenants_share_no_request() -> None:
    """What the text of one does to a request reaches no other one."""
    sent = Sent()
    batches = TextBatches(sent)
    asked = [("a", "acme"), ("g", "globex"), ("b", "acme"), ("h", "globex")]
    await asyncio.gather(*(batches.embed(text, tenant) for text, tenant in asked))
    assert sorted(sent.requests) == [["a", "b"], ["g", "h"]]


async def test_what_is_asked_later_is_another_request() -> None:
    """Nothing waits for more than its own batch."""
    sent = Sent()
    batches = TextBatches(sent)
    await batches.embed("a")
    await batches.embed("b")
    assert sent.requests == [["a"], ["b"]]


@pytest.mark.parametrize(
    ("texts", "sizes"), [(["x"] * 130, [64, 64, 2]), (["x" * 90_000] * 5, [2, 2, 1])]
)
async def test_a_request_has_a_size(texts: list[str], sizes: list[int]) -> None:
    """A number of texts, and of characters."""
    sent = Sent()
    batches = TextBatches(sent)
    await asyncio.gather(*map(batches.embed, texts))
    assert sorted(map(len, sent.requests), reverse=True) == sizes


async def test_a_text_of_any_length_is_sent() -> None:
    """Alone."""
    sent = Sent()
    batches = TextBatches(sent)
    await asyncio.gather(*map(batches.embed, ["x" * 500_000, "y"]))
    assert [len(texts) for texts in sent.requests] == [1, 1]


async def test_a_refused_text_is_refused_alone() -> None:
    """The others are sent again, each by itself."""
    batches = TextBatches(Sent())
    good, bad, other = await asyncio.gather(
        *map(batches.embed, ["good", "bad", "other"]), return_exceptions=True
    )
    assert (good, other) == (embedding_of("good"), embedding_of("other"))
    assert isinstance(bad, ModelRejectedError)


async def test_a_failure_of_the_provider_is_that_of_all() -> None:
    """Each of their runs asks again, and then in another request."""
    sent = Sent(ModelUnavailableError)
    batches = TextBatches(sent)
    found = await asyncio.gather(*map(batches.embed, ["a", "bad"]), return_exceptions=True)
    assert all(isinstance(each, ModelUnavailableError) for each in found)
    assert len(sent.requests) == 1


async def test_each_text_pays_for_its_part_of_an_answer_that_cannot_be_read() -> None:
    """All of them would pay for it as often as there are texts."""

    async def unreadable(_texts: Sequence[str]) -> Sequence[Embedding]:
        raise ModelUnavailableError("no numbers", usage=Usage(input_tokens=130))

    batches = TextBatches(unreadable)
    found = await asyncio.gather(*map(batches.embed, "abcd"), return_exceptions=True)
    errors = [each for each in found if isinstance(each, Exception)]
    assert len({id(each) for each in errors}) == 4
    assert sum(map(usage_of, errors), Usage()) == Usage(130)


async def test_a_refusal_that_is_charged_is_not_asked_again_text_by_text() -> None:
    """Each text has paid its part: its run reserves what the next call costs first."""
    requests = list[int]()

    async def refused(texts: Sequence[str]) -> Sequence[Embedding]:
        requests.append(len(texts))
        raise ModelRejectedError("no", usage=Usage(input_tokens=130))

    found = await asyncio.gather(*map(TextBatches(refused).embed, "abcd"), return_exceptions=True)
    errors = [each for each in found if isinstance(each, ModelUnavailableError)]
    assert requests == [4]
    assert sum(map(usage_of, errors), Usage()) == Usage(130)


async def test_a_call_that_is_given_up_leaves_the_others() -> None:
    """Its text may be sent; nobody waits for it."""
    sent = Sent(holds=True)
    batches = TextBatches(sent)
    gone, kept = asyncio.create_task(batches.embed("gone")), asyncio.create_task(batches.embed("k"))
    await sent.begun.wait()
    gone.cancel()
    sent.may_end.set()
    assert await kept == embedding_of("k")
    with pytest.raises(asyncio.CancelledError):
        await gone


async def test_closing_ends_what_is_under_way() -> None:
    """No task is left behind."""
    sent = Sent(holds=True)
    batches = TextBatches(sent)
    waiting = asyncio.create_task(batches.embed("x"))
    await sent.begun.wait()
    await batches.aclose()
    with pytest.raises(asyncio.CancelledError):
        await waiting
