"""What a condition is on a change: true, an error, not evaluated yet, or not possible any more."""

from dataclasses import dataclass

from walagent.matching import predicate
from walagent.matching.document import readable
from walagent.matching.match import Match


@dataclass(frozen=True, slots=True)
class Raised:
    """The condition raised an error on this change."""

    match: Match
    sqlstate: str
    message: str


@dataclass(frozen=True, slots=True)
class Deferred:
    """Evaluation is deferred: the attachment is broken."""

    match: Match
    reason: str


@dataclass(frozen=True, slots=True)
class Gone:
    """A value that the condition reads is in neither the WAL nor the table."""

    match: Match
    hidden: bool = False  # row security can hide the row from the role

    @property
    def reason(self) -> str:
        """Return what is missing."""
        columns = predicate.omitted(self.match.attachment, self.match.change)
        names = ", ".join(f'"{readable(name)}"' for name in columns)
        row = "its row does not exist now, or had no key"
        if self.hidden:
            row += f', or is invisible to role "{self.match.attachment.authority.run_as}"'
        return (
            "condition could not be evaluated: the WAL omits the unchanged value of column"
            f" {names}, and {row}"
        )


Verdict = Match | Raised | Deferred | Gone


def match_of(verdict: Verdict) -> Match:
    """Return the match of a verdict."""
    return verdict if isinstance(verdict, Match) else verdict.match
