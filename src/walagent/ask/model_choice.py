"""Choose the model that answers: the named one, the only one, or the one that has a key."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from walagent.errors import ConfigError, ModelUnauthorizedError, PreconditionError
from walagent.message import ModelSpec
from walagent.models.credentials import NO_KEY, Secrets, find_endpoint
from walagent.models.registry import can_plan, find_provider

GEMINI: Final = "gemini"  # PG Agent's name for the row of this model, wherever its requests go
_GEMINI_ID: Final = "gemini-2.5-flash"
# Of the registered models of one key, the one that is used unless another is named.
_PREFERRED: Final = frozenset({_GEMINI_ID, "claude-sonnet-5", "gpt-5"})


def check_applied(
    declared: Mapping[str, Mapping[str, object]], specs: Mapping[str, ModelSpec], name: str | None
) -> None:
    """Check that models of agents.yaml send requests where the file says.

    Args:
        declared: the keys of the file's models that say where their requests go.
        name: the model that is asked for; None: any of them could be chosen.

    Raises:
        PreconditionError: one differs from its row of `agent.model`, or has none.
    """
    for each, keys in declared.items():
        spec = specs.get(each)
        differs = spec is None or any(getattr(spec, key) != keys[key] for key in keys)
        if name in {None, each} and differs:
            raise PreconditionError(
                f'model "{each}" of agents.yaml is not applied: agent.model has '
                + ("no such row" if spec is None else f"{spec.base_url or spec.provider}"),
                hint="Run walagent apply.",
            )


def choose_model(
    specs: Mapping[str, ModelSpec], name: str | None, secrets: Secrets | None = None
) -> ModelSpec:
    """Choose the named model, else the only one, else the one whose key alone is set.

    Args:
        secrets: where keys are looked for; default: this process.
    """
    if name is not None:
        if name == GEMINI and name not in specs:
            name = next((n for n, spec in specs.items() if spec.model_id == _GEMINI_ID), _GEMINI_ID)
        if name not in specs:
            near = ", ".join(get_close_matches(name, specs, n=3))
            raise ConfigError(
                f'model "{name}" does not exist',
                hint=(f"Did you mean {near}? " if near else "")
                + f"Run walagent agents models to list all {len(specs)}.",
            )
        find_provider(specs[name].provider)  # one that is not installed is named
        if not can_plan(specs[name]):
            raise ConfigError(
                f'model "{name}" is not a language model: it cannot answer questions',
                hint="Use another model: walagent agents models lists them.",
            )
        return specs[name]
    fit = [spec for spec in specs.values() if can_plan(spec)]
    if len(fit) == 1:
        return fit[0]
    if fit:
        return _with_a_key(fit, secrets or Secrets.of_process())
    raise PreconditionError(
        "no registered model can answer questions",
        hint="insert into agent.model (name, provider, model_id, credential) values"
        " ('gpt-4o', 'openai', 'gpt-4o', 'OPENAI_API_KEY');",
    )


def _with_a_key(specs: Sequence[ModelSpec], secrets: Secrets) -> ModelSpec:
    """Choose the model whose key alone is set; of several with the same key, the preferred one."""
    keys = {spec.name: key for spec in specs if (key := _key_of(spec, secrets))}
    usable = [spec for spec in specs if spec.name in keys]
    if len(usable) > 1 and len(set(keys.values())) == 1:
        usable = [spec for spec in usable if spec.name in _PREFERRED] or usable
    if len(usable) == 1:
        return usable[0]
    raise PreconditionError(
        f"no model selected: {len(specs)} are registered, and {len(usable) or 'none'} of them"
        f" {'have' if len(usable) > 1 else 'has'} a key",
        hint="Use --model NAME or set ask.model; walagent agents models lists them."
        if usable
        else "Set GEMINI_API_KEY, OPENAI_API_KEY or ANTHROPIC_API_KEY, or use --model NAME.",
    )


def _key_of(spec: ModelSpec, secrets: Secrets) -> str | None:
    """Return the key that a model would be called with; None if there is none."""
    api = find_provider(spec.provider).api
    try:
        key = None if api is None else find_endpoint(spec, api, secrets).key
    except (ConfigError, ModelUnauthorizedError):
        return None
    return None if key == NO_KEY else key
