-- role: developer
-- parameters: title, body, source
-- Store a document; returns its ID.
insert into agent.document (title, body, source) values (%(title)s, %(body)s, %(source)s)
returning id
