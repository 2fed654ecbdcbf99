-- Of each at most once an hour, whichever processes see it.
select agent_internal.notify_event(
           'problem', p.tenant, p.text, to_jsonb(p) - 'tenant',
           _key => concat_ws(' ', 'problem', p.kind, p.subject, pg_catalog.to_char(now() at time zone 'UTC', 'YYYY-MM-DD HH24')))
  from jsonb_to_recordset(%(problems)s) as p(kind text, tenant text, subject text, text text, detail text, fix text)
