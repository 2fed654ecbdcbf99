-- key: id
-- parameters: agent, kind, about, key, trust, state, q, before, limit
-- A page of what agents remember, newest first, without state what is recalled; before: the place of the last one of the page before.
select m.id, m.agent::text, m.kind, m.key, left(m.value #>> '{}', 300) as text, m.principal::text as about, m.thread_id,
       nullif(t.title, '') as thread, m.trust, s.state, m.created_by::text, m.created_at, m.run_id,
       concat_ws(' ', extract(epoch from m.created_at), m.id) as place
-- include: _memory_from
   and (%(before)s = ''
        or (extract(epoch from m.created_at), m.id)
           < (nullif(split_part(%(before)s, ' ', 1), '')::numeric, nullif(split_part(%(before)s, ' ', 2), '')::uuid))
   and (%(agent)s = '' or m.agent::text = any (string_to_array(%(agent)s, ',')))
   and (%(kind)s = '' or m.kind = any (string_to_array(%(kind)s, ',')))
   and (%(about)s = '' or m.principal::text = any (string_to_array(%(about)s, ',')))
   and (%(key)s = '' or m.key = %(key)s or m.key = any (string_to_array(%(key)s, ',')))
   and (%(trust)s = '' or m.trust = any (string_to_array(%(trust)s, ',')))
   and s.state = any (string_to_array(coalesce(nullif(%(state)s, ''), 'live,disputed'), ','))
   and (%(q)s = '' or strpos(lower(concat_ws(' ', m.key, m.value #>> '{}')), lower(%(q)s)) > 0)
 order by m.created_at desc, m.id desc
 limit least(%(limit)s::integer, 500)
