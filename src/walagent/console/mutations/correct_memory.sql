-- role: developer
-- parameters: id, text, is_text
-- Replace a memory that is recalled by a text, or by a JSON document; returns the ID of the new one.
select agent.correct(%(id)s::uuid, case when %(is_text)s::boolean then to_jsonb(%(text)s::text) else %(text)s::text::jsonb end)
