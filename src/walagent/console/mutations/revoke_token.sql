-- parameters: id
-- Revoke an own token or session; an admin revokes those of all.
select agent.revoke_token(%(id)s::uuid)
