-- key: one
-- What a new budget can apply to, and why the caller may make and remove none; NULL: it may.
select 1 as one,
       case when not agent.has_role('admin') then 'role'
            when x.login is null then 'login'
            when not (has_table_privilege(x.login, 'agent.budget', 'insert') and has_table_privilege(x.login, 'agent.budget', 'delete'))
                 then 'privilege' end as refusal,
       array(select g.name from agent.agent g where g.tenant = agent.current_tenant() order by 1) as agents,
       array(select a.name from agent.attachment a where a.tenant = agent.current_tenant() order by 1) as attachments,
       -- Of many known models, those that agents or questions use.
       array(select g.model from agent.agent g where g.tenant = agent.current_tenant()
              union
             select s.model from agent.spend s where s.tenant = agent.current_tenant() order by 1) as models,
       array(select distinct p.login::text from agent.principal p where p.tenant = agent.current_tenant() and p.login is not null order by 1) as askers
  from agent_internal.asking('') x
