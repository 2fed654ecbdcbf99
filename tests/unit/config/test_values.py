"""agents.yaml: what it may say, and what is said about what it may not."""

import json
from datetime import timedelta
from pathlib import Path

import jsonschema
import pytest
import yaml
from pydantic import ValidationError

from walagent.config import Config
from walagent.config.base import in_bytes, to_bytes
from walagent.config.environment import Environment
from walagent.config.loading import load_config, parse_text
from walagent.config.schema import json_schema
from walagent.errors import ConfigError

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "config" / "agents.yaml"
NOTHING = Environment({})

AGENT = """
agents:
  triage:
    model: gpt-4o
    attach:
      - {table: tickets, on: insert, debounce: 2 minutes, ordering_key: customer}
"""


def read(text: str, **variables: str) -> Config:
    """Read *text* as the file a.yaml."""
    return parse_text(text, "a.yaml", Environment(variables))


def refusal(text: str, **variables: str) -> str:
    """Give the words with which *text* is refused."""
    with pytest.raises(ConfigError) as caught:
        read(text, **variables)
    return f"{caught.value} {caught.value.hint}".strip()


def test_an_unknown_key_is_reported_with_its_place_and_the_nearest_known_one() -> None:
    """Path, line, guess and all known keys: enough to mend it without the documentation."""
    said = refusal("workers:\n  slots: 3\n  leese: 10\n")
    assert said == (
        'a.yaml:3: unknown key "workers.leese"; did you mean lease? '
        "known: connections, drain, lease, poll, slots"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("agents:\n  a: {model: x, tols: []}", '"agents.a.tols"; did you mean tools?'),
        ("agents:\n  a:\n    model: x\n    attach:\n      - tabel: t", "agents.a.attach[0].tabel"),
        ("models:\n  m: {prise: 3}", '"models.m.prise"'),
        ("agnets: {}", '"agnets"; did you mean agents?'),
    ],
)
def test_an_unknown_key_is_found_at_every_depth(text: str, said: str) -> None:
    """Also within names that the user has made up, and within lists."""
    assert said in refusal(text)


def test_everything_that_is_wrong_is_reported_at_once() -> None:
    """Nobody has to mend a file mistake by mistake."""
    said = refusal("http:\n  port: many\nworkers:\n  slots: 0\nlog: {level: loud}\n")
    assert "a.yaml:2: http.port: must be an integer from 0 to 65535" in said
    assert "a.yaml:4: workers.slots: must be an integer from 1 to 100000" in said
    assert "a.yaml:5: log.level: must be debug, info, warning or error" in said


def test_a_key_that_is_given_twice_is_an_error() -> None:
    """YAML would let the last one win without a word."""
    assert refusal("log: {level: info}\nhttp: {}\nlog: {}") == ('a.yaml:3: duplicate key "log"')


def test_text_that_is_not_yaml_is_reported_with_its_line() -> None:
    """A bracket that is not closed."""
    assert refusal("log:\n  level: [info").startswith("a.yaml:2: ")


@pytest.mark.parametrize("use", ["[*{0}, *{0}, *{0}, *{0}]", "{{<<: [*{0}, *{0}, *{0}, *{0}]}}"])
def test_aliases_do_not_expand_without_bound(use: str) -> None:
    """A file of one kilobyte could otherwise fill the memory."""
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{n}: &a{n} {use.format(f'a{n - 1}')}" for n in range(1, 20)]
    assert "alias" in refusal("\n".join(lines))


@pytest.mark.parametrize("text", ["a: &a [*a]", "a: &a {b: *a}"])
def test_an_alias_that_holds_itself_is_an_error(text: str) -> None:
    """And no endless loop."""
    assert "alias contains itself" in refusal(text)


def test_only_plain_values_are_read() -> None:
    """A tag that would make an object of the program's is refused."""
    assert "a.yaml:1" in refusal("log: !!python/object/apply:os.getcwd []")


def test_on_is_a_word() -> None:
    """YAML 1.1 takes it for true, and then nobody could write the key."""
    attachment = read(AGENT).all_attachments["triage"]
    assert attachment.on == ("insert",)
    assert read("log: {level: info}\nhttp: {enabled: off}").http.enabled is False


