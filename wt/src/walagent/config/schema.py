"""The JSON Schema of agents.yaml, which editors and checks read."""

from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from walagent.config.root import Config

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """Write the schema.

    A ``${NAME}`` may stand wherever a text may; where a number or a choice is wanted it may too,
    but an editor that follows this schema will not think so.
    """
    schema = Config.model_json_schema(schema_generator=_Schema)
    return {"$schema": DRAFT, **schema, "title": "agents.yaml of walagent"}


class _Schema(GenerateJsonSchema):
    """Leaves out titles, which only repeat the names."""

    def field_title_should_be_set(self, schema: object) -> bool:
        """Say no."""
        del schema
        return False
