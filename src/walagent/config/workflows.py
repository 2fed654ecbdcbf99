"""The entries of `workflows` in agents.yaml."""

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field

from walagent.config.base import Duration, Name, Names, Part
from walagent.config.entries import Positive

WorkflowName = Annotated[str, Field(pattern="^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")]


class WorkflowNodeEntry(Part):
    """A node of a workflow."""

    name: Name
    """Name, unique in the workflow."""
    kind: Literal["model", "tool", "router", "function", "human", "parallel", "subgraph"]
    """What it executes."""
    model: Name | None = None
    """`model`: the model that is called once; or:"""
    agent: Name | None = None
    """`model`: the agent that works until it has answered."""
    prompt: str | None = None
    """`model`, `human`: the text; `{{path}}` inserts a value of the state."""
    format: Literal["text", "json"] | None = None
    """`model`: `json` parses the answer.  Default: text."""
    tool: Name | None = None
    """`tool`: the tool that is called."""
    function: Name | None = None
    """`function`: a SQL function `f(state jsonb) returns jsonb`."""
    workflow: Name | None = None
    """`subgraph`: the workflow that is executed."""
    arguments: dict[str, Any] | None = None
    """`tool`: arguments of the call; `subgraph`: state that it begins with."""
    branches: Names | None = None
    """`parallel`: nodes that are executed side by side."""
    output: Name | None = None
    """Key of the state for the result.  Default: the name of the node."""
    type: Literal["approval", "input", "review", "escalation"] | None = None
    """`human`: what the person is asked for.  Default: approval."""
    expires: str | None = None
    """How long a person has to decide, such as `1 hour`.  Default: 7 days."""
    attempts: Positive | None = None
    """`tool`, `function`: calls until one succeeds, up to 10.  Default: 1."""
    interrupt_before: bool | None = None
    """A person decides before the node.  Default: no."""
    interrupt_after: bool | None = None
    """A person decides after the node.  Default: no."""
    lets_out: bool | None = None
    """`tool`, `model`: what other nodes read may leave the database by its tools.  Default: no; a
    workflow that could is then refused."""


class WorkflowEdgeEntry(Part):
    """What follows a node."""

    source: Name = Field(alias="from")
    """Node that it leaves."""
    to: Name
    """Node that it enters, or `__end__`."""
    condition: Name | None = None
    """SQL expression over `state`; only if it is true, the edge is taken.  Default: always."""
    function: Name | None = None
    """Instead of a condition: a SQL function `f(state jsonb) returns boolean`."""
    label: str | None = None
    """Text for people."""
    priority: int | None = None
    """Order of evaluation, lowest first.  Default: 100."""


class WorkflowEntry(Part):
    """A graph of nodes that share a state."""

    nodes: tuple[WorkflowNodeEntry, ...] = Field(min_length=1)
    """Its nodes."""
    edges: tuple[WorkflowEdgeEntry, ...] = ()
    """Its edges.  After a node without edges, the workflow ends."""
    entry: Name | None = None
    """First node.  Default: the first of `nodes`."""
    exits: Names = ()
    """Nodes after which it ends if none of their edges applies."""
    description: str = ""
    """Text for people."""
    max_steps: Positive = 100
    """Nodes that a run executes at most."""
    timeout: Duration = timedelta(days=7)
    """Time from the start of a run to its end, waits included."""
    run_as: Name | None = None
    """Role of tools, functions and conditions.  Default: the role that applies the file."""

    @property
    def agents(self) -> frozenset[str]:
        """The agents of its nodes."""
        return frozenset(node.agent for node in self.nodes if node.agent)

    @property
    def subgraphs(self) -> frozenset[str]:
        """The workflows of its nodes."""
        return frozenset(node.workflow for node in self.nodes if node.workflow)
