"""What other processes of the same user read of the daemon, and the server of its environment."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.cli.user import User, empty_database

SECRET = "sk-live-canary"
READ = """
import sys
try:
    print(open(f"/proc/{sys.argv[1]}/environ").read())
except PermissionError:
    print("closed")
"""


@pytest.mark.skipif(
    os.getuid() != 0 or not shutil.which("setpriv"), reason="needs root, to be somebody else"
)
def test_a_program_reads_no_key_of_the_daemon(server: str, tmp_path: Path) -> None:
    """One that runs as the same user, without more capabilities."""
    with empty_database(server) as dsn:
        user = User(tmp_path, dsn, {"OPENAI_API_KEY": SECRET})
        user.writes("http: {enabled: false}\n")
        user.types("init").worked()
        with user.starts("run") as daemon:
            daemon.says("reader.streaming")
            found = subprocess.run(
                ["setpriv", "--bounding-set=-all", "--inh-caps=-all", sys.executable, "-c", READ,
                 str(daemon.process.pid)],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            assert found.stdout.strip() == "closed"
            assert daemon.ends(signal.SIGTERM) == 0


def test_the_embedded_server_has_no_key(tmp_path: Path) -> None:
    """Its superuser, and code that becomes one, reads the environment of its processes."""
    user = User(tmp_path, None, {"OPENAI_API_KEY": SECRET, "WALAGENT_HOME": str(tmp_path / "home")})
    with user.starts("run", "--http", "off") as daemon:
        daemon.says("reader.streaming")
        (pid,) = [int(path.read_text().split()[0]) for path in tmp_path.rglob("postmaster.pid")]
        assert SECRET not in Path(f"/proc/{pid}/environ").read_text()
        assert daemon.ends(signal.SIGTERM) == 0
