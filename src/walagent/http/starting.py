"""Answer probes before the database is reached: a platform kills a process that does not."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from walagent.config.sections import Http
from walagent.errors import ConfigError
from walagent.http.hosts import hosts_of
from walagent.http.routes import build_app
from walagent.http.server import listen, serve_on
from walagent.telemetry import metrics


async def answer_probes(http: Http, trouble: Callable[[], BaseException]) -> None:
    """Serve `/healthz`, `/readyz` and `/metrics` until cancelled.

    If the port is in use, nobody answers: the process that has it does, or the start fails.

    Args:
        trouble: why the last attempt to reach the database failed.
    """
    try:
        sockets = await listen(http.host, http.port)
    except ConfigError:
        return
    hosts = hosts_of(http.host, http.public_url, http.hosts)
    await serve_on(build_app(_Starting(trouble), metrics.registry, hosts=hosts), sockets)


@dataclass(frozen=True, slots=True)
class _Starting:
    trouble: Callable[[], BaseException]
    streaming: bool = False
    progress_age: float = 0.0
    lag_bytes: int = 0
    retained_bytes: int = 0
    warnings: Sequence[str] = ()

    @property
    def reasons(self) -> Sequence[str]:
        return [f"the database is not reached: {self.trouble()}"]
