"""Links that decide: one approver, one call, once, and only by a form of their own page."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx2
import pytest
from psycopg import AsyncConnection
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.helpers.database import rows, run_all, value
from tests.helpers.queue import set_clock
from tests.integration.outbox.approving import ask, notify, people, token
from tests.integration.outbox.sending import channel
from walagent.http.links import Links
from walagent.http.server import listen, serve_on

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@dataclass(slots=True)
class Browser:
    """A browser: it keeps cookies, and sends forms with the headers that browsers send."""

    client: httpx2.AsyncClient
    base: str
    page: str = ""
    origin: str = ""  # what it says about where a form of the page comes from
    seen: list[str] = field(default_factory=list[str])

    async def open(self, token: str) -> httpx2.Response:
        """Open a link."""
        said = await self.client.get(f"{self.base}/approvals/{token}")
        found = re.search(r'name="page" value="(\w+)"', said.text)
        self.page = found[1] if found else ""
        self.origin = "null" if said.headers["referrer-policy"] == "no-referrer" else self.base
        return said

    async def decide(
        self,
        token: str,
        decision: str = "approve",
        *,
        headers: Mapping[str, str] | None = None,
        **fields: str,
    ) -> httpx2.Response:
        """Press a button of the page that was opened."""
        given = {"Origin": self.origin, "Sec-Fetch-Site": "same-origin", **(headers or {})}
        form = {"page": self.page, "decision": decision, **fields}
        return await self.client.post(f"{self.base}/approvals/{token}", data=form, headers=given)


@asynccontextmanager
async def browser(dsn: str, base: str = "") -> AsyncIterator[Browser]:
    """Serve the pages, and open a browser."""
    sockets = await listen("127.0.0.1", 0)
    own = f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
    links = Links(lambda: dsn, base or own)
    app = Starlette(routes=[Mount(links.path, links.app)])
    serving = asyncio.create_task(serve_on(app, sockets))
    try:
        async with httpx2.AsyncClient() as client:
            yield Browser(client, own)
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def asked(conn: AsyncConnection) -> tuple[int, str]:
    """An approval, and the token of Ann's link."""
    if not await value(conn, "select to_regclass('support_tickets') is not null"):
        await people(conn)
        await channel(conn, "email", "ann@acme.test", principal="ann")
        await notify(conn, "email")
    approval = await ask(conn)
    return approval, await token(conn)


async def state(conn: AsyncConnection, approval: int) -> str:
    """The state of an approval."""
    return str(await value(conn, "select state from agent.approval where id = %s", approval))


async def test_a_link_shows_the_call_and_a_second_click_decides(
    conn: AsyncConnection, dsn: str
) -> None:
    """As its approver: the run continues, and the audit says so."""
    approval, link = await asked(conn)
    async with browser(dsn) as person:
        page = await person.open(link)
        assert page.status_code == 200
        for shown in ("refund_user", "&quot;amount&quot;: 50", "desk", "ann"):
            assert shown in page.text
        assert "<b>" not in page.text
        assert await state(conn, approval) == "pending"
        assert (await person.decide(link)).status_code == 200
    assert await rows(conn, "select state, decided_by from agent.approval") == [("approved", "ann")]
    assert await rows(conn, "select state::text from agent.run where kind = 'agent'") == [
        ("pending",)
    ]
    said = await rows(conn, "select principal from agent.audit where action = 'approval.approved'")
    assert said == [("ann",)]


async def test_a_rejection_reaches_the_model_with_its_reason(
    conn: AsyncConnection, dsn: str
) -> None:
    """The reason of the form."""
    _, link = await asked(conn)
    async with browser(dsn) as person:
        await person.open(link)
        await person.decide(link, "reject", reason="too\0 much")
    step = await value(conn, "select content from agent.step where kind = 'decision'")
    assert (step["decision"], step["reason"]) == ("rejected", "too much")


