(r.change ->> 'schema') || '.' || (r.change ->> 'table') as relation, r.key, thread.id as thread,
left(coalesce(nullif(thread.title, ''), c.content ->> 'subject', c.content ->> 'title', c.content ->> 'name', c.content ->> 'summary',
              c.content ->> 'text', c.content ->> 'description', c.content ->> 'label',
              (select e.value #>> '{}' from jsonb_each(c.content) e
                where jsonb_typeof(e.value) = 'string' and e.value #>> '{}' <> r.key
                order by length(e.value #>> '{}') < 3, e.key limit 1)), 160) as title
