-- role: approver
-- parameters: agent, reason, sqlstate, state, resolved_in, hours
-- Open, resolve or mute an issue; resolved_in: present or next; hours: how long it is muted.
select agent.decide_issue(%(agent)s, %(reason)s, %(sqlstate)s, %(state)s, nullif(%(resolved_in)s, ''),
                          make_interval(hours => nullif(%(hours)s, '')::integer))