async def test_what_inspects_links_decides_nothing(conn: AsyncConnection, dsn: str) -> None:
    """Scanners of mail servers open links, some in a browser, and some more than once."""
    approval, link = await asked(conn)
    before = await rows(conn, "select * from agent.approval_link")
    async with browser(dsn) as scanner:
        url = f"{scanner.base}/approvals/{link}"
        for method in ("GET", "HEAD", "OPTIONS", "GET"):
            await scanner.client.request(method, url)
        for method in ("PUT", "DELETE", "PATCH"):
            assert (await scanner.client.request(method, url)).status_code == 405
        await scanner.client.get(url, params={"decision": "approve"})
        assert (await scanner.client.post(url)).status_code == 403
        fields = {"decision": "approve", "page": ""}
        assert (await scanner.client.post(url, data=fields)).status_code == 403
        await scanner.open(link)
        assert (await scanner.decide(link)).status_code == 200
    assert await state(conn, approval) == "approved"
    assert len(before) == 1


async def test_the_page_loads_nothing_and_tells_nobody_its_address(
    conn: AsyncConnection, dsn: str
) -> None:
    """No asset, no frame, no cache; the cookie is for this page and no script."""
    _, link = await asked(conn)
    async with browser(dsn) as person:
        page = await person.open(link)
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "form-action 'self'" in policy
    assert page.headers["referrer-policy"] == "same-origin"
    assert page.headers["cache-control"] == "no-store"
    assert not re.search(r"(src|href|action)=", page.text)
    cookie = page.headers["set-cookie"].lower()
    for word in ("httponly", "samesite=strict", f"path=/approvals/{link}".lower()):
        assert word in cookie


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.test"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Cookie": "walagent_link=00000000000000000000000000000000"},
        {"Cookie": ""},
    ],
)
async def test_a_form_of_another_site_decides_nothing(
    conn: AsyncConnection, dsn: str, headers: dict[str, str]
) -> None:
    """Also if it knows the link."""
    approval, link = await asked(conn)
    async with browser(dsn) as person:
        await person.open(link)
        said = await person.decide(link, headers=headers)
        assert said.status_code == 403
        assert await state(conn, approval) == "pending"
        for fields in ({"reason": "x" * 10_000}, {f"f{n}": "" for n in range(20)}):
            said = await person.decide(link, "approve", headers=None, **fields)
            assert said.status_code == 403
    assert await state(conn, approval) == "pending"


async def test_enter_decides_nothing(conn: AsyncConnection, dsn: str) -> None:
    """In an input, it would press the first button while a person writes the reason."""
    _, link = await asked(conn)
    async with browser(dsn) as person:
        page = await person.open(link)
    assert re.findall(r"<input[^>]*>", page.text) == re.findall(
        r'<input type="hidden"[^>]*>', page.text
    )
    assert '<textarea name="reason"' in page.text


async def test_the_page_fits_a_phone(conn: AsyncConnection, dsn: str) -> None:
    """Also one in dark mode, and with a long word in it."""
    _, link = await asked(conn)
    async with browser(dsn) as person:
        page = await person.open(link)
    for word in ("width=device-width", "color-scheme:light dark", "overflow-wrap:anywhere"):
        assert word in page.text


async def refusal(person: Browser, link: str) -> str:
    """Open a link that cannot decide, and try to decide with it; return why not."""
    page = await person.open(link)
    assert page.status_code == 410
    assert "<form" not in page.text
    person.page = "0" * 32
    person.client.cookies.set("walagent_link", person.page)
    said = await person.decide(link)
    assert said.status_code == 410
    person.client.cookies.clear()
    return said.text


async def test_a_used_link_is_refused(conn: AsyncConnection, dsn: str) -> None:
    """And what the second use asked for is not done."""
    approval, link = await asked(conn)
    async with browser(dsn) as person:
        await person.open(link)
        await person.decide(link, "reject")
        assert "has been used" in await refusal(person, link)
    assert await state(conn, approval) == "rejected"
    refused = await rows(
        conn, "select object, detail ->> 'by' from agent.audit where action = 'approval.refused'"
    )
    assert refused == [(str(approval), "link")]


