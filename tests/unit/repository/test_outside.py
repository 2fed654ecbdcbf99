"""What those outside read and run: the workflow, the templates, the hooks, the page of releases."""

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"
RELEASE = ROOT / "docs" / "release.md"
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def _yaml(path: Path) -> Any:  # noqa: ANN401 - what the file has
    return yaml.safe_load(path.read_text())


def test_the_workflow_runs_ci_on_each_python_and_each_postgresql() -> None:
    """It has no steps of its own beside `.ci/run`, which can be started anywhere."""
    job = _yaml(WORKFLOW)["jobs"]["check"]
    runs = [step for step in job["steps"] if "run" in step]
    assert [step["run"] for step in runs] == [".ci/run"]
    assert set(runs[0]["env"]) == {"PYTHON", "POSTGRES"}
    matrix = job["strategy"]["matrix"]["include"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {c.rsplit(" ", 1)[1] for c in project["classifiers"] if ":: Python :: 3." in c}
    assert {entry["python"] for entry in matrix} == named
    assert {int(entry["postgres"]) for entry in matrix} == {15, 16, 17, 18}


def test_ci_reads_what_the_workflow_sets_and_calls_targets_that_exist() -> None:
    """A name that the script does not know would choose nothing, and say nothing."""
    script = (ROOT / ".ci" / "run").read_text()
    for name in ("PYTHON", "POSTGRES"):
        assert f"${{{name}:-" in script
    commands = "\n".join(line for line in script.splitlines() if not line.strip().startswith("#"))
    called = set(re.findall(r"(?:^\s*|; )make ([a-z-]+)", commands, re.MULTILINE))
    assert {"venv", "lint", "test", "web-lint", "web-test", "dist"} <= called <= TARGETS


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml")))
def test_a_form_of_an_issue_asks_for_what_is_needed(path: Path) -> None:
    """GitHub ignores a form that breaks its rules: an ID twice, a question without a label."""
    form = _yaml(path)
    assert form["name"]
    assert form["description"]
    questions = [part for part in form["body"] if part["type"] != "markdown"]
    assert len({part["id"] for part in questions}) == len(questions)
    assert all(part["attributes"]["label"] for part in questions)
    assert any(part.get("validations", {}).get("required") for part in questions)


def test_hooks_call_the_tools_of_the_project() -> None:
    """No hook downloads a second version of a tool that is pinned here."""
    (repo,) = _yaml(ROOT / ".pre-commit-config.yaml")["repos"]
    assert repo["repo"] == "local"
    programs = {shlex.split(hook["entry"])[0] for hook in repo["hooks"]}
    assert programs == {".venv/bin/ruff", "web/node_modules/.bin/prettier"}
    assert "prettier" in json.loads((ROOT / "web" / "package.json").read_text())["devDependencies"]


def test_the_page_of_releases_names_what_exists() -> None:
    """Files, and targets of make."""
    text = RELEASE.read_text()
    quoted = re.findall(r"`([^`\n]+)`", text)
    paths = [
        name
        for name in quoted
        if re.fullmatch(r"[\w./-]+\.(?:toml|md|lock|yml|py)|Dockerfile", name)
    ]
    assert len(paths) > 5
    assert [name for name in paths if not (ROOT / name).is_file()] == []
    targets = set(re.findall(r"`make ([a-z-]+)`", text))
    assert {"lock", "faults", "planted", "dist"} <= targets <= TARGETS


def test_the_version_is_the_same_wherever_a_release_changes_it() -> None:
    """One of two places is easily forgotten."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (
        f'__version__ = "{project["version"]}"' in (ROOT / "src/walagent/__init__.py").read_text()
    )
    assert project["version"] in (ROOT / "CHANGELOG.md").read_text()


def test_an_address_for_reports_is_given_or_release_says_to_give_one() -> None:
    """The placeholder must not outlive the sentence that says to replace it."""
    placeholder = "SECURITY-ADDRESS"
    assert (placeholder in (ROOT / "SECURITY.md").read_text()) == (
        placeholder in RELEASE.read_text()
    )


@pytest.mark.parametrize("folder", ["web", "tests/web"])
def test_packages_of_pages_have_licenses_that_can_be_combined_with_ours(folder: str) -> None:
    """None is under the GPL or its kin, and none without a license."""
    packages = json.loads((ROOT / folder / "package-lock.json").read_text())["packages"]
    found = {name: entry.get("license", "") for name, entry in packages.items() if name}
    assert {n: li for n, li in found.items() if not li or "GPL" in li} == {}


def test_each_library_of_the_pages_has_its_reason() -> None:
    """One line in the README of web/."""
    package = json.loads((ROOT / "web" / "package.json").read_text())
    names = package["dependencies"].keys() | package["devDependencies"].keys()
    said = set(re.findall(r"[@\w/.-]+", (ROOT / "web" / "README.md").read_text()))
    assert names - said == set()
