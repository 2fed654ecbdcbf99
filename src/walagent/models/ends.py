"""What providers call the end of an answer.

One table for all: gateways pass on the word of the provider behind them, whatever their own format.
"""

from collections.abc import Mapping
from typing import Final

from walagent.message import Stop

# In lower case.  `insufficient_system_resource`, `error`, `abort` and the like are no end at all.
STOPS: Final[Mapping[str, Stop]] = {
    "stop": Stop.END,
    "eos": Stop.END,
    "eos_token": Stop.END,
    "end_turn": Stop.END,
    "stop_sequence": Stop.END,
    "complete": Stop.END,
    "completed": Stop.END,
    "tool_calls": Stop.TOOL,
    "tool_call": Stop.TOOL,
    "tool_use": Stop.TOOL,
    "function_call": Stop.TOOL,
    "length": Stop.LENGTH,
    "max_tokens": Stop.LENGTH,
    "max_output_tokens": Stop.LENGTH,
    "max_length": Stop.LENGTH,
    "model_length": Stop.LENGTH,
    "model_context_window_exceeded": Stop.LENGTH,
    "pause_turn": Stop.LENGTH,  # only server tools pause, and none are sent
    "content_filter": Stop.REFUSAL,
    "content_filtered": Stop.REFUSAL,
    "guardrail_intervened": Stop.REFUSAL,
    "refusal": Stop.REFUSAL,
    "safety": Stop.REFUSAL,
    "recitation": Stop.REFUSAL,
    "blocklist": Stop.REFUSAL,
    "prohibited_content": Stop.REFUSAL,
    "spii": Stop.REFUSAL,
}


def end_of(reason: str | None, *, calls: bool) -> Stop | None:
    """Say how an answer ended that arrived whole; None: its word is not known.

    Servers that say `stop` beside calls, or the reverse, are many; some say nothing.

    Args:
        calls: it calls tools.
    """
    stop = STOPS.get((reason or "stop").lower())
    if stop in {Stop.END, Stop.TOOL}:
        return Stop.TOOL if calls else Stop.END
    return stop
