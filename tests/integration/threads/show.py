"""A scripted comedy show: what the agents of `examples/burn` answer to what they are shown."""

import re
from collections.abc import Callable, Mapping

from walagent.message import Request, Text
from walagent.models.script import Answer, call

_BLOCK = re.compile(r"<(\w+)>\n(.*?)\n</\1>", re.DOTALL)


def shown(request: Request) -> str:
    """What a request shows of the thread."""
    (part,) = request.messages[0].parts
    assert isinstance(part, Text)
    return part.text


def _blocks(request: Request) -> list[tuple[str, dict[str, str]]]:
    return [(tag, _fields(body)) for tag, body in _BLOCK.findall(shown(request))]


def _fields(body: str) -> dict[str, str]:
    lines = (line.strip().partition(": ") for line in body.splitlines())
    return {key.strip("- "): value for key, _, value in lines}


def sarah(request: Request) -> Answer:
    """Extract what a user likes; else ask whoever came last, or the one who just answered."""
    blocks = _blocks(request)
    extracted = {fields["source_event"] for tag, fields in blocks if tag == "extract_facts"}
    for tag, fields in blocks:
        if tag == "user_message" and fields["id"] not in extracted:
            found = re.search(r"I like (\w+)(?: instead of (\w+))?", fields["text"])
            if found is None:
                continue
            fact = {
                "source_event": fields["id"],
                "subject": fields["from"],
                "predicate": "likes",
                "object": found[1],
                "category": "hobby",
                "confidence": 0.9,
                "disputed": False,
                **({"replaces": found[2]} if found[2] else {}),
            }
            return call("extract_facts", facts=[fact])
    tag, fields = [each for each in blocks if each[0] != "roast_user"][-1]
    if tag == "system_message" and fields["action"] != "left":
        return call("ask_user_about_themselves", subject=fields["id"], question="Who are you?")
    if tag == "extract_facts":
        asked = sum(each == "ask_user_about_themselves" for each, _ in blocks)
        question = f"What else do you like, besides {fields['object']}? ({asked})"
        return call("ask_user_about_themselves", subject=fields["subject"], question=question)
    return call("do_nothing")


def comedian(name: str) -> Callable[[Request], Answer]:
    """Make a joke about the latest fact; no two are alike."""

    def joke(request: Request) -> Answer:
        facts = [fields for tag, fields in _blocks(request) if tag == "extract_facts"]
        number = shown(request).count("<roast_user>") + 1
        text = f"{name} on {facts[-1]['object']}, joke {number}"
        return call("roast_user", subject=facts[-1]["subject"], roast=text)

    return joke


CAST: Mapping[str, Callable[[Request], Answer]] = {
    "sarah": sarah,
    "jerry": comedian("jerry"),
    "frankie": comedian("frankie"),
}


def troupe(request: Request) -> Answer:
    """Answer as the agent whose prompt it is."""
    name = re.search(r"You are (\w+),", request.system)
    assert name is not None
    return CAST[name[1].lower()](request)
