-- The turns of a thread, latest first, whatever the number of runs is.
create index run_of_thread on agent.run (ordering_key, id) where kind = 'turn';

-- The login of a principal.  In the tenant default, a login that is nobody's principal acts under its own name.
create function agent_internal.login_of(_tenant text, _principal name)
    returns name
    language sql
    stable
    return coalesce(
        (select p.login from agent.principal p where p.tenant = _tenant and p.name = _principal),
        case when _tenant = 'default'
                  and exists (select from pg_catalog.pg_roles r where r.rolname = _principal and r.rolcanlogin)
                  and not exists (select from agent_internal.login l where l.login = _principal)
             then _principal end);
comment on function agent_internal.login_of(text, name) is 'The login of a principal';
revoke all on function agent_internal.login_of(text, name) from public;

-- How the caller can ask questions over this session's login: which login it has, and whether that login can become a role.
--
-- Args: _role: the role that statements of questions run as.
-- Returns is_own: the caller is the principal of this session's login.  bypasses: row-level security does not apply to it.
-- reads_login: a policy or view depends on session_user, which is not the caller's login.
create function agent_internal.asking(_role name, out login name, out is_own boolean, out may boolean, out bypasses boolean, out reads_login boolean)
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _me    constant record := agent_internal.identity();
    _right constant text := case when current_setting('server_version_num')::integer >= 160000 then 'SET' else 'MEMBER' end;
begin
    login := agent_internal.login_of(_me.tenant, _me.principal);
    is_own := coalesce(login = session_user, false);
    may := login is not null and coalesce((select pg_has_role(login, r.oid, _right) from pg_roles r where r.rolname = _role), false);
    bypasses := (select r.rolsuper or r.rolbypassrls from pg_roles r where r.rolname = session_user);
    -- walagent's own policies ask for the principal first.
    reads_login := exists (
        select from pg_class c
         where c.relnamespace not in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace,
                                      'agent'::regnamespace, 'agent_internal'::regnamespace)
           and (c.relkind = 'v' and pg_get_viewdef(c.oid) ~* '\msession_user\M'
                or exists (select from pg_policy p where p.polrelid = c.oid and pg_get_expr(p.polqual, p.polrelid) ~* '\msession_user\M')));
end;
$$;
comment on function agent_internal.asking(name) is 'How the caller can ask questions over the login of this session';
revoke all on function agent_internal.asking(name) from public;
select agent_internal.permit(c, 'execute on function agent_internal.asking(name)') from unnest('{runner, asker, member}'::text[]) c;
