-- A new model, with the defaults; apply_model then sets what is given.
insert into agent.model (name, provider, model_id)
values (%(name)s, %(provider)s, %(model_id)s)
