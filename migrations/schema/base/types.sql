create schema if not exists agent;

create schema agent_internal;

create schema agent_call;

create schema agent_signed;
