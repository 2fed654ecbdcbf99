-- role: approver
-- parameters: run, step, prompt, reply, arguments, newest_version
-- Go on from a step of a run, in a run of its own; returns its ID.  What is empty is as it was.
select agent.fork(%(run)s::bigint, %(step)s::integer, prompt => nullif(%(prompt)s, ''), reply => to_jsonb(nullif(%(reply)s, '')),
                  arguments => nullif(%(arguments)s, '')::jsonb, newest_version => %(newest_version)s::boolean)::text
