-- key: id
-- parameters: archived, before, limit
-- Threads that the caller can see, with their latest event; before: time and ID of the last one of the page before.
select t.id, t.title, t.state, t.last_number, coalesce(e.created_at, t.created_at) as active_at,
       e.type, e.author::text, left(coalesce(e.data ->> 'text', e.data ->> 'name', e.data ->> 'tool_name', e.data ->> 'action'), 160) as text,
       exists (select from agent.member m
                where m.tenant = t.tenant and m.thread_id = t.id and m.principal = agent.current_principal()) as is_mine
  from agent.thread t
       left join agent.event e on e.tenant = t.tenant and e.thread_id = t.id and e.number = t.last_number
 where (t.state = 'archived') = (%(archived)s = 'true')
 and (%(before)s = ''
      or coalesce(e.created_at, t.created_at) < nullif(split_part(%(before)s, ' ', 1), '')::timestamptz
      or coalesce(e.created_at, t.created_at) = nullif(split_part(%(before)s, ' ', 1), '')::timestamptz
         and t.id > nullif(split_part(%(before)s, ' ', 2), '')::uuid)
 order by active_at desc, t.id
 limit least(coalesce(nullif(%(limit)s, '')::integer, 100), 500)
