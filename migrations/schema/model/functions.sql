-- Reject what the provider of the model takes in no call, and limits within which none is possible: a run would fail before
-- its first.
--
-- The same bound as in walagent.models.cost, without the row: one token per byte of the request, and 256 tokens of
-- output.
create or replace function agent_internal.check_model(_agent agent.agent, _tools jsonb)
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _model agent.model;
    _bytes bigint;
    _least numeric;
begin
    _model := agent_internal.model_of(_agent.tenant, _agent.model);
    if _model.provider = 'openai' and jsonb_array_length(_tools) > 128 then
        raise exception 'agent "%" has % tools, and servers of Chat Completions take 128', _agent.name, jsonb_array_length(_tools)
            using errcode = 'WA011', hint = 'Give the agent fewer tools, or use several agents.';
    end if;
    if _agent.max_cost is null or _model.name is null then
        return;
    elsif _model.input_price is null or _model.output_price is null then
        raise exception 'max_cost requires a model with prices, and model "%" has none', _model.name
            using errcode = 'WA014',
                  hint = 'Set input_price and output_price of the model, or limit the run by max_tokens.';
    end if;
    select 1500 + octet_length(_agent.system_prompt)
           + coalesce(sum(octet_length(coalesce(t ->> 'description', ''))
                          + octet_length(replace(replace((t -> 'input_schema')::text, ': ', ':'), ', ', ','))), 0) into _bytes
      from jsonb_array_elements(_tools) t;
    _least := (least(_bytes, _model.context_window)
                   * greatest(_model.input_price, _model.cached_input_price, _model.cache_write_price)
               + least(256, _agent.max_output_tokens, _model.max_output_tokens) * _model.output_price) / 1000000;
    if _least > _agent.max_cost then
        raise exception 'max_cost of % US dollars is too low: one call of model "%" can cost %',
            trim_scale(_agent.max_cost), _model.name, trim_scale(round(_least, 6))
            using errcode = 'WA014',
                  hint = format('Use a max_cost of at least %s, or a less expensive model.', trim_scale(round(2 * _least, 6)));
    end if;
end;
$$;

-- Requeue the runs that wait because their model has no price.
create or replace function agent_internal.wake_priced()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    update agent.run set next_attempt_at = agent_internal.now()
     where id in (select r.id from agent.run r
                   where r.state = 'waiting_retry' and r.error ->> 'unpriced' = new.name
                     and (new.tenant is null or r.tenant = new.tenant)
                   order by r.id for no key update skip locked);
    perform pg_notify('walagent_runs', '');
    return null;
end;
$$;

-- A base URL that no request could be sent to.  It is not shown: it can hold a password.
create or replace function agent_internal.check_base_url()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on
as $$
begin
    if new.base_url !~ '^https?://([^/?#[:space:]]*@)?(\[[0-9A-Fa-f:.]+\]|[^/?#@:[:space:]]+)(:[0-9]{1,5})?(/[^[:space:]]*)?$' then
        raise exception 'model "%": base_url must begin with http:// or https:// and a host', new.name
            using errcode = 'WA014', hint = 'For example http://localhost:11434/v1 or https://api.example.com/v1.';
    end if;
    return null;
end;
$$;

-- The model of a name for a tenant: its own, or the shared one.
create or replace function agent_internal.model_of(_tenant text, _name text)
    returns agent.model
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select m from agent.model m
     where m.name = _name and m.scope in ('', _tenant)
     order by m.scope desc limit 1
$$;
comment on function agent_internal.model_of(text, text) is 'The model of a name for a tenant: its own, or the shared one';

-- A credential belongs to one tenant, or to the shared models: no tenant's calls are paid with the key of another.
create or replace function agent_internal.check_credential()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (select from agent.model m where m.credential = new.credential and m.scope <> coalesce(new.tenant, '')) then
        raise exception 'credential "%" of model "%" is used by models of another tenant, or by shared ones', new.credential, new.name
            using errcode = 'WA014', hint = 'Use another name, of a variable or file with a key of its own.';
    end if;
    return null;
end;
$$;

-- Whether a model makes embeddings and answers nothing.  The embedded one does both.
create or replace function agent_internal.only_embeds(_model agent.model)
    returns boolean
    language sql
    immutable
    set search_path = pg_catalog, pg_temp
as $$ select (_model).dimensions is not null and (_model).provider <> 'embedded' $$;

