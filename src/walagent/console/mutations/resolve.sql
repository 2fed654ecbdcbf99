-- role: approver
-- parameters: run, happened, note
-- Say whether a call with an unknown outcome happened.
select agent.resolve(%(run)s::bigint, %(happened)s::boolean, %(note)s)
