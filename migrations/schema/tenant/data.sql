insert into agent.tenant (name, display_name) values ('default', 'Default');
