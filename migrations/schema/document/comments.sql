comment on table agent.document is 'Documents that agents and people search';
comment on column agent.document.tenant is 'Tenant that it belongs to';
comment on column agent.document.id is 'ID of the document';
comment on column agent.document.title is 'Title; its words count more than those of the body';
comment on column agent.document.body is 'Text, at most 1 MB; words are searched in the first 400,000 characters, and in all chunks';
comment on column agent.document.source is 'Where it is from, such as a URL or a path';
comment on column agent.document.metadata is 'Properties to filter by';
comment on column agent.document.version is 'Incremented when title or body change';
comment on column agent.document.queued_version is 'Version for which a run was queued';
comment on column agent.document.indexed_version is 'Version of its chunks; NULL: it has none yet';
comment on column agent.document.created_by is 'Principal that stored it';
comment on column agent.document.created_at is 'Time of the insert';
comment on column agent.document.updated_at is 'Time of the last change of title or body';
comment on column agent.document.search is 'Words of title (weight A) and body (weight B)';

comment on table agent.document_chunk is 'Chunks of documents, which agent.retrieve() returns';
comment on column agent.document_chunk.tenant is 'Tenant of the document';
comment on column agent.document_chunk.document_id is 'Document';
comment on column agent.document_chunk.number is 'Number within the document, from 1';
comment on column agent.document_chunk.version is 'Version of the document that it was cut from';
comment on column agent.document_chunk.content is 'Text of the chunk; overlaps the one before';
comment on column agent.document_chunk.embedding is 'Embedding of title and content; NULL: not embedded';
comment on column agent.document_chunk.embedding_model is 'Model of the embedding';
comment on column agent.document_chunk.search is 'Words of the title (weight A) and the content (weight B)';

comment on table agent.document_link is 'Relations of documents: from_id supersedes to_id, and so on';
comment on column agent.document_link.tenant is 'Tenant of both documents';
comment on column agent.document_link.from_id is 'Document that has the relation';
comment on column agent.document_link.to_id is 'Document that it has the relation to';
comment on column agent.document_link.relation is 'references, supersedes (the other is no longer found), part_of, summarizes, translates or related';
comment on column agent.document_link.created_at is 'Time of the insert';

comment on table agent.embedding_setting is 'How documents of a tenant are cut and embedded; a tenant without a row has the defaults';
comment on column agent.embedding_setting.tenant is 'Tenant';
comment on column agent.embedding_setting.auto_enqueue is 'Whether stored documents are queued; if not, agent.embed_documents() queues them';
comment on column agent.embedding_setting.max_queue is 'Maximum number of unfinished runs; further documents wait';
comment on column agent.embedding_setting.chunk_chars is 'Characters of a chunk';
comment on column agent.embedding_setting.overlap_chars is 'Characters that a chunk repeats of the one before';
