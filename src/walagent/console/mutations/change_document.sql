-- role: developer
-- parameters: id, base, title, body, source
-- Change a document, if nobody has changed it since version *base*; its chunks are cut again.
update agent.document d
   set title = %(title)s, body = %(body)s, source = %(source)s
 where d.tenant = agent.current_tenant() and d.id = %(id)s::uuid and d.version = %(base)s::integer
returning d.version
