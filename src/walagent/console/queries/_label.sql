-- The label l.label of case p as its reader may see it, and the names of the values that are hidden.
select case when jsonb_typeof(l.label -> 'values') = 'object' and (select agent_internal.readable()) is not null
            then jsonb_set(l.label, '{values}', coalesce(jsonb_object_agg(v.key, v.value) filter (where v.is_readable), '{}')) else l.label end as label,
       coalesce(array_agg(v.key order by v.key) filter (where not v.is_readable), '{}') as hidden
  from (select e.key, e.value,
               (select agent_internal.readable()) is null or coalesce((select agent_internal.readable()) -> u.attachment_id::text ? e.key, false) as is_readable
          from jsonb_each(case jsonb_typeof(l.label -> 'values') when 'object' then l.label -> 'values' else '{}' end) e) v
