"""Routes for operators and monitoring.

`/healthz`  the event loop runs: restart the process if this fails
`/readyz`   changes are ingested: alert if this fails, and read the reasons
`/metrics`  counters and gauges for Prometheus

None of them uses the database, so they respond while it is down.
"""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from walagent.http.exchange import RefusedError, refuse
from walagent.http.health import Health, unready_reasons
from walagent.http.hosts import is_of_a_network, name_of

# The reader probes the server after 30 s of silence and waits 10 s for the reply, so 60 s without
# progress is a fault.
MAX_PROGRESS_AGE = 60.0


def build_app(
    health: Health,
    registry: CollectorRegistry,
    *,
    max_progress_age: float = MAX_PROGRESS_AGE,
    mounted: Mapping[str, ASGIApp] = MappingProxyType({}),
    hosts: frozenset[str] | None = None,
) -> ASGIApp:
    """Build the app.

    Args:
        max_progress_age: seconds without progress after which `/readyz` responds with 503.
        mounted: applications by the path under which they answer.
        hosts: names of this server, in addition to addresses and names without a dot, to which
            facts about agents are given; None: to any.
    """
    app = Starlette(
        routes=[
            Route("/healthz", _alive),
            Route("/readyz", partial(_ready, health, max_progress_age)),
            Route("/metrics", partial(_metrics, registry)),
            *(Mount(path, app) for path, app in mounted.items()),
        ]
    )
    return app if hosts is None else _telling_no_other_name(app, hosts)


_FACTS: Final = frozenset({"/readyz", "/metrics", "/status"})


def _telling_no_other_name(app: ASGIApp, hosts: frozenset[str]) -> ASGIApp:
    async def answering(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] in _FACTS:
            host = Request(scope).headers.get("host", "")
            if name_of(host) not in hosts and not is_of_a_network(host):
                message = f'host "{host}" is not a name of this server'
                refused = RefusedError(403, message, hint="Add it to http.hosts.")
                await refuse(refused)(scope, receive, send)
                return
        await app(scope, receive, send)

    return answering


async def _alive(_request: Request) -> Response:
    return JSONResponse({"status": "alive"})


async def _ready(health: Health, max_progress_age: float, _request: Request) -> Response:
    reasons = unready_reasons(health, max_progress_age)
    body = {
        "status": "unready" if reasons else "ready",
        "reasons": reasons,
        "streaming": health.streaming,
        "progress_age_seconds": round(health.progress_age, 1),
        "lag_bytes": health.lag_bytes,
        "retained_bytes": health.retained_bytes,
        "warnings": list(health.warnings),
    }
    return JSONResponse(body, status_code=503 if reasons else 200)


async def _metrics(registry: CollectorRegistry, request: Request) -> Response:
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(registry), headers={"content-type": content_type})
