-- What a filter of the audit accepts.  did: a verb, a noun, or both; object: what was acted on, or what the detail names.
a.tenant = agent.current_tenant()
and (%(entry)s = '' or a.number::text = any (string_to_array(%(entry)s, ',')))
and (%(who)s = '' or a.principal::text = any (string_to_array(%(who)s, ',')))
and (%(did)s = '' or array[a.action, split_part(a.action, '.', 1), split_part(a.action, '.', 2)] && string_to_array(%(did)s, ','))
and (%(object)s = ''
     or a.object = any (string_to_array(%(object)s, ','))
     or string_to_array(a.object, ' ') && string_to_array(%(object)s, ',')
     or exists (select from jsonb_each_text(a.detail) d where d.value = any (string_to_array(%(object)s, ','))))
and a.at >=
-- include: _since
and a.at <
-- include: _until
and (%(q)s = ''
     or strpos(lower(concat_ws(' ', a.principal, a.login, a.action, a.object, a.detail)), lower(%(q)s)) > 0)