-- Raises WA014 if a tenant has no enabled model of the name, or if it makes embeddings only and must do anything else.
--
-- Args: _key: what names it, with a colon; '': nothing else could.  _embeds: whether it is asked for embeddings.
create or replace function agent_internal.check_model(_name text, _tenant text, _key text default '', _embeds boolean default false)
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _model constant agent.model := agent_internal.model_of(_tenant, _name);
begin
    if _name is null then
        raise exception '%expected the name of a model, found NULL', _key using errcode = 'WA014', hint = 'walagent agents models lists them.';
    elsif _model.enabled is not true then
        raise exception '%model "%" does not exist or is not enabled', _key, _name
            using errcode = 'WA014',
                  hint = agent_internal.suggest(_name, (select array_agg(distinct name) from agent.model
                                                         where enabled and scope in ('', _tenant)))
                         || ' walagent agents models lists them.';
    elsif agent_internal.only_embeds(_model) and not _embeds then
        raise exception '%model "%" makes embeddings, and answers nothing', _key, _name
            using errcode = 'WA014', hint = 'Use a model without dimensions: walagent agents models lists them. agent.embed() uses those with dimensions.';
    end if;
end;
$$;

-- Raises WA014 if a tenant has no enabled model of the name to fall back to, or if it is the first model.
create or replace function agent_internal.check_fallback(_model text, _fallback text, _tenant text)
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    if _fallback = _model then
        raise exception 'fallback "%" is the model itself', _fallback
            using errcode = 'WA014', hint = 'Name another model, of another provider if possible.';
    end if;
    perform agent_internal.check_model(_fallback, _tenant, 'fallback: ');
end;
$$;

-- The models of a cascade, in their order, with their thresholds; NULL: none is given.
create or replace function agent_internal.stages(_cascade text[])
    returns table (number bigint, model text, threshold text)
    language sql
    immutable
    set search_path = pg_catalog, pg_temp
as $$
    select n, btrim(regexp_replace(c, '>[^>]*$', '')), btrim(substring(c from '>([^>]*)$'))
      from unnest(_cascade) with ordinality as x (c, n)
$$;

-- Raises WA014 for a cascade in which a model does not exist or is named twice, or a threshold is no number.
create or replace function agent_internal.check_cascade(_cascade text[], _model text, _fallback text, _tenant text)
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _stage record;
    _provider text;
begin
    for _stage in select s.* from agent_internal.stages(_cascade) s order by s.number loop
        perform agent_internal.check_model(_stage.model, _tenant, 'cascade: ');
        if _stage.model in (_model, _fallback) then
            raise exception 'cascade: model "%" is the % itself', _stage.model, case _stage.model when _model then 'model' else 'fallback' end
                using errcode = 'WA014', hint = 'Name the models that are asked before it, the least expensive first.';
        elsif exists (select from agent_internal.stages(_cascade) s where s.model = _stage.model and s.number < _stage.number) then
            raise exception 'cascade: model "%" is named twice', _stage.model
                using errcode = 'WA014', hint = 'A model is asked once: name it once.';
        end if;
        _provider := (agent_internal.model_of(_tenant, _stage.model)).provider;
        if _stage.threshold is not null and _provider <> 'embedded' then
            raise exception 'cascade: model "%" of provider "%" has no threshold', _stage.model, _provider
                using errcode = 'WA014', hint = format('Remove ">%s": this model says itself whether it is sure.', _stage.threshold);
        elsif not coalesce(_stage.threshold ~ '^(0([.][0-9]+)?|1([.]0+)?|[.][0-9]+)$', true) then
            raise exception 'cascade: invalid threshold "%" of model "%"', _stage.threshold, _stage.model
                using errcode = 'WA014', hint = format('Use a number from 0 to 1: %s>0.6.', _stage.model);
        end if;
    end loop;
end;
$$;

-- Reject a cascade that would decide what it must not, or nothing.
--
-- Of two tools, one is always above a half: where a call can do more than write its own row, the embedded model needs a margin.
--
-- Args: _stages: as agent_internal.cascade_of() returns them.
create or replace function agent_internal.check_cascade(_agent agent.agent, _tools jsonb, _stages jsonb)
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _stage record;
    _acts  text;
    _of    agent.agent := _agent;
