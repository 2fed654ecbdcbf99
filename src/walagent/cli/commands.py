"""All commands: name, module, and the line in the list of commands."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """One command.  Its module contains a click command named `attribute`."""

    name: str
    module: str
    help: str

    @property
    def attribute(self) -> str:
        """The name in the module, with a trailing underscore: `check` and others are parameters."""
        return f"{self.name.replace('-', '_')}_"


COMMANDS: dict[str, tuple[Command, ...]] = {
    "Start": (
        Command("run", "walagent.cli.daemon", "Read the WAL and execute runs."),
        Command("worker", "walagent.cli.daemon", "Execute runs without reading the WAL."),
        Command("sync", "walagent.cli.sync", "Serve live rows in a process of its own."),
        Command("init", "walagent.cli.init", "Prepare the database: schema, publication, slot."),
        Command("setup", "walagent.cli.init", "Like init, and create the role for questions."),
        Command("migrate", "walagent.cli.init", "Upgrade the schema."),
        Command("adopt", "walagent.cli.adopt", "Let a copy of a database execute runs."),
        Command("doctor", "walagent.cli.doctor", "Check the installation and print fixes."),
        Command("new", "walagent.cli.new", "Write a first agents.yaml for a table."),
        Command("console", "walagent.cli.console", "Print a link that signs in to the console."),
        Command("try", "walagent.cli.trial", "Show what an agent would do; nothing is kept."),
        Command("demo", "walagent.cli.demo", "Run a demo on an embedded PostgreSQL."),
        Command("example", "walagent.cli.example", "Start an example with a page in the browser."),
    ),
    "Agents": (
        Command("apply", "walagent.cli.apply", "Apply agents, models and budgets from a file."),
        Command("attach", "walagent.cli.agents", "Attach an agent to a table."),
        Command("detach", "walagent.cli.agents", "Remove attachments by name or by table."),
        Command("pause", "walagent.cli.agents", "Stop an attachment from starting runs."),
        Command("resume", "walagent.cli.agents", "Resume a paused attachment."),
        Command("agents", "walagent.cli.agents", "List agents and their attachments."),
        Command("models", "walagent.cli.agents", "List models."),
        Command("mcp-tools", "walagent.cli.mcp_tools", "List the tools of MCP servers."),
        Command("budgets", "walagent.cli.agents", "List budgets and what is spent."),
        Command("backfills", "walagent.cli.backfill", "Show the progress of backfills."),
    ),
    "Runs": (
        Command("runs", "walagent.cli.runs", "List runs, newest first."),
        Command("cost", "walagent.cli.cost", "Add up tokens and cost of model calls."),
        Command("show", "walagent.cli.runs", "Show a run and its steps."),
        Command("why", "walagent.cli.why", "Explain why a row has a run, or none."),
        Command("retry", "walagent.cli.runs", "Requeue failed, dead or cancelled runs."),
        Command("cancel", "walagent.cli.runs", "Cancel runs."),
    ),
    "Threads": (
        Command("thread", "walagent.cli.threads", "Show and change threads of people and agents."),
        Command("team", "walagent.cli.team", "Show and change teams of people and agents."),
        Command("talk", "walagent.cli.talk", "Take part in a thread from a terminal."),
    ),
    "Approvals": (
        Command("approvals", "walagent.cli.approvals", "List pending tool calls."),
        Command("approve", "walagent.cli.approvals", "Approve pending tool calls."),
        Command("reject", "walagent.cli.approvals", "Reject pending tool calls."),
        Command("answer", "walagent.cli.approvals", "Answer the question of an agent."),
        Command("resolve", "walagent.cli.approvals", "Resolve a call whose outcome is unknown."),
    ),
    "Knowledge": (
        Command("memory", "walagent.cli.memory", "List and change what agents remember."),
        Command("persona", "walagent.cli.persona", "List personas and their versions."),
        Command("policy", "walagent.cli.policy", "List policies, and let them apply or not."),
        Command("tool", "walagent.cli.tool", "List, disable and grant tools."),
        Command("document", "walagent.cli.document", "Add, search and remove documents."),
        Command("workflow", "walagent.cli.workflow", "Create, start and follow workflows."),
    ),
    "WAL": (
        Command("tail", "walagent.cli.tail", "Print changes as they are committed."),
        Command("watch", "walagent.cli.watch", "Print live rows of a running daemon."),
        Command("gaps", "walagent.cli.slot", "List gaps: ranges of WAL that were lost."),
        Command("resync", "walagent.cli.resync", "Create a new slot and recover a gap's rows."),
        Command("check", "walagent.cli.slot", "Check the engine's invariants."),
        Command("drop-slot", "walagent.cli.slot", "Drop the replication slot."),
    ),
    "Questions": (
        Command("ask", "walagent.cli.ask", "Ask the database a question."),
        Command("chat", "walagent.cli.chat", "Ask questions interactively."),
        Command("sessions", "walagent.cli.sessions", "List or delete sessions of questions."),
        Command("index", "walagent.cli.ask", "Refresh the schema index."),
        Command("guard", "walagent.cli.guard", "Check whether untrusted SQL is allowed."),
        Command("mcp", "walagent.cli.mcp", "Serve questions and runs to MCP clients."),
    ),
    "People": (
        Command("tenant", "walagent.cli.tenant", "List and change tenants."),
        Command("principal", "walagent.cli.principal", "List and change principals and roles."),
        Command("token", "walagent.cli.token", "Create, list and revoke tokens."),
    ),
    "More": (
        Command("audit", "walagent.cli.audit", "List the audit, or verify that it is unchanged."),
        Command("outbox", "walagent.cli.outbox", "List, retry and cancel messages to the outside."),
        Command("psql", "walagent.cli.embedded", "Open psql on the database."),
        Command("dsn", "walagent.cli.embedded", "Print the embedded server's connection string."),
        Command("compat", "walagent.cli.compat", "Let programs for other systems use walagent."),
        Command("uninstall", "walagent.cli.uninstall", "Remove walagent from the database."),
        Command("schema", "walagent.cli.schema", "Print the JSON Schema of agents.yaml."),
        Command("completion", "walagent.cli.schema", "Print a shell completion script."),
    ),
}
