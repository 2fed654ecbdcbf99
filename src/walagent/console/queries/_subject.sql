(r.change ->> 'schema') || '.' || (r.change ->> 'table') as relation, r.key, thread.id as thread,
-- What a person wrote, else the first text that is no date, number, UUID or key.
left(coalesce(nullif(thread.title, ''), nullif(c.content ->> 'subject', ''), nullif(c.content ->> 'title', ''), nullif(c.content ->> 'reason', ''),
              nullif(c.content ->> 'summary', ''), nullif(c.content ->> 'message', ''), nullif(c.content ->> 'name', ''), nullif(c.content ->> 'text', ''),
              nullif(c.content ->> 'description', ''), nullif(c.content ->> 'label', ''), nullif(c.content ->> 'comment', ''), nullif(c.content ->> 'body', ''),
              (select e.value #>> '{}' from jsonb_each(c.content) e
                where jsonb_typeof(e.value) = 'string' and e.value #>> '{}' not in ('', r.key)
                  and e.value #>> '{}' !~ '^(\d{4}-\d\d-\d\d([T ].*)?|[-+]?[\d.,]+|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$'
                order by length(e.value #>> '{}') < 3, e.key limit 1)), 160) as title
