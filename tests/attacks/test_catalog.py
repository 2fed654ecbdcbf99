"""What keeps tenants apart, as the catalog has it: what is new must have it, too."""

from psycopg import AsyncConnection

from tests.helpers.database import column

_OURS = "('agent'::regnamespace, 'agent_internal'::regnamespace, 'agent_signed'::regnamespace)"
# The policies themselves read them; the latter shows each principal its own rows.
UNPROTECTED = {"agent_internal.login", "agent_internal.participation"}
_WITH_TENANT = f"""
    select c.oid, c.oid::regclass::text as name, c.relrowsecurity, c.relforcerowsecurity
      from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant'
     where c.relkind in ('r', 'p') and c.relnamespace in {_OURS} and not a.attisdropped
"""


async def test_each_table_with_a_tenant_has_row_level_security(conn: AsyncConnection) -> None:
    """It is enabled, it applies to the owner, and no policy leaves the tenant out."""
    lacking = await column(
        conn,
        f"""
        with held as ({_WITH_TENANT})
        select name || ': row-level security' from held
         where not (relrowsecurity and relforcerowsecurity)
        union all
        select name || ': policy "tenant"' from held h
         where not exists (select from pg_policy p
                            where p.polrelid = h.oid and p.polname = 'tenant' and p.polcmd = '*'
                              and pg_get_expr(p.polqual, p.polrelid) like '%all_tenants()%'
                              and pg_get_expr(p.polqual, p.polrelid)
                                  like '%tenant = %current_tenant()%')
        union all
        select format('%s: policy "%s" is not limited to a tenant', h.name, p.polname)
          from held h join pg_policy p on p.polrelid = h.oid
         where p.polpermissive
           and p.polname not in ('tenant', 'shared', 'sought', 'of_definers', 'append')
           and not exists (select from pg_policy r
                            where r.polrelid = h.oid and r.polname = 'tenant'
                              and not r.polpermissive)
        """,
    )
    assert {line for line in lacking if line.split(":")[0] not in UNPROTECTED} == set()


async def test_a_token_without_the_scope_read_reads_no_table(conn: AsyncConnection) -> None:
    """Each table with row-level security has the policy."""
    lacking = await column(
        conn,
        f"""
        select c.oid::regclass::text from pg_class c
         where c.relrowsecurity and c.relnamespace in {_OURS}
           and not exists (select from pg_policy p
                            where p.polrelid = c.oid and p.polname = 'reading'
                              and p.polcmd = 'r' and not p.polpermissive
                              and pg_get_expr(p.polqual, p.polrelid) like '%may_read()%')
        """,
    )
    assert lacking == []


# A case is of the tenant of its row: the attachment can be of an operator, and serve several.
OF_CASES = {
    "agent.dataset_case.dataset_case_dataset_id_fkey",
    "agent.evaluation_case.evaluation_case_evaluation_id_fkey",
}


async def test_no_foreign_key_leads_into_another_tenant(conn: AsyncConnection) -> None:
    """Both sides have the tenant, or the scope of what can be shared."""
    strays = await column(
        conn,
        f"""
        with held as ({_WITH_TENANT})
        select format('%s.%s', f.conrelid::regclass, f.conname)
          from pg_constraint f
               join held a on a.oid = f.conrelid join held b on b.oid = f.confrelid
         where f.contype = 'f'
           and not exists (
               select from unnest(f.conkey, f.confkey) as k (near, far)
                      join pg_attribute n on n.attrelid = f.conrelid and n.attnum = k.near
                      join pg_attribute o on o.attrelid = f.confrelid and o.attnum = k.far
                where (n.attname, o.attname) in (('tenant', 'tenant'), ('model_scope', 'scope')))
        """,
    )
    assert {str(each) for each in strays} == OF_CASES


async def test_views_read_with_the_rights_of_the_caller(conn: AsyncConnection) -> None:
    """Otherwise a view would show what its owner sees."""
    views = await column(
        conn,
        f"select oid::regclass::text from pg_class where relkind = 'v' and relnamespace in {_OURS}"
        " and not coalesce(reloptions::text like '%security_invoker=%' "
        "                  and reloptions::text !~ 'security_invoker=(off|false)', false)",
    )
    assert views == []


async def test_functions_with_the_rights_of_the_owner_are_closed(conn: AsyncConnection) -> None:
    """They find names on a path of their own, and only who was granted them calls them.

    Those of agent_signed do nothing without a signature.
    """
    open_functions = await column(
        conn,
        f"""
        select p.oid::regprocedure::text || ': search_path' from pg_proc p
         where p.prosecdef and p.pronamespace in {_OURS}
           and not coalesce(p.proconfig::text like '%search_path=%', false)
        union all
        select p.oid::regprocedure::text || ': PUBLIC' from pg_proc p
         where p.pronamespace in {_OURS} and p.pronamespace <> 'agent_signed'::regnamespace
           and (p.proacl is null
                or exists (select from aclexplode(p.proacl) a where a.grantee = 0))
        """,
    )
    assert open_functions == []


async def test_row_level_security_applies_to_functions_with_the_rights_of_the_owner(
    conn: AsyncConnection,
) -> None:
    """Also if a superuser owns the schema; but for those that check tenants themselves."""
    unlimited = await column(
        conn,
        f"""
        select p.oid::regprocedure::text
          from pg_proc p join pg_roles r on r.oid = p.proowner
         where p.prosecdef and p.pronamespace in {_OURS}
           and p.pronamespace <> 'agent_signed'::regnamespace
           and (r.rolsuper or r.rolbypassrls or r.rolcanlogin)
           and p.oid not in (select f.function from agent_internal.owner_function f)
        """,
    )
    assert unlimited == []
    of_role = await column(
        conn,
        "select m.roleid::text from pg_auth_members m"
        " where 'walagent_definer'::regrole in (m.roleid, m.member)"
        "    or exists (select from pg_roles where rolname = 'walagent_definer'"
        "               and (rolcanlogin or rolsuper or rolbypassrls))",
    )
    assert of_role == []


async def test_what_policies_call_is_bound_when_it_is_created(conn: AsyncConnection) -> None:
    """Otherwise a caller's search_path would decide which function is called."""
    loose = await column(
        conn,
        f"""
        select distinct p.oid::regprocedure::text
          from pg_policy o
               join pg_depend d on d.classid = 'pg_policy'::regclass and d.objid = o.oid
                                and d.refclassid = 'pg_proc'::regclass
               join pg_proc p on p.oid = d.refobjid
         where p.pronamespace in {_OURS}
           and p.prosqlbody is null and not coalesce(p.proconfig::text like '%search_path=%', false)
        """,
    )
    assert loose == []
