-- What the calls of run r did, in the words of its row: category = how_to, refund_customer(amount => 348.0).
(select string_agg(case when c ->> 'name' = 'update_row' then coalesce(a.written, 'no column') else (c ->> 'name') || '(' || coalesce(a.given, '') || ')' end, '; ' order by s.seq, n)
   from agent.step s
        cross join lateral jsonb_array_elements(case jsonb_typeof(s.content -> 'parts') when 'array' then s.content -> 'parts' else '[]' end) with ordinality p (c, n)
        cross join lateral (
            select string_agg(e.key || ' = ' || e.shown, ', ') as written, string_agg(e.key || ' => ' || e.shown, ', ') as given
              from (select j.key, left(coalesce(j.value #>> '{}', 'NULL'), 100) as shown
                      from jsonb_each(case jsonb_typeof(c -> 'arguments') when 'object' then coalesce(
                               (select d.content -> 'edited' from agent.step d
                                 where d.run_id = r.id and d.kind = 'decision' and d.content ->> 'call_id' = c ->> 'call'
                                   and jsonb_typeof(d.content -> 'edited') = 'object'), c -> 'arguments') else '{}' end) j
                     order by length(j.value::text) > 60, j.key) e) a
  where s.run_id = r.id and s.kind = 'reply' and c ? 'call' and not s.content ? 'control'
    -- Nothing of an unsure reply is carried out, and some providers start the numbers of calls again.
    and not exists (select from agent.step n where n.run_id = r.id and n.seq = s.seq + 1 and n.content ? 'cascade')
    and exists (select from agent.step d where d.run_id = r.id and d.kind = 'result' and d.content ->> 'call_id' = c ->> 'call' and not d.content ? 'kept'
                                          and d.content ->> 'is_error' is distinct from 'true'))
