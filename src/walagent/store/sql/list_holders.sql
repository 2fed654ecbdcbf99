-- The roles that have each capability, and the privileges that these had.
select coalesce((select jsonb_agg(jsonb_build_object('capability', c, 'role', h))
                   from unnest('{runner,viewer,approver,developer,asker,member}'::text[]) c,
                        agent_internal.holders(c) h where h <> 'walagent_definer'), '[]'),
       coalesce((select jsonb_agg(to_jsonb(p)) from agent_internal.privilege p), '[]')
