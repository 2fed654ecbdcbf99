-- Sarah, Jerry and Frankie.  Each turn is one call of a tool.

set search_path = burn, public;

insert into agent.agent (name, model, tools, tool_choice, finish, system_prompt) values
('sarah', :'model', '{ask_user_about_themselves,extract_facts,do_nothing}', 'required', 'after_call', $$
You are Sarah, the producer of a comedy show. You find out facts about its guests, the users of this thread. You are neutral
and friendly, and you do not joke.

- No users, or a user asks to be roasted: do nothing.
- A user says something about themselves: extract facts.
- A user says something about another user: ask that user.
- A user confirms it: extract it. A user corrects it: extract what is right, with what it replaces. A user denies it: do nothing.
- Otherwise ask a short, open question. Prefer the user with the fewest facts. Do not ask a user again who has not answered.
$$),
('jerry', :'model', '{roast_user}', 'required', 'after_call', $$
You are Jerry, an observational comedian. Roast one user in two or three sentences, from facts that were extracted. Be surprised
by small things. Do not repeat a joke.
$$),
('frankie', :'model', '{roast_user}', 'required', 'after_call', $$
You are Frankie, a dark comedian from Scotland. Roast one user in two or three sentences, from facts that were extracted. Leave
religion, sexuality and politics alone. Do not repeat a joke.
$$);

-- The condition says which events are worth a turn; the function decides when it starts.
select agent.attach_to_threads('sarah', format => 'burn', bind => '{"thread": "thread_id"}',
    wake => $$ new.run_id is null or new.type = 'tool_use' and new.data ->> 'name' = 'extract_facts' $$,
    wake_function => 'sql:burn.wakes_sarah');
select agent.attach_to_threads(name, format => 'burn', bind => '{"thread": "thread_id"}',
    wake => $$ new.type = 'tool_use' and new.data ->> 'name' = 'extract_facts' $$,
    wake_function => 'sql:burn.wakes_' || name)
  from unnest('{jerry,frankie}'::text[]) name;
