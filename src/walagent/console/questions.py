"""Questions of the console's page: asked with the engine of `walagent ask`.

A question reads as the analyst role, which the principal's own login must be able to become: so
nothing is read that `walagent ask` would not read for it.
"""

from typing import Any, Final

from psycopg import AsyncConnection

from walagent.ask.answering import open_asker
from walagent.ask.health import Health
from walagent.ask.options import Options
from walagent.config import AskSettings
from walagent.config.dsn import Logins, Places
from walagent.console.sessions import login_statement
from walagent.domain.tenant import Actor
from walagent.http.exchange import RefusedError
from walagent.http.shares import Shares
from walagent.message import Json

_WHO: Final = """
select login, is_own, may, bypasses, reads_login, agent.has_scope('post') as writes,
       agent.current_tenant() as tenant, agent.current_principal()::text as principal,
       exists (select from pg_catalog.pg_roles r where r.rolname = %(role)s) as is_made
  from agent_internal.asking(%(role)s)
"""


class PageQuestions:
    """Answers questions of principals.

    Args:
        logins: of this process.
    """

    def __init__(self, logins: Logins, settings: AskSettings) -> None:
        self._logins = logins
        self._settings = settings
        self._health = Health()
        # Each has its own connections.
        self._places = Shares("questions", 4, of_tenant=3, of_principal=2)

    async def check(self, conn: AsyncConnection[Any]) -> bool:
        """Check that the principal of this transaction can ask; return whether as this login.

        Raises:
            RefusedError: it has no login, or its login could not ask the same.
        """
        role = self._settings.role
        row = await (await conn.execute(_WHO, {"role": role})).fetchone()
        login, is_own, may, bypasses, reads_login, writes, tenant, principal, is_made = row or (
            (None,) * 9
        )
        if not writes:
            raise RefusedError(403, "the token of this session is for reading", "42501")
        if login is None:
            raise RefusedError(
                403,
                f'principal "{principal}" has no login, whose privileges bound what it can ask',
                "42501",
                f'{login_statement(tenant, principal)} LOGIN is a member of role "{role}".',
            )
        if not is_made:
            raise RefusedError(
                403,
                f'role "{role}", as which questions read, does not exist',
                "42501",
                "Run walagent database setup, which creates it.",
            )
        if not may:
            raise RefusedError(
                403,
                f'login "{login}" is not a member of role "{role}"',
                "42501",
                f"grant {role} to {login};",
            )
        if not is_own and bypasses:
            raise RefusedError(
                403,
                "row-level security does not apply to the login of walagent run, so it asks for no"
                " other login",
                "42501",
                f"Run walagent ask as {login}, or walagent run as a login that is no superuser.",
            )
        if not is_own and reads_login:
            raise RefusedError(
                403,
                "a policy or view depends on session_user, which is here the login of walagent run",
                "42501",
                f"Run walagent ask as {login}.",
            )
        return bool(is_own)

    async def answer(
        self, question: str, session: str, token: str | None, who: Actor
    ) -> dict[str, Json]:
        """Answer a question.

        Args:
            token: of the principal; None: the login of this process asks for itself.
            who: the principal.

        Raises:
            WalagentError: as `Asker.ask` does.
            RefusedError: too many questions are being answered.
        """
        dsn = self._logins.dsn()
        places = Places(dsn, dsn, tools_dsn=self._logins.tools_dsn(), token=token)
        with self._places.now(who):
            async with open_asker(places, self._settings, Options(), health=self._health) as asker:
                found = await asker.ask_in_turn(question, session)
        plan = found.plan
        steps: list[Json] = [
            {
                "id": step.id,
                "type": step.type.value,
                "description": step.description,
                "depends_on": list(step.depends_on),
            }
            for step in (plan.steps if plan else ())
        ]
        last = found.last_rows
        answer: dict[str, Json] = {
            **found.to_json(),
            "plan": steps,
            "last": None if last is None else last.id,
            "role": self._settings.role,
        }
        return answer