begin
    if _agent.cascade = '{}' then
        return;
    end if;
    if _agent.reuse is not null then
        raise exception 'cascade cannot be combined with reuse' using errcode = 'WA014',
            hint = 'Remove one of them: reuse suits rows with equal texts, a cascade those with different ones.';
    elsif exists (select from jsonb_array_elements(_tools) t where t ->> 'name' = 'unsure') then
        raise exception 'cascade: agent "%" has a tool "unsure", which is how its models say that they are not sure', _agent.name
            using errcode = 'WA011', hint = 'Rename the tool.';
    end if;
    select t ->> 'name' into _acts from jsonb_array_elements(_tools) t
     where t ->> 'effect' <> 'read' and t ->> 'target' <> 'update_row' limit 1;
    for _stage in
        select g ->> 'model' as model, m.provider, g -> 'parameters' -> 'margin' as margin
          from jsonb_array_elements(_stages) with ordinality as x (g, n)
               cross join lateral agent_internal.model_of(_agent.tenant, g ->> 'model') m
         order by n
    loop
        if _acts is not null and _stage.provider = 'embedded'
           and (jsonb_typeof(_stage.margin) <> 'number' or (_stage.margin #>> '{}')::numeric < 0.8) then
            raise exception 'cascade: model "%" has margin %, and tool "%" of agent "%" writes more than its row', _stage.model, _stage.margin,
                _acts, _agent.name
                using errcode = 'WA014', hint = 'Remove margin from the parameters of model, persona and agent, or set it to at least 0.8.';
        end if;
        _of.model := _stage.model;
        perform agent_internal.check_model(_of, _tools);
    end loop;
end;
$$;

-- Reject a tier that the provider of the agent's model does not have.
create or replace function agent_internal.check_tier(_agent agent.agent)
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _model constant agent.model := agent_internal.model_of(_agent.tenant, _agent.model);
begin
    if _agent.tier = 'flex' and _model.flex_factor is null or _agent.tier = 'batch' and _model.batch_factor is null then
        raise exception 'tier: model "%" of provider "%" has no tier "%"', _model.name, _model.provider, _agent.tier
            using errcode = 'WA014',
                  hint = format('Use the tier standard, or set %s_factor of the model if its provider has the tier.', _agent.tier);
    elsif _agent.tier <> 'standard' and _agent.parameters ? 'service_tier' then
        raise exception 'tier: the parameter service_tier of agent "%" sets it, too', _agent.name
            using errcode = 'WA014', hint = 'Remove service_tier from the parameters of model, persona and agent.';
    end if;
end;
$$;

-- Reject what has no calls to put together: each run must answer with one update of its own row.
create or replace function agent_internal.check_rows_per_request(_agent agent.agent, _tools jsonb)
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _other text;
begin
    select t ->> 'name' into _other from jsonb_array_elements(_tools) t
     where (t ->> 'kind', t ->> 'target') is distinct from ('builtin', 'update_row') limit 1;
    if _other is not null or jsonb_array_length(_tools) = 0 then
        raise exception 'rows_per_request: agent "%" must have update_row as its only tool%', _agent.name, coalesce(format(', and has "%s"', _other), '')
            using errcode = 'WA011', hint = 'Set writes, and no tools: what a row says must reach no other tool of another row.';
    elsif _agent.tool_choice = 'auto' then
        raise exception 'rows_per_request: agent "%" may leave rows out, which would be asked again', _agent.name
            using errcode = 'WA011', hint = 'Set tool_choice to update_row.';
    elsif _agent.tier = 'batch' then
        raise exception 'rows_per_request: calls in the tier batch are submitted one by one'
            using errcode = 'WA014', hint = 'Use the tier standard or flex.';
    elsif (agent_internal.model_of(_agent.tenant, _agent.model)).provider = 'embedded' then
        raise exception 'rows_per_request: model "%" reads one row at a time', _agent.model
            using errcode = 'WA014', hint = 'Remove rows_per_request: calls of the embedded model cost nothing.';
    end if;
end;
$$;

create or replace function agent_internal.check_bands()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.check_keys(format('model "%s": price_bands', new.name), b,
                                      '{above,input_price,cached_input_price,cache_write_price,output_price}')
       from jsonb_array_elements(new.price_bands) b;
    return new;
end;
$$;

-- Embeddings of two models cannot be compared: what a model is stays while columns hold its embeddings.
create or replace function agent_internal.check_kept_embeddings()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _by agent.attachment;
begin
    select a.* into _by from agent.attachment a
     where a.embeds and a.definition ->> 'model' = old.name
       and (old.scope in ('', a.tenant) and (agent_internal.model_of(a.tenant, old.name)).scope = old.scope or a.tenant_column is not null)
     order by a.id limit 1;
    if found then
        raise exception 'model "%": % cannot change: column "%" of % has its embeddings, of attachment "%"', old.name,
            case when new.provider <> old.provider then 'provider' when new.model_id <> old.model_id then 'model_id' else 'dimensions' end,
            _by.writes[1], _by.relation, _by.name
            using errcode = 'WA014', hint = format('Register the other model under another name. To embed all rows by it: select agent.detach(%L), '
                                                   'and agent.embed() with its name.', _by.name);
    end if;
    return null;
end;
$$;
