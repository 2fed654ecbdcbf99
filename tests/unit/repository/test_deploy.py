"""What we hand to systemd and Docker keeps the rules that nobody sees when they break."""

import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from string import Template
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from walagent.config.sections import Http
from walagent.config.work_sections import Workers

ROOT = Path(__file__).parents[3]
UNIT = ROOT / "deploy" / "systemd" / "walagent.service"
START = ROOT / "deploy" / "postgres" / "start"
SECRET = re.compile(r"password|secret|token|api_?key|database_url", re.IGNORECASE)


def _unit() -> dict[str, list[str]]:
    """Give the unit's settings; systemd allows a key several times."""
    settings: dict[str, list[str]] = {}
    for line in UNIT.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            settings.setdefault(key, []).append(value)
    return settings


def _stages() -> dict[str, list[tuple[str, str]]]:
    """Give the Dockerfile's stages, each a list of instruction and argument."""
    text = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text())
    stages: dict[str, list[tuple[str, str]]] = {}
    name = ""
    for line in text.splitlines():
        instruction, _, argument = line.partition(" ")
        if instruction == "FROM":
            name = argument.split()[-1]
        if name and instruction.isupper():
            stages.setdefault(name, []).append((instruction, argument))
    return stages


def _compose() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text())


def _commands() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return set(project["scripts"])


def test_the_unit_starts_our_command_and_waits_for_ready() -> None:
    """The unit runs an installed command by its full path and believes only READY=1."""
    unit = _unit()
    (command,) = unit["ExecStart"]
    path = Path(command.split()[0])
    assert path.is_absolute()
    assert path.name in _commands()
    assert unit["Type"] == ["notify"]


def test_the_unit_stays_down_when_a_person_must_act() -> None:
    """Wrong usage (2) and a stop for a person (3) are not tried again; a crash is."""
    unit = _unit()
    assert unit["Restart"] == ["on-failure"]
    assert unit["RestartPreventExitStatus"] == ["2 3"]


def test_the_unit_watches_more_slowly_than_the_daemon_reports() -> None:
    """The daemon speaks every ten seconds at the latest; a missed beat is not a kill."""
    (seconds,) = _unit()["WatchdogSec"]
    assert int(seconds) >= 30


def test_the_unit_holds_no_secret() -> None:
    """Keys come as credentials; the unit is readable by everybody."""
    unit = _unit()
    for assignment in unit.get("Environment", []):
        assert not SECRET.search(assignment)
    assert "LoadCredential" in UNIT.read_text()


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd here")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """Every key is one that systemd knows; it only warns of others, and then ignores them."""
    unit = tmp_path / UNIT.name
    unit.write_text(re.sub(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", UNIT.read_text()))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd here")
def test_the_unit_stays_hardened() -> None:
    """The review of systemd (0 closed, 10 open) sees no more than a network service needs."""
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", UNIT],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_daemons_image_does_not_run_as_root() -> None:
    """The user is a number other than 0, so that Kubernetes can check it."""
    users = [argument for instruction, argument in _stages()["walagent"] if instruction == "USER"]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[-1])


def test_the_daemons_image_is_what_a_plain_build_makes() -> None:
    """Without --target, Docker builds the last stage."""
    assert list(_stages())[-1] == "walagent"


def test_the_daemons_image_starts_our_command() -> None:
    """ENTRYPOINT is the installed command, without a shell that would keep the signals."""
    (entry,) = [arg for instruction, arg in _stages()["walagent"] if instruction == "ENTRYPOINT"]
    assert set(json.loads(entry)) <= _commands()


def test_the_daemons_image_asks_where_the_daemon_answers() -> None:
    """The health check asks the default port for life, not for readiness."""
    checks = [arg for instruction, arg in _stages()["walagent"] if instruction == "HEALTHCHECK"]
    assert f"http://127.0.0.1:{Http().port}/healthz" in checks[0]


def test_a_stop_takes_longer_than_the_daemon_drains() -> None:
    """Neither systemd nor Docker kills a daemon that still hands its runs back."""
    (timeout,) = _unit()["TimeoutStopSec"]
    grace = _compose()["services"]["walagent"]["stop_grace_period"]
    assert int(timeout) > Workers().drain + 5
    assert int(grace.removesuffix("s")) > Workers().drain + 5


def test_images_are_built_from_named_versions() -> None:
    """No base image is whatever is newest today."""
    text = (ROOT / "Dockerfile").read_text()
    given = dict(re.findall(r"^ARG (\w+)=(\S+)$", text, re.MULTILINE))
    bases = [argument.split()[0] for stage in _stages().values() for _, argument in stage[:1]]
    for base in bases:
        image = Template(base).substitute(given)
        assert re.search(r":\d", image), base


def test_what_images_copy_is_there_and_reaches_the_builder() -> None:
    """Each COPY from the checkout names a path that exists and that .dockerignore lets through."""
    allowed = [
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    ]
    for stage in _stages().values():
        for instruction, argument in stage:
            if instruction != "COPY" or "--from=" in argument:
                continue
            *sources, _ = [word for word in argument.split() if not word.startswith("--")]
            for source in sources:
                assert (ROOT / source).exists(), source
                assert any(source == path or source.startswith(f"{path}/") for path in allowed)


def test_no_secret_is_baked_into_an_image() -> None:
    """No ARG or ENV carries one: both can be read out of an image."""
    for stage in _stages().values():
        for instruction, argument in stage:
            assert not (instruction in {"ARG", "ENV"} and SECRET.search(argument)), argument


def test_compose_builds_stages_that_exist() -> None:
    """Each service's target is a stage of the Dockerfile."""
    for service in _compose()["services"].values():
        assert service["build"]["target"] in _stages()


