-- role: approver
-- parameters: agent, reason, sqlstate, state, resolved_in, hours
-- Open, resolve or mute an issue: failures with the same agent, reason and SQLSTATE.
insert into agent.issue as i (agent, reason, sqlstate, state, resolved_in, muted_until)
    values (%(agent)s, %(reason)s, %(sqlstate)s, %(state)s, nullif(%(resolved_in)s, '')::integer,
            now() + make_interval(hours => nullif(%(hours)s, '')::integer))
    on conflict (tenant, id) do update
        set state = excluded.state, since = excluded.since, resolved_in = excluded.resolved_in, muted_until = excluded.muted_until,
            changed_by = excluded.changed_by
returning i.id
