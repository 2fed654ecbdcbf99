"""Every command: its name, the module it is in, and what the list of commands says of it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """One command.  The module holds a click command of the same name (see `attribute`)."""

    name: str
    module: str
    help: str

    @property
    def attribute(self) -> str:
        """The name in the module; an underscore follows, for `check` and others are words taken."""
        return f"{self.name.replace('-', '_')}_"


COMMANDS: dict[str, tuple[Command, ...]] = {
    "Start": (
        Command("run", "walagent.cli.daemon", "Follow the WAL and work the runs."),
        Command("worker", "walagent.cli.daemon", "Work runs; another process follows the WAL."),
        Command("init", "walagent.cli.init", "Prepare the database: schema, publication, slot."),
        Command("setup", "walagent.cli.init", "The same, and a role that answers questions."),
        Command("migrate", "walagent.cli.init", "Bring the schema up to date."),
        Command("doctor", "walagent.cli.doctor", "Say what is not in order, and what mends it."),
        Command("demo", "walagent.cli.demo", "Play support tickets through agents; needs nothing."),
    ),
    "Agents": (
        Command("apply", "walagent.cli.apply", "Make agents, and what they need, as in a file."),
        Command("attach", "walagent.cli.agents", "Attach an agent to a table."),
        Command("detach", "walagent.cli.agents", "End an attachment, or all of a table."),
        Command("pause", "walagent.cli.agents", "Let an attachment start no more runs."),
        Command("resume", "walagent.cli.agents", "Let a paused attachment start runs again."),
        Command("agents", "walagent.cli.agents", "List agents, and what they are attached to."),
        Command("models", "walagent.cli.agents", "List models."),
        Command("mcp-tools", "walagent.cli.mcp_tools", "List tools of MCP servers."),
        Command("budgets", "walagent.cli.agents", "List budgets, and what is left of them."),
        Command("backfills", "walagent.cli.backfill", "Show how far backfills are."),
    ),
    "Runs": (
        Command("runs", "walagent.cli.runs", "List runs, newest first."),
        Command("show", "walagent.cli.runs", "Show a run and its steps."),
        Command("why", "walagent.cli.why", "Say why a row has a run, or none."),
        Command("retry", "walagent.cli.runs", "Let a failed, dead or cancelled run go on."),
        Command("cancel", "walagent.cli.runs", "Cancel a run."),
    ),
    "People": (
        Command("approvals", "walagent.cli.approvals", "List tool calls that wait for a person."),
        Command("approve", "walagent.cli.approvals", "Let a waiting tool call happen."),
        Command("reject", "walagent.cli.approvals", "Refuse a waiting tool call."),
        Command("resolve", "walagent.cli.approvals", "Say what became of a call nobody knows of."),
    ),
    "WAL": (
        Command("tail", "walagent.cli.tail", "Print changes as they are committed."),
        Command("gaps", "walagent.cli.slot", "List stretches of WAL that were lost."),
        Command("resync", "walagent.cli.resync", "Make a new slot after a gap, and work its rows."),
        Command("check", "walagent.cli.slot", "Look for broken promises."),
        Command("drop-slot", "walagent.cli.slot", "Drop the slot; the server forgets our place."),
    ),
    "Questions": (
        Command("ask", "walagent.cli.ask", "Ask the database a question in plain words."),
        Command("chat", "walagent.cli.chat", "Ask one question after the other."),
        Command("index", "walagent.cli.ask", "Read what questions can be about."),
        Command("guard", "walagent.cli.guard", "Say whether SQL of somebody else's may run."),
        Command("mcp", "walagent.cli.mcp", "Offer questions and runs to programs that speak MCP."),
    ),
    "More": (
        Command("psql", "walagent.cli.embedded", "Open psql on the database."),
        Command("dsn", "walagent.cli.embedded", "Print the embedded server's connection string."),
        Command("schema", "walagent.cli.schema", "Print the JSON Schema of agents.yaml."),
        Command("completion", "walagent.cli.schema", "Print a shell's completion script."),
    ),
}  # fmt: skip
