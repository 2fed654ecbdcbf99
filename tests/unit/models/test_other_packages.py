"""Another package brings a provider: with an entry point, and without a change of walagent."""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs_pages import ROOT
from walagent.config.environment import Environment
from walagent.config.loading import parse_text
from walagent.errors import ConfigError, ModelUnauthorizedError
from walagent.message import ModelSpec
from walagent.models import make_model
from walagent.models.registry import BUILT_IN, can_plan, find_provider, provider_names
from walagent.testing import PROVIDER_CHECKS, FakeProvider, ProviderCheck

FILE = "models: {roadrunner: {provider: acme, model_id: beep}}\n"
ROW = ModelSpec("roadrunner", "acme", "beep")


def install(folder: Path, **entries: str) -> None:
    """Install a package as pip does, with entry points."""
    info = folder / "walagent_acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: walagent-acme\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in entries.items()]
    (info / "entry_points.txt").write_text("\n".join(["[walagent.models]", *lines, ""]))
    shutil.copytree(ROOT / "tests" / "acme", folder / "walagent_acme")


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages, with Acme's in it."""
    install(tmp_path, acme="walagent_acme:PROVIDER")
    monkeypatch.syspath_prepend(tmp_path)
    for module in [name for name in sys.modules if name.partition(".")[0] == "walagent_acme"]:
        monkeypatch.delitem(sys.modules, module)
    return tmp_path


@pytest.mark.few(2)
@pytest.mark.usefixtures("acme")
@pytest.mark.parametrize("check", PROVIDER_CHECKS, ids=lambda check: check.__name__)
async def test_a_provider_of_another_package_keeps_the_contract(check: ProviderCheck) -> None:
    """The same checks as for those of walagent, and the same fake provider."""
    await asyncio.wait_for(check("acme"), 60)


@pytest.mark.usefixtures("acme")
async def test_it_counts_wherever_providers_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """In agents.yaml, among the models that can answer, and with the variable of its own key."""
    assert provider_names() == sorted([*BUILT_IN, "acme"])
    config = parse_text(FILE, "agents.yaml", Environment({}))
    assert config.models["roadrunner"].provider == "acme"
    assert can_plan(ROW)
    with pytest.raises(ModelUnauthorizedError, match="ACME_TOKEN"):
        make_model(ROW)
    monkeypatch.setenv("ACME_TOKEN", "beep-beep")
    assert make_model(ROW).spec == ROW
    assert FakeProvider().spec("acme").provider == "acme"


def test_a_process_finds_it_and_one_without_it_names_the_others(tmp_path: Path) -> None:
    """`walagent run --check`, with the package and without."""
    packages = tmp_path / "packages"
    packages.mkdir()
    install(packages, acme="walagent_acme:PROVIDER")
    (tmp_path / "agents.yaml").write_text(FILE)

    def check(*path: Path) -> subprocess.CompletedProcess[str]:
        found = os.pathsep.join(map(str, (ROOT / "src", *path)))
        return subprocess.run(
            [sys.executable, "-m", "walagent", "run", "--check"],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": found},
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip

    assert check(packages).returncode == 0
    without = check()
    assert without.returncode == 2
    assert 'unknown provider "acme"' in without.stderr
    assert all(name in without.stderr for name in BUILT_IN)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("walagent_acme:NOBODY", "does not load"),
        ("walagent_gone:PROVIDER", "walagent_gone"),
        ("walagent_acme:API", "is not a Provider"),
    ],
)
def test_an_entry_point_that_leads_nowhere_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, says: str
) -> None:
    """And the other providers work."""
    install(tmp_path, acme=value)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=f'"acme".*{says}'):
        find_provider("acme")
    assert not can_plan(ROW)
    assert find_provider("openai") is BUILT_IN["openai"]


def test_another_package_cannot_take_the_name_of_a_built_in_provider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys of `openai` go where they always went."""
    install(tmp_path, openai="walagent_acme:PROVIDER")
    monkeypatch.syspath_prepend(tmp_path)
    assert find_provider("openai") is BUILT_IN["openai"]
    assert provider_names() == sorted(BUILT_IN)