def test_a_single_value_may_stand_for_a_list() -> None:
    """As in the spec of agent.attach."""
    attachment = read(AGENT).all_attachments["triage"]
    assert attachment.ordering_key == ("customer",)
    assert attachment.agent == "triage"


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("30", 30),
        ("30s", 30),
        ("2 minutes", 120),
        ("1h 30m", 5400),
        ("1.5 d", 129_600),
        ("5ms", 0.005),
    ],
)
def test_a_time_is_a_number_of_seconds_or_has_a_unit(written: str, seconds: float) -> None:
    """For lists of settings and of attachments alike."""
    text = AGENT.replace("2 minutes", written)
    found = read(f"workers: {{lease: {written}}}\n{text}")
    assert found.workers.lease == pytest.approx(seconds)
    assert found.all_attachments["triage"].debounce == timedelta(seconds=seconds)


@pytest.mark.parametrize("written", ["soon", "5 fortnights", "-3", "0", "1 month", "nan"])
def test_what_is_no_time_is_refused(written: str) -> None:
    """A month has no length, and no time runs backwards."""
    assert "workers.lease" in refusal(f"workers: {{lease: {written}}}")


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("1048576", 1 << 20),
        ("512MB", 512 << 20),
        ("1.5 GB", 3 << 29),
        ("16 kB", 1 << 14),
        ("100 B", 100),
    ],
)
def test_a_size_is_a_number_of_bytes_or_has_a_unit(written: str, size: int) -> None:
    """PostgreSQL's units, written as PostgreSQL has them."""
    found = read(f"replication: {{give_up_bytes: {written}}}").replication.give_up_bytes
    assert found == size
    assert found is not None
    assert to_bytes(in_bytes(found)) == size


@pytest.mark.parametrize(
    ("size", "written"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 kB"),
        (10_239, "10 kB"),
        (1_572_864, "1.5 MB"),
        ((1 << 30) - 1, "1024 MB"),
        (1 << 56, "65536 TB"),
    ],
)
def test_a_size_is_shown_in_the_largest_unit_that_it_fills(size: int, written: str) -> None:
    """As the configuration reads it, never as a power of ten."""
    assert in_bytes(size) == written


@pytest.mark.parametrize("written", ["much", "5 gb", "-3", "0", "1.5", "nan GB"])
def test_what_is_no_size_is_refused(written: str) -> None:
    """Small letters are other units elsewhere."""
    assert "replication.alarm_bytes" in refusal(f"replication: {{alarm_bytes: {written}}}")


def test_an_alarm_can_be_switched_off() -> None:
    """It is on at 1 GB; giving up is off until somebody asks for it."""
    assert read("replication: {alarm_bytes: null}").replication.alarm_bytes is None
    found = read("{}").replication
    assert (found.alarm_bytes, found.give_up_bytes) == (1 << 30, None)


def test_variables_are_read_in_any_text() -> None:
    """Set, missing with a default, and not a variable at all."""
    text = "database:\n  dsn: host=${HOST} dbname=${NAME:-app} options=$${x} price=$5\n"
    assert read(text, HOST="db").database.dsn == "host=db dbname=app options=${x} price=$5"


def test_a_variable_can_be_a_number() -> None:
    """What comes from the environment is text, and is read as what the key wants."""
    assert read("http: {port: '${PORT}'}", PORT="99").http.port == 99


def test_a_variable_that_is_not_set_is_reported_with_its_place() -> None:
    """And how to give it a default."""
    said = refusal("log: {}\ndatabase:\n  dsn: ${NO_SUCH}\n")
    assert said.startswith("a.yaml:3: database.dsn: variable NO_SUCH is not set")
    assert "${NO_SUCH:-…}" in said


def test_what_a_variable_holds_is_neither_yaml_nor_a_variable() -> None:
    """A password can contain anything."""
    secret = "x: [${HOST} # !"
    assert read("database: {dsn: '${SECRET}'}", SECRET=secret).database.dsn == secret


def test_values_are_not_repeated_in_errors() -> None:
    """They may be secrets, in whatever key they ended up."""
    secret = "sk-abcdefghijklmnopqrstuvwxyz"
    said = refusal(f"models:\n  m: {{credential: {secret}}}\nhttp: {{port: '${{K}}'}}", K=secret)
    assert "models.m.credential: must be the name" in said
    assert secret not in said


def test_connection_strings_are_not_shown() -> None:
    """A configuration may be printed in a traceback."""
    config = read(
        "database: {dsn: 'postgresql://u:hunter22@h/d', replication_dsn: 'password=hunter22'}"
    )
    assert "hunter22" not in repr(config)


