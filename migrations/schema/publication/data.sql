select agent_internal.republish();
