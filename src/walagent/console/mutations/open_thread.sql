-- parameters: title, members, id
-- Open a thread; the caller is its owner.
select agent.open_thread(%(title)s, array(select jsonb_array_elements_text(coalesce(nullif(%(members)s, ''), '[]')::jsonb))::name[], %(id)s::uuid)
