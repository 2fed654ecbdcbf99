"""All groups and commands: what is typed, where it is defined, and its line in a list."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

_CLI: Final = "walagent.cli"


@dataclass(frozen=True, slots=True)
class Command:
    """One command.  Its module, of `walagent.cli`, contains a click command named `attribute`.

    Args:
        is_listed: whether `walagent --help` has it; else the help of its group alone.
    """

    name: str
    module: str
    help: str
    is_listed: bool = True

    @property
    def attribute(self) -> str:
        """The name in the module, with a trailing underscore: `check` and others are parameters."""
        return f"{self.name.replace('-', '_')}_"

    @property
    def path(self) -> str:
        """The full name of the module."""
        return f"{_CLI}.{self.module}"


@dataclass(frozen=True, slots=True)
class Group:
    """Commands about one noun, and groups of its parts."""

    name: str
    help: str
    entries: tuple["Entry", ...]


Entry = Command | Group

_SHOW: Final = Command("show", "runs.runs", "Show a run and its steps.")
_REPLAY: Final = Command(
    "replay", "evaluations.replay", "Replay recorded changes through a candidate."
)
_WHY: Final = Command("why", "runs.why", "Explain why a row has a run, or none.")
_CHANGES: Final = Command("changes", "runs.changes", "List the rows that agents changed.")
_REVERT: Final = Command("revert", "runs.revert", "Take back what runs changed.")
_FORK: Final = Command("fork", "runs.fork", "Go on from a step of a run, in a run of its own.")

_AGENTS: Final = Group(
    "agents",
    "Agents: attach, pause; models, budgets, tools, personas.",
    (
        Command("list", "agents.attachments", "List agents and their attachments."),
        Command("attach", "agents.attachments", "Attach an agent to a table."),
        Command("detach", "agents.attachments", "Remove attachments by name or by table."),
        Command("pause", "agents.attachments", "Stop an attachment from starting runs."),
        Command("resume", "agents.attachments", "Resume a paused attachment."),
        Command("accuracy", "runs.corrections", "Show how much of what agents wrote was left."),
        Command("cascade", "agents.cascades", "Show what each model of a cascade decided."),
        Command("examples", "agents.examples", "Propose examples of what people corrected."),
        Command("backfills", "agents.backfills", "Show the progress of backfills."),
        Command("models", "agents.attachments", "List models."),
        Command("budgets", "agents.attachments", "List budgets and what is spent."),
        Command("schema", "agents.schema", "Print the JSON Schema of agents.yaml."),
        Group(
            "canary",
            "Canaries: a version of an attachment for a share of its rows.",
            (
                Command("begin", "agents.canaries", "Begin a canary of an attachment."),
                Command("change", "agents.canaries", "Change share or rule of a canary."),
                Command("list", "agents.canaries", "List canaries with figures of both versions."),
                Command("promote", "agents.canaries", "Make a canary the version of all rows."),
                Command("roll-back", "agents.canaries", "End a canary or a shadow."),
                Command(
                    "shadow", "agents.canaries", "Run a version beside the other; keep nothing."
                ),
            ),
        ),
        Group(
            "personas",
            "Personas and their versions.",
            (
                Command("list", "agents.personas", "List personas."),
                Command("show", "agents.personas", "Show a persona."),
                Command("versions", "agents.personas", "List the versions of a persona."),
            ),
        ),
        Group(
            "tools",
            "Tools: list, disable and grant them.",
            (
                Command("list", "agents.tools", "List tools."),
                Command("show", "agents.tools", "Show a tool with its grants."),
                Command("versions", "agents.tools", "List the versions of a tool."),
                Command("enable", "agents.tools", "Allow the calls of a tool again."),
                Command("disable", "agents.tools", "Refuse the calls of a tool."),
                Command("grant", "agents.tools", "Allow calls for principals with a role."),
                Command("deny", "agents.tools", "Withdraw a grant, or deny arguments of it."),
                Command("mcp", "agents.mcp_tools", "List the tools of MCP servers."),
            ),
        ),
    ),
)
_RUNS: Final = Group(
    "runs",
    "Runs: list, retry, cancel, revert; what they cost.",
    (
        Command("list", "runs.runs", "List runs, newest first."),
        _SHOW,
        _WHY,
        Command("retry", "runs.runs", "Requeue failed, dead or cancelled runs."),
        Command("cancel", "runs.runs", "Cancel runs."),
        Command("prioritize", "runs.runs", "Set the priority of runs that wait."),
        _FORK,
        _CHANGES,
        _REVERT,
        Command("corrections", "runs.corrections", "List what others changed of agents' writes."),
        Command("unscored", "runs.scores", "List runs that a person should score, and why."),
        Command("score", "runs.scores", "Say whether a run was right."),
        Command("resolve", "approvals", "Resolve a call whose outcome is unknown."),
        Command("batches", "runs.batches", "List batches of calls."),
        Command("cost", "runs.cost", "Add up tokens and cost of model calls."),
    ),
)
_APPROVALS: Final = Group(
    "approvals",
    "Tool calls and questions that wait for a person.",
    (
        Command("list", "approvals", "List pending tool calls."),
        Command("approve", "approvals", "Approve pending tool calls."),
        Command("reject", "approvals", "Reject pending tool calls."),
        Command("answer", "approvals", "Answer the question of an agent."),
    ),
)
_THREADS: Final = Group(
    "threads",
    "Conversations of people and agents, and their teams.",
    (
        Command("list", "threads.threads", "List threads, the latest active first."),
        Command("show", "threads.threads", "Show a thread: members, facts, latest events."),
        Command("talk", "threads.talk", "Take part in a thread from a terminal."),
        Command("open", "threads.threads", "Open a thread; print its ID."),
        Command("post", "threads.threads", "Post a text; print the number of its event."),
        Command("inject", "threads.threads", "Give agents an instruction or context."),
        Command("members", "threads.threads", "List the members of a thread."),
        Command("add", "threads.threads", "Add a person or an agent, or change its role."),
        Command("remove", "threads.threads", "Remove a member from a thread."),
        Command("join", "threads.threads", "Join a thread."),
        Command("leave", "threads.threads", "Leave a thread."),
        Command("rename", "threads.threads", "Give a thread another title."),
        Command("pause", "threads.threads", "Start no turns of agents in a thread."),
        Command("resume", "threads.threads", "Resume a paused or completed thread."),
        Command("complete", "threads.threads", "Mark a thread as completed."),
        Command("archive", "threads.threads", "Archive a thread: nothing can be posted."),
        Group(
            "teams",
            "Teams of people and agents: discussions, votes, tasks.",
            (
                Command("list", "threads.teams", "List teams."),
                Command("create", "threads.teams", "Create a team as its leader."),
                Command("members", "threads.teams", "List the members of a team."),
                Command("add", "threads.teams", "Add a principal, or change its role."),
                Command("remove", "threads.teams", "Remove a principal from a team."),
                Command("discuss", "threads.teams", "Open a discussion; print its thread."),
                Command("discussions", "threads.teams", "List the discussions of a team."),
                Command("propose", "threads.teams", "Propose what a team decides; print its ID."),
                Command("vote", "threads.teams", "Vote yes, no or abstain, once; print the state."),
                Command("proposals", "threads.teams", "List the proposals of a team."),
                Command("task", "threads.teams", "Create a task of a team; print its ID."),
                Command("update", "threads.teams", "Change the state of a task."),
                Command("tasks", "threads.teams", "List the tasks of a team."),
                Command("save", "threads.teams", "Save a file as a version of an artifact."),
                Command("artifacts", "threads.teams", "List the artifacts of a team."),
            ),
        ),
    ),
)
_WORKFLOWS: Final = Group(
    "workflows",
    "Graphs of models, tools, functions and people.",
    (
        Command("list", "workflows", "List workflows."),
        Command("show", "workflows", "Show the newest version of a workflow."),
        Command("create", "workflows", "Create a workflow, or a version, from a YAML file."),
        Command("validate", "workflows", "List what is wrong with a workflow."),
        Command("dot", "workflows", "Print the graph of a workflow for Graphviz."),
        Command("drop", "workflows", "Remove a workflow; runs that have ended stay."),
        Command("start", "workflows", "Start a run; print its ID."),
        Command("runs", "workflows", "List runs of workflows, the latest first."),
        Command("state", "workflows", "List the checkpoints of a run."),
        Command("interrupts", "workflows", "List interrupts that wait for a person."),
        Command("resume", "workflows", "Resume a run after its interrupt, once."),
        Command("fork", "workflows", "Start a run at a checkpoint of another."),
    ),
)
_KNOWLEDGE: Final = Group(
    "knowledge",
    "Documents, memories, the schema index, old questions.",
    (
        Group(
            "documents",
            "Documents that agents search.",
            (
                Command("list", "knowledge.documents", "List documents, the latest first."),
                Command("add", "knowledge.documents", "Store text files; print their IDs."),
                Command("search", "knowledge.documents", "Search documents by words, best first."),
                Command("rm", "knowledge.documents", "Remove documents: all or none."),
            ),
        ),
        Group(
            "memories",
            "What agents remember.",
            (
                Command("list", "knowledge.memories", "List memories, the latest first."),
                Command(
                    "show", "knowledge.memories", "Show a memory with all that is known of it."
                ),
                Command("add", "knowledge.memories", "Store a memory of an agent; print its ID."),
                Command("correct", "knowledge.memories", "Replace a memory; print the ID."),
                Command("forget", "knowledge.memories", "Delete memories: all or none."),
                Command("prune", "knowledge.memories", "Delete expired and replaced memories."),
            ),
        ),
        Command("index", "questions.ask", "Refresh the schema index that questions use."),
        Command("sessions", "questions.sessions", "List or delete sessions of questions."),
    ),
)
_OUTBOX: Final = Group(
    "outbox",
    "Messages to the outside: webhooks, Slack, email.",
    (
        Command("list", "outbox", "List messages, the newest first."),
        Command("show", "outbox", "Show one message with its delivery."),
        Command("retry", "outbox", "Deliver failed, dead or cancelled messages again."),
        Command("cancel", "outbox", "Do not deliver messages."),
    ),
)
_EVALUATIONS: Final = Group(
    "evaluations",
    "Replay changes, compare candidates; datasets with labels.",
    (
        _REPLAY,
        Command("list", "evaluations.evaluations", "List evaluations, newest first."),
        Command("show", "evaluations.evaluations", "Show the cases of an evaluation."),
        Command("compare", "evaluations.evaluations", "Compare two evaluations."),
        Command("delete", "evaluations.evaluations", "Delete evaluations with their cases."),
        Group(
            "datasets",
            "Changes to replay, with what is expected of a run.",
            (
                Command("list", "evaluations.datasets", "List datasets."),
                Command("show", "evaluations.datasets", "Show the cases of a dataset."),
                Command("create", "evaluations.datasets", "Create a dataset of runs or rows."),
                Command("label", "evaluations.datasets", "Say what is expected of a run."),
                Command("drop", "evaluations.datasets", "Delete a dataset with its cases."),
            ),
        ),
    ),
)
_WAL: Final = Group(
    "wal",
    "The write-ahead log: changes, gaps, invariants, the slot.",
    (
        Command("tail", "wal.tail", "Print changes as they are committed."),
        Command("watch", "wal.watch", "Print live rows of a running daemon."),
        Command("gaps", "wal.slot", "List gaps: ranges of WAL that were lost."),
        Command("resync", "wal.resync", "Create a new slot and recover a gap's rows."),
        Command("check", "wal.slot", "Check the engine's invariants."),
        Command("drop-slot", "wal.slot", "Drop the replication slot."),
    ),
)
_TENANTS: Final = Group(
    "tenants",
    "Tenants, principals, tokens, policies, the audit.",
    (
        Command("list", "tenants.tenants", "List tenants."),
        Command("add", "tenants.tenants", "Create a tenant."),
        Command("disable", "tenants.tenants", "Refuse the principals of a tenant; start no runs."),
        Command("enable", "tenants.tenants", "Let a disabled tenant act again."),
        Command("limit", "tenants.tenants", "Limit the runs of a tenant, or show its limits."),
        Command("export", "tenants.tenants", "Write all rows of a tenant to files."),
        Command("delete", "tenants.tenants", "Delete a tenant with all that it has."),
        Group(
            "principals",
            "People, services and agents, and their roles.",
            (
                Command("list", "tenants.principals", "List principals with their roles."),
                Command("add", "tenants.principals", "Create a principal."),
                Command("disable", "tenants.principals", "Refuse a principal and its tokens."),
                Command("enable", "tenants.principals", "Let a disabled principal act again."),
                Command("grant", "tenants.principals", "Grant a role, or change when it ends."),
                Command("revoke", "tenants.principals", "Revoke a role."),
            ),
        ),
        Group(
            "tokens",
            "Tokens of principals.",
            (
                Command("list", "tenants.tokens", "List tokens."),
                Command("create", "tenants.tokens", "Create a token and print it."),
                Command("revoke", "tenants.tokens", "Revoke a token."),
            ),
        ),
        Group(
            "policies",
            "Policies, and whether they apply.",
            (
                Command("list", "tenants.policies", "List policies."),
                Command("show", "tenants.policies", "Show a policy."),
                Command("enable", "tenants.policies", "Enable a policy."),
                Command("disable", "tenants.policies", "Disable a policy."),
            ),
        ),
        Group(
            "audit",
            "The audit, and whether it is unchanged.",
            (
                Command("list", "tenants.audit", "List rows, the newest first."),
                Command("verify", "tenants.audit", "Find rows that were changed or removed."),
            ),
        ),
    ),
)
_SERVE: Final = Group(
    "serve",
    "Other processes: workers, live rows, MCP, examples.",
    (
        Command("worker", "serve.daemon", "Execute runs without reading the WAL."),
        Command("sync", "serve.sync", "Serve live rows in a process of its own."),
        Command("mcp", "serve.mcp", "Serve questions and runs to MCP clients."),
        Group(
            "example",
            "Examples with a page in the browser.",
            (Command("burn", "serve.example", "Play Burn against three agents."),),
        ),
    ),
)
_DATABASE: Final = Group(
    "database",
    "Schema upgrades, copies, psql, the guard, removal.",
    (
        Command("setup", "start.init", "Like init, and create the role for questions."),
        Command("migrate", "start.init", "Upgrade the schema."),
        Command("adopt", "database.adopt", "Let a copy of a database execute runs."),
        Command("psql", "database.embedded", "Open psql on the database."),
        Command("dsn", "database.embedded", "Print the embedded server's connection string."),
        Command("guard", "questions.guard", "Check whether untrusted SQL is allowed."),
        Command("uninstall", "database.uninstall", "Remove walagent from the database."),
        Group(
            "pgagentos",
            "The schemas aos_* of pgAgentOS, as views and functions.",
            (
                Command("install", "database.compat", "Create the schemas, or renew them."),
                Command("remove", "database.compat", "Drop the schemas."),
            ),
        ),
        Group(
            "extension",
            "The schema as an extension of a self-managed server.",
            (Command("install", "database.extension", "Write the extension's files."),),
        ),
    ),
)

COMMANDS: Final[dict[str, tuple[Entry, ...]]] = {
    "Commands": (
        Command("init", "start.init", "Prepare the database: schema, publication, slot."),
        Command("new", "start.new", "Write a first agents.yaml for a table."),
        Command("try", "start.trial", "Show what an agent would do; nothing is kept."),
        replace(_REPLAY, is_listed=False),
        Command("apply", "start.apply", "Apply agents, models and budgets from a file."),
        Command("run", "serve.daemon", "Read the WAL and execute runs."),
        Command("status", "start.status", "Show reader, lag, queue, and what needs a person."),
        _SHOW,
        _WHY,
        replace(_CHANGES, is_listed=False),
        replace(_REVERT, is_listed=False),
        replace(_FORK, is_listed=False),
        Command("ask", "questions.ask", "Ask the database a question."),
        Command("chat", "questions.chat", "Ask questions interactively."),
        Command("console", "start.console", "Print a link that signs in to the console."),
        Command("doctor", "start.doctor", "Check the installation and print fixes."),
        Command("demo", "serve.demo", "Run a demo on an embedded PostgreSQL."),
        Command("completion", "agents.schema", "Print a shell completion script."),
    ),
    "Groups (walagent GROUP --help lists the commands)": (
        _AGENTS, _RUNS, _APPROVALS, _THREADS, _WORKFLOWS, _KNOWLEDGE, _OUTBOX, _EVALUATIONS,
        _WAL, _TENANTS, _SERVE, _DATABASE,
    ),
}  # fmt: skip


def walk(
    entries: tuple[Entry, ...] | None = None, *path: str
) -> Iterator[tuple[tuple[str, ...], Entry]]:
    """Yield each group and command with what is typed, a group before its commands."""
    for entry in entries or (each for many in COMMANDS.values() for each in many):
        yield (*path, entry.name), entry
        if isinstance(entry, Group):
            yield from walk(entry.entries, *path, entry.name)
