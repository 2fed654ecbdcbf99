"""The JSON Schema of agents.yaml, for editors and validators."""

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from walagent.config.base import Part
from walagent.config.root import Config

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """Generate the schema.

    A ``${NAME}`` is allowed in place of every value, but this schema allows it only as a string.
    """
    schema = Config.model_json_schema(schema_generator=_Schema)
    for part in _parts(Part):
        described = schema if part is Config else schema["$defs"].get(part.__name__, {})
        properties = described.get("properties", {})
        for field, text in _descriptions(part).items():
            given = {**properties.get(field, {}), "description": text}
            properties[field] = dict(sorted(given.items()))
    return {"$schema": DRAFT, **schema, "title": "agents.yaml of walagent"}


def _parts(base: type[Part]) -> Iterator[type[Part]]:
    for part in base.__subclasses__():
        yield part
        yield from _parts(part)


def _descriptions(part: type[Part]) -> dict[str, str]:
    """Read the docstring of each field.

    pydantic would parse them when the class is created, which costs every command 30 ms.
    """
    found = dict[str, str]()
    for base in reversed([base for base in part.__mro__ if issubclass(base, Part)]):
        (tree,) = ast.parse(inspect.getsource(base)).body
        assert isinstance(tree, ast.ClassDef)  # noqa: S101 - it is the source of one
        for field, below in pairwise(tree.body):
            match field, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    found[base.model_fields[name].alias or name] = inspect.cleandoc(text)
                case _:
                    pass
    return found


class _Schema(GenerateJsonSchema):
    """Omits titles, which only repeat the names."""

    def field_title_should_be_set(self, schema: object) -> bool:
        """Return False."""
        del schema
        return False
