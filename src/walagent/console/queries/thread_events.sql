-- key: number
-- parameters: thread, before, limit
-- The latest events of a thread, or those before a number.
select e.number, e.id, e.type, e.author::text, p.kind as author_kind,
       case when pg_column_size(e.data) < 262144 then e.data
            else jsonb_strip_nulls(jsonb_build_object('name', e.data -> 'name', 'tool_name', e.data -> 'tool_name', 'id', e.data -> 'id',
                 'tool_use_id', e.data -> 'tool_use_id', 'is_error', e.data -> 'is_error',
                 'text', left(e.data ->> 'text', 65536), 'cut', length(e.data::text))) end as data,
       e.run_id, e.created_at
  from agent.event e join agent.principal p on p.tenant = e.tenant and p.name = e.author
 where e.thread_id = nullif(%(thread)s, '')::uuid
   and (%(before)s = '' or e.number < nullif(%(before)s, '')::bigint)
 order by e.number desc
 limit least(coalesce(nullif(%(limit)s, '')::integer, 200), 500)
