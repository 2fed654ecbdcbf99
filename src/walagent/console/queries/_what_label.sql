-- The label e.label in a line, without the values e.hidden.
left(concat_ws('; ',
               (select string_agg(g.key || ' = ' || left(coalesce(g.value #>> '{}', 'NULL'), 100), ', ' order by g.key) from jsonb_each(e.label -> 'values') g),
               case when e.hidden <> '{}' then array_to_string(e.hidden, ', ') || ' hidden' end,
               case when e.label ? 'tools' and not e.label ? 'values'
                    then coalesce((select string_agg(g.tool, ', ' order by g.n) from jsonb_array_elements_text(e.label -> 'tools') with ordinality g (tool, n)), 'no call') end,
               e.label ->> 'result', e.label ->> 'sql'), 300)