async def test_an_expired_link_is_refused(conn: AsyncConnection, dsn: str) -> None:
    """Also in the moment before the approval is marked as expired."""
    _, link = await asked(conn)
    await set_clock(conn, "2 hours")
    async with browser(dsn) as person:
        assert "expired" in await refusal(person, link)


async def test_a_tampered_link_is_refused(conn: AsyncConnection, dsn: str) -> None:
    """Another code, another ID, and what is no token."""
    approval, link = await asked(conn)
    other_approval, other = await asked(conn)
    assert other != link
    name, _, code = link.partition(".")
    turned = code.replace(code[0], "0" if code[0] != "0" else "1", 1)
    async with browser(dsn) as person:
        for forged in (
            f"{name}.{turned}",
            f"{other.partition('.')[0]}.{code}",
            name,
            f"{name}.",
            "x",
            "%00",
            "'; select 1 --",
        ):
            assert "not valid" in await refusal(person, forged), forged
    assert await state(conn, approval) == await state(conn, other_approval) == "pending"
    # Anyone can send them, and the audit is never pruned.
    refused = "select count(*) from agent.audit where action = 'approval.refused'"
    assert await value(conn, refused) == 0


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "change",
    [
        "principal = 'ben'",
        "digest = repeat('0', 64)",
        "expires_at = expires_at + interval '1 year'",
        "approval_id = approval_id + 1",
    ],
)
async def test_a_row_that_somebody_changed_makes_its_link_invalid(
    conn: AsyncConnection, dsn: str, change: str
) -> None:
    """The code is over the row: approver, digest and expiry are bound."""
    _, link = await asked(conn)
    await asked(conn)
    await run_all(
        conn,
        f"update agent.approval_link set {change}"
        " where id = (select min(id::text)::uuid from agent.approval_link"
        f" where agent_internal.link_token(approval_link) = '{link}')",
    )
    async with browser(dsn) as person:
        assert "not valid" in await refusal(person, link)


async def test_a_link_of_another_call_is_refused(conn: AsyncConnection, dsn: str) -> None:
    """The digest of the approval is not the one that was sent."""
    approval, link = await asked(conn)
    await run_all(
        conn,
        "alter table agent.approval disable trigger all;"
        "update agent.approval set arguments = '{}', digest = repeat('0', 64)",
    )
    async with browser(dsn) as person:
        assert "not the one" in await refusal(person, link)
    assert await state(conn, approval) == "pending"


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("statement", "word"),
    [
        ("select agent.reject(id) from agent.approval", "already rejected"),
        ("update agent.principal set active = false where name = 'ann'", "not active"),
        ("delete from agent.role_grant where principal = 'ann'", "may not decide"),
        ("update agent.role_grant set expires_at = now()", "may not decide"),
        ("update agent.tenant set active = false", "not active"),
    ],
)
async def test_the_approver_must_be_one_when_the_link_is_used(
    conn: AsyncConnection, dsn: str, statement: str, word: str
) -> None:
    """Roles and states count now, not when the message was sent."""
    _, link = await asked(conn)
    async with browser(dsn) as person:
        await person.open(link)
        await run_all(conn, statement)
        said = await person.decide(link)
    assert said.status_code == 410
    assert word in said.text


async def test_of_many_clicks_at_once_one_decides(conn: AsyncConnection, dsn: str) -> None:
    """A link is used once."""
    _, link = await asked(conn)
    async with browser(dsn) as person:
        await person.open(link)
        clicks = [person.decide(link, "approve" if n % 2 else "reject") for n in range(12)]
        codes = [each.status_code for each in await asyncio.gather(*clicks)]
    assert sorted(codes) == [200] + [410] * 11
    assert await value(conn, "select count(*) from agent.step where kind = 'decision'") == 1


async def test_no_row_has_the_token(conn: AsyncConnection) -> None:
    """Who reads tables cannot decide with what is there."""
    _, link = await asked(conn)
    code = link.partition(".")[2]
    for table in ("outbox", "approval_link", "approval", "audit", "run", "step"):
        for (row,) in await rows(conn, f"select t::text from agent.{table} t"):
            assert code not in str(row)
