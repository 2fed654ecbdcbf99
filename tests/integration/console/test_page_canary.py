"""Both versions of an attachment on the console's page, and who ends a canary there."""

from psycopg import AsyncConnection

from tests.helpers.database import rows, value
from tests.integration.console.test_page_agents import people


async def test_developers_promote_and_end_as_their_login(conn: AsyncConnection, dsn: str) -> None:
    """Those who may change the attachment; it is audited as them."""
    async with people(conn, dsn) as found:
        served, tokens = found.served, found.tokens
        for begin, name, given, state in (
            ("canary", "roll_back_canary", {"reason": "no"}, "rolled_back"),
            ("shadow", "roll_back_canary", {"reason": ""}, "rolled_back"),
            ("shadow", "promote_canary", {}, "promoted"),
        ):
            await value(conn, f"select agent.{begin}('triage', 'model=two', share => 0.5)")
            for who in ("dan", "vic", "apo", "nob", "bob", "read"):
                answer = await served.mutate(tokens[who], f"console.{name}", name="triage", **given)
                assert answer.status_code in {400, 403}, (who, answer.text)
            assert await value(conn, "select canary is not null from agent.attachment")
            for who, sides in (
                ("ann", ["baseline", begin]),
                ("vic", ["baseline", begin]),
                ("bob", []),
            ):
                answer = await served.query(tokens[who], "console.canary", attachment="triage")
                assert [row["side"] for row in answer.json()["rows"]] == sides, who
            answer = await served.mutate(tokens["ann"], f"console.{name}", name="triage", **given)
            assert answer.status_code == 200, answer.text
            last = "select state, ended_by::text from agent.canary order by version desc limit 1"
            assert await rows(conn, last) == [(state, "ann")]
        audited = (
            "select count(*) from agent.audit where principal = 'ann' and action like 'canary.%'"
        )
        assert await value(conn, audited) == 3
