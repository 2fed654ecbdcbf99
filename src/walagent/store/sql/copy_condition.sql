-- Give an attachment the condition of another, as it was compiled.
update agent.attachment_version v
   set definition = v.definition || (
       select jsonb_object_agg(key, value)
         from agent.attachment s cross join jsonb_each(s.definition)
        where s.tenant = agent.current_tenant() and s.name = %(source)s
          and key in ('condition', 'condition_columns', 'whole_row', 'old_columns', 'missing_old'))
  from agent.attachment a
 where a.tenant = agent.current_tenant() and a.name = %(target)s and (v.attachment_id, v.version) = (a.id, a.version)
