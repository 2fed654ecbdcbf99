-- How far a document d is in the index.
case when d.indexed_version = d.version then 'indexed' when d.queued_version = d.version then 'queued' else 'waiting' end
