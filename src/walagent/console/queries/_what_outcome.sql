-- What an outcome s.outcome came to, in a line: its calls that are no reads in the words of their row, else its text; of a
-- question, its last statement.
select left(concat_ws(': ', nullif(s.outcome ->> 'state', 'succeeded'), coalesce(s.outcome ->> 'error', k.calls, s.outcome ->> 'result', s.outcome -> 'sql' ->> -1, 'nothing')), 300) as what
  from (select string_agg(concat_ws(' ', case when e.call ->> 'tool' = 'update_row' then coalesce(a.written, 'no column')
                                              else (e.call ->> 'tool') || '(' || coalesce(a.given, '') || ')' end,
                                    case when e.call ->> 'state' <> 'done' then '(' || (e.call ->> 'state') || ')' end), '; ' order by e.n) as calls
          from jsonb_array_elements(case jsonb_typeof(s.outcome -> 'calls') when 'array' then s.outcome -> 'calls' else '[]' end) with ordinality e (call, n)
               cross join lateral (
                   select string_agg(j.key || ' = ' || j.shown, ', ') as written, string_agg(j.key || ' => ' || j.shown, ', ') as given
                     from (select g.key, left(coalesce(g.value #>> '{}', 'NULL'), 100) as shown
                             from jsonb_each(case jsonb_typeof(e.call -> 'arguments') when 'object' then e.call -> 'arguments' else '{}' end) g
                            order by length(g.value::text) > 60, g.key) j) a
         where e.call ->> 'reads' is distinct from 'true') k
