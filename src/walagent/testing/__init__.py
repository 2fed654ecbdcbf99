"""Test agents without a provider: a scripted model, and a server that acts as a provider.

    model = ScriptedModel([call("lookup", id=7), "The answer is 42."])

    async with FakeProvider([Fault(status=429, retry_after="1")]) as provider:
        spec = provider.spec("anthropic")

This module is public and stable between releases.
"""

from walagent.models.script import Answer, Fault, Rule, Script, ScriptedCall, call, in_turn
from walagent.models.scripted.script_file import read_script
from walagent.models.scripted.scripted_model import ScriptedModel
from walagent.testing.contract import PROVIDER_CHECKS, ProviderCheck
from walagent.testing.deciders import DECIDER_CHECKS, DeciderCase, DeciderCheck
from walagent.testing.provider import FakeProvider, Received

__all__ = [
    "DECIDER_CHECKS",
    "PROVIDER_CHECKS",
    "Answer",
    "DeciderCase",
    "DeciderCheck",
    "FakeProvider",
    "Fault",
    "ProviderCheck",
    "Received",
    "Rule",
    "Script",
    "ScriptedCall",
    "ScriptedModel",
    "call",
    "in_turn",
    "read_script",
]
