insert into agent_internal.secret default values;

insert into agent_internal.lock (name) values ('budget');

insert into agent_internal.database (system_id, oid) select system_id, oid from agent_internal.present_database();
