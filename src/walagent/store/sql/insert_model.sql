-- Insert a model with defaults; apply_model then sets the given fields.
insert into agent.model (name, provider, model_id)
values (%(name)s, %(provider)s, %(model_id)s)
