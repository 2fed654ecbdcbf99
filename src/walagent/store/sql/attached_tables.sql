-- The attachments, with facts about their tables and roles.
select a.name as attachment,
       a.relation::oid::bigint as relation_oid,
       case when c.oid is null then quote_ident(a.definition ->> 'schema') || '.' || quote_ident(a.definition ->> 'table')
            else a.relation::text end as relation,
       c.oid is not null as table_exists,
       pg_get_userbyid(c.relowner) as owner,
       pg_get_userbyid((select relowner from pg_class where oid = 'agent.attachment'::regclass)) as schema_owner,
       coalesce(pg_has_role((select relowner from pg_class where oid = 'agent.attachment'::regclass), c.relowner,
                            'member'), true) as owner_may_publish,
       a.run_as::text,
       r.oid is not null as role_exists,
       coalesce(r.rolsuper, false) as role_is_superuser,
       coalesce(has_table_privilege(r.oid, 'agent_internal.secret', 'select'), false) as reads_key,
       coalesce(pg_has_role(current_user, r.oid, case when current_setting('server_version_num')::integer >= 160000
                                                      then 'set' else 'member' end), false) as may_become,
       q.reads_as,
       coalesce(pg_has_role(current_user, s.oid, case when current_setting('server_version_num')::integer >= 160000
                                                      then 'set' else 'member' end), false) as may_read_as,
       case when s.oid is not null
            then (select string_agg(w.reason, '; ') from agent_internal.writing_rights(q.reads_as::name) w) end as could_write,
       a.paused,
       a.paused_reason,
       agent_internal.drift_of(a.definition) as lost,
       array(select o from jsonb_array_elements_text(a.definition -> 'missing_old') o
              where o <> all (agent_internal.identity_columns(a.relation))) as missing_old
  from agent.attachment a
       left join pg_class c on c.oid = a.relation
       left join pg_roles r on r.rolname = a.run_as
       left join lateral (select t ->> 'role' as reads_as from jsonb_array_elements(a.definition -> 'tools') t
                           where t ->> 'kind' = 'builtin' and t ->> 'target' = 'query' limit 1) q on true
       left join pg_roles s on s.rolname = q.reads_as
 order by a.name