def test_compose_takes_secrets_from_outside() -> None:
    """Whatever is called a secret is a reference to the environment, not a value."""
    for service in _compose()["services"].values():
        for key, value in service["environment"].items():
            if SECRET.search(key):
                assert key.endswith("_FILE"), key
                assert value.startswith("/run/secrets/")


def test_nobody_else_can_read_the_secrets_that_compose_reads(tmp_path: Path) -> None:
    """The users of the containers can read the files; others cannot enter the folder."""
    comments = (ROOT / "docker-compose.yml").read_text().split("docker compose up")[0]
    commands = [line.removeprefix("#   ") for line in comments.splitlines() if "secrets" in line]
    script = "\n".join(command for command in commands if not command.startswith("#"))
    subprocess.run(["sh", "-ec", f"umask 022\n{script}"], cwd=tmp_path, check=True)
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    for name in ("postgres/walagent_password", "walagent/DATABASE_URL"):
        assert (tmp_path / "secrets" / name).stat().st_mode & 0o777 == 0o644


def test_compose_runs_the_daemon_without_a_superuser() -> None:
    """Its role is made with the database, and it gets no other password."""
    script = (ROOT / "deploy" / "postgres" / "create-role").read_text()
    assert "create role walagent login replication createrole password" in script
    assert "superuser" not in script.split("<<")[1]
    daemon = _compose()["services"]["walagent"]
    assert "./secrets/walagent:/run/secrets:ro" in daemon["volumes"]
    assert daemon["environment"] == {"CREDENTIALS_DIRECTORY": "/run/secrets"}


@pytest.mark.parametrize(
    ("name", "groups"), [("", []), ("-dev", ["local", "ask", "mcp", "plot", "search", "dev"])]
)
def test_what_is_locked_is_what_the_project_requires(name: str, groups: list[str]) -> None:
    """Each requirement has a version that it allows, with hashes."""
    text = (ROOT / f"requirements{name}.lock").read_text()
    pinned = dict(re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE))
    assert text.count("--hash=sha256:") >= len(pinned)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    required = list(project["project"]["dependencies"])
    for group in groups:
        extras = project["project"]["optional-dependencies"]
        required += extras.get(group) or project["dependency-groups"][group]
    for requirement in map(Requirement, required):
        version = pinned[re.sub(r"[-_.]+", "-", requirement.name).lower()]
        assert requirement.specifier.contains(version, prereleases=True), requirement


def test_compose_starts_a_server_that_the_daemon_can_follow() -> None:
    """The server writes logical WAL, is waited for, and cannot fill the disk with WAL."""
    services = _compose()["services"]
    command = services["postgres"]["command"]
    assert "wal_level=logical" in command
    assert any(setting.startswith("max_slot_wal_keep_size=") for setting in command)
    assert services["walagent"]["depends_on"]["postgres"]["condition"] == "service_healthy"
    assert services["postgres"]["healthcheck"]["test"]


def test_compose_gives_the_daemon_as_little_as_it_needs() -> None:
    """No capabilities, no new privileges, and one volume that it may write to."""
    daemon = _compose()["services"]["walagent"]
    assert daemon["cap_drop"] == ["ALL"]
    assert daemon["security_opt"] == ["no-new-privileges:true"]
    assert daemon["read_only"] is True
    assert [volume for volume in daemon["volumes"] if not volume.endswith(":ro")] == [
        "cache:/var/cache/walagent"
    ]


def test_compose_listens_on_this_machine_only() -> None:
    """Docker's port rules go past a firewall, so every published port names 127.0.0.1."""
    for service in _compose()["services"].values():
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:")


def test_compose_publishes_the_console_that_the_daemon_serves() -> None:
    """An address inside of the container that nobody outside reaches is none."""
    daemon = _compose()["services"]["walagent"]
    address = daemon["command"][daemon["command"].index("--http") + 1]
    host, _, port = address.partition(":")
    assert host == "0.0.0.0"  # noqa: S104 - of the container
    assert f"127.0.0.1:{port}:{port}" in daemon["ports"]
    assert f"127.0.0.1:{port}/healthz" in (ROOT / "Dockerfile").read_text()


def test_compose_does_not_start_for_ever_what_a_person_must_fix() -> None:
    """Exit codes 2 and 3 come again at each start."""
    assert re.fullmatch(r"on-failure:\d", _compose()["services"]["walagent"]["restart"])


def test_docker_accepts_the_compose_file() -> None:
    """The client reads the file and fills in the secret."""
    if not _docker("compose", "version"):
        pytest.skip("there is no docker client with compose here")
    assert _docker("compose", "--file", str(ROOT / "docker-compose.yml"), "config", "--quiet")


def _docker(*arguments: str) -> bool:
    if not shutil.which("docker"):
        return False
    environ = os.environ | {"POSTGRES_PASSWORD": "x"}
    return subprocess.run(["docker", *arguments], env=environ, check=False).returncode == 0


@pytest.mark.parametrize("known", [True, False])
def test_the_server_image_allows_wal2json_where_it_has_to(tmp_path: Path, *, known: bool) -> None:
    """The setting is given to a server that knows it, and to no other: that would not start."""
    described = "output_plugin_libraries\tsuperuser\n" if known else "wal_level\tpostmaster\n"
    (tmp_path / "postgres").write_text(f"#!/bin/sh\nprintf '{described}'\n")
    (tmp_path / "docker-entrypoint.sh").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    for stub in tmp_path.iterdir():
        stub.chmod(0o755)
    done = subprocess.run(
        [START, "postgres", "-c", "wal_level=logical"],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    setting = ["-c", "output_plugin_libraries=pgoutput, test_decoding, wal2json"]
    started = ["postgres", "-c", "wal_level=logical"]
    assert done.stdout.splitlines() == (started + setting if known else started)
