select agent_internal.announce_problems(%(problems)s)
