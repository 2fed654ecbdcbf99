"""`walagent agents personas`: who agents are."""

from walagent.cli.definitions import listing, showing, versions

list_ = listing("personas", ["name", "version", "model", "rules", "agents", "updated_at"])
show_ = showing("persona")
versions_ = versions("persona", ["version", "made_by", "made_at", "definition"])
