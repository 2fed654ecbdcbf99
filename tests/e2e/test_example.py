"""`walagent serve example burn` as people start it: one command, a server of its own, a link."""

import asyncio
import os
import shutil
import sys
from pathlib import Path

import httpx2 as httpx
import pytest

from tests.helpers.commands import run_command
from tests.integration.threads.show import troupe
from walagent.testing.provider import KEY, FakeProvider

SOURCE = Path(__file__).parents[2] / "src"
SCHEMAS = "select string_agg(name::text, ' ' order by name) from agent.agent"


def environment(home: Path, **more: str) -> dict[str, str]:
    """No database, no Ollama, and no key but those given."""
    kept = {key: os.environ[key] for key in ("PATH", "LANG", "TMPDIR") if key in os.environ}
    own = {"HOME": str(home), "WALAGENT_HOME": str(home), "PYTHONPATH": str(SOURCE)}
    return {**kept, **own, "OLLAMA_HOST": "127.0.0.1:9", **more}


def test_without_a_key_it_names_the_variables(tmp_path: Path) -> None:
    """Nothing is created."""
    ended = run_command(
        ["example", "burn"], folder=tmp_path, environment=environment(tmp_path), patience=60
    )
    assert ended.code == 2
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "--model"):
        assert name in ended.err
    assert not (tmp_path / "postgres").exists()


def test_a_folder_without_a_page_is_refused(tmp_path: Path) -> None:
    """Before anything is started."""
    arguments = ["example", "burn", "--model", "x", "--assets", "missing"]
    ended = run_command(arguments, folder=tmp_path, environment=environment(tmp_path), patience=60)
    assert (ended.code, "missing" in ended.err) == (2, True)


@pytest.mark.slow
async def test_one_command_prints_the_link(tmp_path_factory) -> None:  # noqa: ANN001 - pytest's
    """Flaw 10: the embedded server, agents and a page, of one process; Ctrl-C ends it."""
    home: Path = tmp_path_factory.mktemp("home")
    async with FakeProvider([troupe]) as model:
        (home / "agents.yaml").write_text(
            "models: {fake: {provider: openai, model_id: fake, credential: FAKE_API_KEY,"
            f" base_url: 'http://127.0.0.1:{model.port}/v1'}}}}\n"
        )
        installed = shutil.which("walagent", path=str(Path(sys.executable).parent))
        start = [installed] if installed else [sys.executable, "-m", "walagent"]
        process = await asyncio.create_subprocess_exec(
            *(*start, "example", "burn", "--model", "fake", "--http", "0"),
            cwd=home,
            env=environment(home, FAKE_API_KEY=KEY),
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        try:
            line = (await asyncio.wait_for(process.stdout.readline(), 90)).decode()
            url = line.removeprefix("Burn: ").strip()
            async with httpx.AsyncClient(base_url=url, timeout=30) as client:
                page = await client.get("/", headers={"accept": "text/html"})
                assert (page.status_code, "Burn" in page.text) == (200, True)
                answer = await client.post("/auth/sign-in", json={"username": "alice"})
                assert answer.status_code == 200
            asked = run_command(
                ["psql", "-d", "burn", "--", "-Atc", SCHEMAS],
                folder=home,
                environment=environment(home),
                patience=60,
            )
            assert asked.worked().out.strip() == "frankie jerry sarah"
        finally:
            process.terminate()
            await asyncio.wait_for(process.wait(), 60)
    assert process.returncode == 0