def test_two_attachments_may_not_share_a_name() -> None:
    """An agent with two tables names the second; a name may come from either place."""
    text = "agents:\n  a:\n    model: m\n    attach: [{table: x}, {table: y}]\n"
    assert "two attachments are named" in refusal(text)
    assert set(read(text.replace("{table: y}", "{table: y, name: b}")).all_attachments) == {
        "a",
        "b",
    }
    apart = (
        "agents:\n  a: {model: m, attach: [{table: x}]}\nattachments:\n  a: {table: y, agent: a}"
    )
    assert "two attachments are named" in refusal(apart)


def test_a_section_may_be_empty() -> None:
    """All of its lines are comments, in a file that somebody is trying out."""
    assert read("log:\n  # level: debug\nagents:\n") == Config()
    assert read("") == Config()


def test_a_configuration_cannot_be_changed() -> None:
    """Whoever holds one can rely on it."""
    with pytest.raises(ValidationError):
        Config().log.level = "debug"  # pyright: ignore[reportAttributeAccessIssue]


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    """So are a directory, and bytes that are no text."""
    with pytest.raises(ConfigError, match="does not exist"):
        load_config(tmp_path / "none.yaml", NOTHING)
    with pytest.raises(ConfigError, match="cannot read"):
        load_config(tmp_path, NOTHING)
    (tmp_path / "latin").write_bytes(b"log: \xe4")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_config(tmp_path / "latin", NOTHING)


def uncommented() -> str:
    """Take the comment signs of the example's agents away, as it asks its reader to."""
    head, agents, tail = EXAMPLE.read_text().partition("# agents:\n")
    assert agents
    return head + "\n".join(line.removeprefix("# ") for line in (agents + tail).splitlines())


@pytest.mark.parametrize("text", [EXAMPLE.read_text(), uncommented()], ids=["shipped", "taken up"])
def test_the_shipped_example_is_valid(text: str) -> None:
    """For us, and for an editor that follows the published schema; it needs no variable."""
    read(text)
    raw = yaml.safe_load(text.replace(" on:", " 'on':"))
    raw = {key: value for key, value in raw.items() if value is not None}
    jsonschema.validate(raw, json_schema(), jsonschema.Draft202012Validator)


def test_the_example_shows_an_agent_that_works() -> None:
    """The first example of the documentation, with the tools that it describes."""
    config = read(uncommented())
    assert config.agents["support"].tools == ("refund_user", "escalate_to_human")
    attachment = config.all_attachments["support"]
    assert (attachment.table, attachment.writes) == ("support_tickets", ("category", "status"))


def test_the_published_schema_is_the_one_we_follow() -> None:
    """`make schema` writes it anew."""
    published = json.loads((ROOT / "docs" / "agents.schema.json").read_text())
    assert published == json_schema()
    jsonschema.Draft202012Validator.check_schema(published)


@pytest.mark.parametrize(
    "wrong",
    [
        {"agents": {"a": {}}},
        {"workers": {"slot": 1}},
        {"agents": {"a": {"model": "m", "attach": [{"table": "t", "on": "upsert"}]}}},
    ],
)
def test_the_schema_refuses_what_we_refuse(wrong: dict[str, object]) -> None:
    """A missing key, an unknown key, a word that is none."""
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, json_schema(), jsonschema.Draft202012Validator)
    assert refusal(json.dumps(wrong))


def test_every_key_is_explained_or_explains_itself() -> None:
    """What an editor shows beside an agent's and an attachment's keys."""
    definitions = json_schema()["$defs"]
    plain = {
        "system_prompt",
        "cache_write_price",
        "cached_input_price",
        "output_price",
        "parameters",
        "enabled",
    }
    plain |= {"max_attempts", "examples"}
    for name in ("AgentEntry", "Attach", "ModelEntry"):
        for key, schema in definitions[name]["properties"].items():
            assert "description" in schema or key in plain, f"{name}.{key}"


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("{provider: openai, base_url: 'localhost:11434'}", "must begin with http"),
        ("{provider: anthropic, base_url: 'ftp://u:secret@h'}", "must begin with http"),
        ("{provider: ollama}", "base_url http://localhost:11434/v1"),
        ("{provider: openai, base_url: 'http://localhost:11434/v1'}", ""),
        ("{provider: scripted, base_url: replies.yaml}", ""),
    ],
)
def test_a_base_url_is_checked_without_a_database(entry: str, words: str) -> None:
    """Otherwise the first row finds out."""
    text = f"models: {{m: {entry}}}"
    if not words:
        assert read(text).models["m"].base_url
        return
    said = refusal(text)
    assert words in said
    assert "secret" not in said
