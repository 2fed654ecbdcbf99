"""walagent runs LLM agents on PostgreSQL row changes, and answers questions about the data.

What is exported here is public, see `docs/stability.md`.  Each name is imported when it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from walagent.agents import Agents, AsyncAgents
    from walagent.ask.catalog import IndexSummary
    from walagent.ask.options import Options
    from walagent.ask.outcome import (
        ModelAsked,
        PlanMade,
        QuestionEvent,
        QuestionResult,
        SessionWaiting,
        StepDone,
        StepStarted,
    )
    from walagent.ask.plan import Plan, PlanStep
    from walagent.ask.results import StepResult
    from walagent.client import AsyncClient, AsyncConversation, Client, Conversation
    from walagent.config import AskSettings
    from walagent.domain.tool_spec import Effect
    from walagent.errors import CircuitBreakerOpenError, ToolFailedError, WalagentError
    from walagent.message import ModelSpec
    from walagent.moves import Actor, Decider, Kind
    from walagent.rows.rows import ResultColumn, Rows
    from walagent.shapes import RowChange, ShapeClient
    from walagent.store.people.question_runs import AnsweredQuestion, SessionSummary
    from walagent.supervisor import (
        AgentMessage,
        CoordinationPattern,
        OrchestrationState,
        Supervisor,
    )
    from walagent.tools.python import ToolContext, tool

__version__ = "0.1.0"
__all__ = [
    "Actor",
    "AgentMessage",
    "Agents",
    "AnsweredQuestion",
    "AskSettings",
    "AsyncAgents",
    "AsyncClient",
    "AsyncConversation",
    "CircuitBreakerOpenError",
    "Client",
    "Conversation",
    "CoordinationPattern",
    "Decider",
    "Effect",
    "IndexSummary",
    "Kind",
    "ModelAsked",
    "ModelSpec",
    "Options",
    "OrchestrationState",
    "Plan",
    "PlanMade",
    "PlanStep",
    "QuestionEvent",
    "QuestionResult",
    "ResultColumn",
    "RowChange",
    "Rows",
    "SessionSummary",
    "SessionWaiting",
    "ShapeClient",
    "StepDone",
    "StepResult",
    "StepStarted",
    "Supervisor",
    "ToolContext",
    "ToolFailedError",
    "WalagentError",
    "__version__",
    "tool",
]

_MODULES = {
    "walagent.tools.python": ("ToolContext", "tool"),
    "walagent.agents": ("Agents", "AsyncAgents"),
    "walagent.ask.catalog": ("IndexSummary",),
    "walagent.ask.options": ("Options",),
    "walagent.ask.outcome": (
        "ModelAsked",
        "PlanMade",
        "QuestionEvent",
        "QuestionResult",
        "SessionWaiting",
        "StepDone",
        "StepStarted",
    ),
    "walagent.ask.plan": ("Plan", "PlanStep"),
    "walagent.ask.results": ("StepResult",),
    "walagent.client": ("AsyncClient", "AsyncConversation", "Client", "Conversation"),
    "walagent.config": ("AskSettings",),
    "walagent.errors": ("CircuitBreakerOpenError", "ToolFailedError", "WalagentError"),
    "walagent.message": ("ModelSpec",),
    "walagent.moves": ("Actor", "Decider", "Kind"),
    "walagent.rows.rows": ("ResultColumn", "Rows"),
    "walagent.shapes": ("RowChange", "ShapeClient"),
    "walagent.store.people.question_runs": ("AnsweredQuestion", "SessionSummary"),
    "walagent.supervisor": (
        "AgentMessage",
        "CoordinationPattern",
        "OrchestrationState",
        "Supervisor",
    ),
    "walagent.domain.tool_spec": ("Effect",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a name from its module on first use, which makes the command line start faster."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
