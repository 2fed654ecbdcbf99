-- role: developer
-- parameters: id
-- Delete a document, its chunks and its relations.
delete from agent.document d
 where d.tenant = agent.current_tenant() and d.id = %(id)s::uuid
returning d.title
