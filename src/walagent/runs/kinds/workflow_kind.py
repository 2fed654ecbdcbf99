"""The kind of runs that execute workflows.

Between two nodes, a checkpoint is recorded: policies are asked about the node that has ended and
the one that follows, and the conditions of edges are evaluated, all read-only; then one step says
where the run is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson
from psycopg import Error

from walagent.base import faults
from walagent.deciders.workflow import WorkflowDecider
from walagent.domain.agent_spec import AgentSpec, Authority, RunLimits, Target
from walagent.domain.run import Claim, RunSpec, StepKind
from walagent.domain.tool_spec import Tool
from walagent.domain.transcript import result_to_json
from walagent.domain.workflow_graph import (
    END,
    Definition,
    Edge,
    Frame,
    Position,
    definition_of,
    edges_from,
    filled,
    inner,
    position_of,
)
from walagent.errors import ConfigError, RoleRefusedError, WalagentError
from walagent.message import Json
from walagent.moves import Call, End, Kind, RunLog, fail
from walagent.runs.tools.toolbox import Toolbox
from walagent.store import runs, tool_calls, workflows
from walagent.store.errors import is_passing, translating
from walagent.store.runs import NewStep
from walagent.store.sessions.connections import Pool
from walagent.store.trampolines import make_trampoline, through_trampolines

_TARGET: Final = Target(0, "agent", "workflow", ())
_LEAST: Final = 5.0  # seconds of an attempt, so that it can end its run


class _StuckError(WalagentError):
    """The workflow cannot continue; its run fails with the message."""


def workflow_kind(pool: Pool, toolbox: Toolbox, secret: bytes) -> Kind:
    """Create the kind `node`.

    Args:
        secret: agent_internal.secret, which the markers of data blocks are derived from.
    """
    made = _Workflows(pool, toolbox)
    return Kind(WorkflowDecider(secret), made, specify=made.specify, opens=made.open)


@dataclass(frozen=True, slots=True)
class _Workflows:
    pool: Pool
    toolbox: Toolbox
    _known: dict[tuple[Json, ...], Definition] = field(default_factory=dict)

    async def specify(self, claim: Claim) -> RunSpec:
        """Read the version that the run is pinned to, once, and how old the run is."""
        new = claim.change["new"]
        key = (new["tenant"], new["workflow"], new["version"])
        async with self.pool.connection() as conn:
            age = await workflows.age(conn, claim)
            if (found := self._known.get(key)) is None:
                found = await workflows.definition(conn, claim)
        if found is None:
            raise ConfigError(f'workflow "{key[1]}" has no version {key[2]}')
        self._known[key] = found
        left = float(found["timeout"]) - age
        limits = RunLimits(max_seconds=max(_LEAST, left))
        tools = tuple(_tools(found))
        agent = AgentSpec(found["name"], "", tools=tools, limits=limits)
        authority = Authority(found["run_as"], found["search_path"])
        return RunSpec(
            claim, agent, authority, _TARGET, found["name"], workflow={**found, "left": left}
        )

    async def open(self, run: RunSpec) -> RunSpec | End:
        """End the run if its time is over, or if the worker cannot become its role."""
        definition = definition_of(run)
        if definition["left"] <= 0:
            return fail(f"timeout reached: {definition['timeout']:g} s")
        try:
            with translating():
                async with self.pool.connection() as conn:
                    await make_trampoline(conn, run.authority.run_as)
        except RoleRefusedError as error:
            return fail(str(error))
        return run

    async def carry_out(self, run: RunSpec, call: Call, log: RunLog) -> None:
        """Call a tool, or record a checkpoint."""
        if call.tool.kind != "workflow":
            await self.toolbox.carry_out(run, call, log)
            return
        faults.hit("tool.started")
        try:
            at = await _Passage(self, run, log).pass_on(call.call.arguments or {})
        except (_StuckError, TimeoutError) as error:
            content = result_to_json(call.call, str(error), is_error=True)
        except Error as error:
            if is_passing(error):
                raise
            words = error.diag.message_primary or type(error).__name__
            text = f"{words} (SQLSTATE {error.sqlstate})"
            content = result_to_json(call.call, text, is_error=True)
        else:
            content = result_to_json(call.call, str(at["node"] or END), is_error=False)
            content["workflow"] = at
        faults.hit("tool.done")
        step = NewStep(log.seq, StepKind.RESULT, content)
        async with self.pool.connection() as conn:
            await runs.record_step(conn, run.claim, step)
        faults.hit("tool.committed")
        log.append(step.recorded)


@dataclass(slots=True)
class _Passage:
    """From the end of one node to the start of the next."""

    kind: _Workflows
    run: RunSpec
    log: RunLog

    async def pass_on(self, given: Mapping[str, Json]) -> dict[str, Json]:
        """Find what follows the node that has ended; return the checkpoint."""
        at = position_of(self.log.steps)
        if at is None:
            return await self._enter(self._start(), None)
        name = str(at.node)
        state = await self._leave(replace(at, state=given["state"]))
        here = inner(definition_of(self.run), at.frames)
        node = here["nodes"][name]
        if node["kind"] == "subgraph":
            frames = (*at.frames, Frame(name, state))
            given_in = filled(node["arguments"], state) if "arguments" in node else state
            entry = str(node["workflow"]["entry"])
            return await self._enter(Position(at.number + 1, entry, given_in, frames), name)
        to = await self._follow(replace(at, state=state), str(given["decision"]))
        return await self._enter(to, name)

    def _start(self) -> Position:
        new = self.run.claim.change["new"]
        if (start := new.get("from")) is None:
            return Position(1, definition_of(self.run)["entry"], new["input"])
        frames = tuple(Frame.from_json(frame) for frame in start["frames"])
        return Position(1, start["node"], start["state"], frames)

    async def _follow(self, at: Position, decision: str) -> Position:
        """Take an edge; at the end of a subgraph, one of the edges from its node."""
        frames, state, name = at.frames, at.state, str(at.node)
        while True:
            here = inner(definition_of(self.run), frames)
            to = await self._target(here, name, state, decision)
            if to is not None:
                return Position(at.number + 1, to, state, frames)
            if not frames:
                return Position(at.number + 1, None, state)
            frame, frames = frames[-1], frames[:-1]
            name, decision = frame.node, "approved"
            node = inner(definition_of(self.run), frames)["nodes"][name]
            state = {**frame.state, str(node.get("output") or name): dict(state)}

    async def _target(
        self, here: Definition, name: str, state: Mapping[str, Json], decision: str
    ) -> str | None:
        """Return the node that follows; None: the end.

        Only an edge with a condition is taken after a rejection, or if nobody decided in time.
        """
        edges = edges_from(here, name)
        if decision != "approved":
            edges = [edge for edge in edges if edge.condition is not None]
            if not edges:
                raise _StuckError(f"node {name} is {decision}")
        if not edges:
            return None
        number = 0 if edges[0].condition is None else await self._first_true(edges, state)
        if number is None and name in here["exits"] and decision == "approved":
            return None
        if number is None:
            raise _StuckError(f"no edge from node {name} applies")
        return None if edges[number].to == END else edges[number].to

    async def _first_true(self, edges: Sequence[Edge], state: Mapping[str, Json]) -> int | None:
        """Return the number of the first condition that is true: false and NULL are not."""
        if used := [each for edge in edges for each in edge.uses]:
            async with self.kind.pool.connection() as conn:
                if other := await workflows.exchanged_name(conn, used):
                    raise _StuckError(f"{other}; if that may be, create the workflow again")
        tests = [edge.condition or "true" for edge in edges]
        cases = " ".join(f"when (\n{test}\n)::boolean then {n}" for n, test in enumerate(tests))
        # Each condition was checked to be one expression, and is executed as the role that it has.
        text = f"select (case {cases} end)::pg_catalog.text from (select $1 as state) as s"  # noqa: S608
        authority = self.run.authority
        async with self.kind.toolbox.calls.connection() as conn:
            found = await tool_calls.read_as(
                conn,
                authority.run_as,
                text,
                orjson.loads(orjson.dumps(state, default=str)),
                path=", ".join(part for part in (authority.search_path, "pg_temp") if part),
                settings={"statement_timeout": "30s"},
            )
        return None if found is None else int(found)

    # Policies.

    async def _leave(self, at: Position) -> Mapping[str, Json]:
        """Ask the policies about a node that has ended; return the state as they changed it."""
        decided = await self._ask("after", at)
        if decided["action"] != "allow":
            raise _StuckError(f"node {at.node} is refused: {decided['reason']}")
        return decided["call"]["state"]

    async def _enter(self, to: Position, name: str | None) -> dict[str, Json]:
        """Ask the policies about the node that follows; return the checkpoint."""
        state, policy = to.state, None
        if to.node is not None:
            decided = await self._ask("before", to)
            state = decided["call"]["state"]
            if decided["action"] != "allow":
                policy = {key: decided[key] for key in ("action", "reason", "policy")}
        return {
            "number": to.number,
            "from": name,
            "node": to.node,
            "state": dict(state),
            "frames": [frame.to_json() for frame in to.frames],
            "policy": policy,
        }

    async def _ask(self, phase: str, at: Position) -> Mapping[str, Any]:
        definition = definition_of(self.run)
        here = inner(definition, at.frames)
        call: dict[str, Json] = {
            "workflow": definition["name"],
            "version": definition["version"],
            "run": self.run.run_id,
            "node": at.node,
            "kind": here["nodes"][at.node]["kind"],
            "state": dict(at.state),
        }
        tenant = str(self.run.claim.change["new"]["tenant"])
        async with self.kind.toolbox.calls.connection() as conn:
            decided = await through_trampolines(
                lambda: workflows.decide(conn, phase, call, tenant),
                self.kind.pool.connection,
                policies=True,
            )
        changed: Mapping[str, Any] = decided.get("call") or {}
        if not isinstance(changed.get("state"), dict):
            raise _StuckError(f"node {at.node} is refused: a policy removed the state")
        return decided


def _tools(definition: Definition) -> list[Tool]:
    """Return the tools of a workflow's nodes, with those of its subgraphs."""
    found = dict[str, Tool]()
    for node in definition["nodes"].values():
        match node["kind"]:
            case "tool" | "function":
                tool = Tool.from_json(node[node["kind"]])
                found[tool.name] = tool
            case "model" if "agent" in node:
                found |= {tool.name: tool for tool in AgentSpec.from_json(node["agent"]).tools}
            case "subgraph":
                found |= {tool.name: tool for tool in _tools(node["workflow"])}
            case _:
                pass
    return list(found.values())
