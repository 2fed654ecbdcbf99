"""An application that changes rows and their table by chance, and writes down what must be seen.

What it does is put together as text: one statement list for each transaction.
"""

import random

SCENE = """
insert into agent.model (name, provider, model_id) values ('fake', 'scripted', 'fake');
create type mood as enum ('good', 'bad');
create schema other;
create table thing (id bigint primary key, n int);
create table wrote (seq bigint primary key generated always as identity, op text, id bigint, n int);
"""


class Storm:
    """A writer that changes rows and their table by chance, and writes down what must be seen."""

    def __init__(self, chance: random.Random, *, renames: bool) -> None:
        """Know the table as SCENE_OF_STORM makes it.

        Args:
            renames: whether the table itself may move; wal2json is told its name.
        """
        self._chance = chance
        self._renames = renames
        self._schema, self._table = "public", "thing"
        self._columns: list[str] = []
        self._ids: list[int] = []
        self._next = 0
        self.ddl = 0

    @property
    def _name(self) -> str:
        return f'{self._schema}."{self._table}"'

    def transaction(self) -> str:
        """The statements of one transaction."""
        undone = f"savepoint s; insert into {self._name} (id) values (-1); rollback to s"
        parts = [undone] if self._chance.random() < 0.1 else []
        parts += [self._statement() for _ in range(self._chance.randint(1, 6))]
        return f"begin; {'; '.join(parts)}; commit"

    def _statement(self) -> str:
        if self._chance.random() < 0.7:
            return self._change()
        self.ddl += 1
        return self._ddl()

    def _change(self) -> str:
        n = self._chance.randint(0, 9)
        kind = self._chance.choice(["insert", "insert", "update", "delete"])
        if kind == "insert" or not self._ids:
            self._next += 1
            self._ids.append(self._next)
            return self._noted("insert", self._next, n, f"insert into {self._name} (id, n) values"
                                                        f" ({self._next}, {n})")  # fmt: skip
        chosen = self._chance.choice(self._ids)
        if kind == "update":
            statement = f"update {self._name} set n = {n} where id = {chosen}"
            return self._noted(kind, chosen, n, statement)
        self._ids.remove(chosen)
        return self._noted(kind, chosen, 1, f"delete from {self._name} where id = {chosen}")

    def _noted(self, op: str, key: int, n: int, statement: str) -> str:
        return f"{statement}; insert into wrote (op, id, n) values ('{op}', {key}, {n})"

    def _ddl(self) -> str:
        kinds = ["add", "retype", "identity", "index", "default"]
        kinds += ["drop", "rename", "cast"] if self._columns else []
        kinds += ["table", "schema"] if self._renames else []
        match self._chance.choice(kinds):
            case "add":
                name = f"c{self._chance.randrange(10**6)}"
                self._columns.append(name)
                kind = self._chance.choice(
                    ["int", "text default 'x'", "mood", "numeric[]", "jsonb"]
                )
                return f"alter table {self._name} add {name} {kind}"
            case "drop":
                name = self._columns.pop(self._chance.randrange(len(self._columns)))
                return f"alter table {self._name} drop {name}"
            case "rename":
                place = self._chance.randrange(len(self._columns))
                former, self._columns[place] = self._columns[place], f"{self._columns[place]}x"
                return f"alter table {self._name} rename {former} to {self._columns[place]}"
            case "cast":
                name = self._chance.choice(self._columns)
                return f"alter table {self._name} alter {name} drop default, alter {name} type text"
            case "retype":
                kind = self._chance.choice(["int", "bigint", "numeric", "smallint"])
                return f"alter table {self._name} alter n type {kind}"
            case "identity":
                kind = self._chance.choice(["full", "default"])
                return f"alter table {self._name} replica identity {kind}"
            case "index":
                return f"create index on {self._name} (n)"
            case "default":
                return f"alter table {self._name} alter n set default {self._chance.randint(0, 9)}"
            case "table":
                former, self._table = self._name, f"thing {self._chance.randrange(10**6)}"
                return f'alter table {former} rename to "{self._table}"'
            case _:
                former = self._name
                self._schema = "other" if self._schema == "public" else "public"
                return f"alter table {former} set schema {self._schema}"
