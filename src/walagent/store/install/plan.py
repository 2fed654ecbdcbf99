"""Which files of the schema a database lacks.  Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from walagent.errors import PreconditionError
from walagent.store.install.files import SchemaFile, SchemaFiles


@dataclass(frozen=True, slots=True)
class Applied:
    """A file as a database has it: its digest, and the version of walagent that applied it."""

    digest: str
    version: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be applied; false if the schema is up to date."""

    is_new: bool
    upgrades: Sequence[SchemaFile] = ()
    code: Sequence[SchemaFile] = ()
    removed: Sequence[str] = ()

    def __bool__(self) -> bool:
        """Whether there is anything to apply."""
        return self.is_new or bool(self.upgrades or self.code or self.removed)

    @property
    def names(self) -> list[str]:
        """What is applied, in order: files, or `schema` for a database without one."""
        if self.is_new:
            return ["schema"]
        return [*(file.name for file in [*self.upgrades, *self.code]), *self.removed]

    @property
    def text(self) -> str:
        """What is pending, for an error."""
        names = self.names
        more = f" and {len(names) - 1} more files" if len(names) > 1 else ""
        return f"the schema is out of date: {names[0]}{more}"


def plan_of(files: SchemaFiles, applied: Mapping[str, Applied], version: str) -> Plan:
    """Return what a database with the files *applied* lacks of *files*, those of *version*.

    Raises:
        PreconditionError: a newer version has applied its files, or an upgrade was edited.
    """
    if not applied:
        return Plan(is_new=True)
    newest = max((each.version for each in applied.values()), key=_parts)
    if _parts(newest) > _parts(version):
        raise PreconditionError(
            f"version {newest} of walagent migrated the database; this is {version}",
            hint="Upgrade walagent.",
        )
    known = {file.name for file in files.recorded}
    for name in sorted(applied.keys() - known):
        if name.startswith("upgrades/"):
            raise PreconditionError(
                f"this version of walagent does not have the database's {name}",
                hint="Upgrade walagent: another version migrated the database.",
            )
    for file in files.upgrades:
        if file.name in applied and applied[file.name].digest != file.digest:
            raise PreconditionError(
                f"{file.name} differs from the file that was applied",
                hint="Install the release that migrated the database, or a newer one.",
            )
    return Plan(
        is_new=False,
        upgrades=[file for file in files.upgrades if file.name not in applied],
        code=[
            file
            for file in files.code
            if file.name not in applied or applied[file.name].digest != file.digest
        ],
        removed=sorted(applied.keys() - known),
    )


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
