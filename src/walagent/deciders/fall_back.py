"""Which model is asked next: the agent's own, or another one after a recorded fall-back.  Pure.

A fall-back is a note among the steps, recorded before the other model is asked: each worker that
continues the run asks the same model, and that one alone until a person retries the run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from walagent.domain.agent_spec import AgentSpec
from walagent.domain.run import Step, StepKind
from walagent.domain.transcript import ALONE, FALLBACK, TIER
from walagent.message import Json
from walagent.moves import Note, Prompt


def prompt_of(recent: Sequence[Step], agent: AgentSpec) -> Prompt:
    """Return the prompt for the model to ask, with the one to ask instead if it is out.

    Args:
        recent: the steps since the last retry.
    """
    note, tier, alone = (_last(recent, key) for key in (FALLBACK, TIER, ALONE))
    about = dict[str, Json]()
    if note is not None:
        about = {"instead_of": {"model": note["for"], "why": note["why"]}}
    elif tier is not None:
        about = {"instead_of": {"tier": tier["for"], "why": tier["why"]}}
    elif alone is not None:
        about = {"instead_of": {"rows": alone["rows"], "why": alone["why"]}}
    own = Prompt(about=about, alone=alone is not None)
    if note is not None:
        return replace(own, model=str(note[FALLBACK]))
    return replace(own, fallback=agent.fallback, tier="" if tier else agent.tier)


def as_asked(recent: Sequence[Step], agent: AgentSpec) -> AgentSpec:
    """Return the agent with the model and parameters that its next request has."""
    if (note := _last(recent)) is None:
        return agent
    return replace(agent, model=str(note[FALLBACK]), parameters=agent.fallback_parameters)


def fall_back(model: str, to: str, why: str) -> Note:
    """Ask another model from now on.

    Args:
        model: the one that is out.
    """
    return Note(StepKind.NOTE, {FALLBACK: to, "for": model, "why": why})


def standard_tier(tier: str, why: str) -> Note:
    """Ask in the standard tier from now on.

    Args:
        tier: the one that is out.
    """
    return Note(StepKind.NOTE, {TIER: "standard", "for": tier, "why": why})


def after_refusal(recent: Sequence[Step], agent: AgentSpec, why: str) -> Note | None:
    """Ask the other model instead of one that refused; None: it has no other, or that one refused.

    The refused reply is not shown to it.
    """
    if not agent.fallback or _last(recent) is not None:
        return None
    note = fall_back(agent.model, agent.fallback, f"refused ({why})" if why else "refused")
    return replace(note, content={**note.content, "refused": True})


def _last(recent: Sequence[Step], key: str = FALLBACK) -> Mapping[str, Json] | None:
    found = [s.content for s in recent if s.kind == StepKind.NOTE and key in s.content]
    return found[-1] if found else None
