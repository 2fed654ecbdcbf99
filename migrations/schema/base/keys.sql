-- Keys of JSON that people write.  An unknown one is refused: nothing would read it, and its author would not notice.

-- Raises WA010 if an object has a key that is not among *_known*.
create or replace function agent_internal.check_keys(_of text, _object jsonb, _known text[])
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _key text;
begin
    if jsonb_typeof(_object) is distinct from 'object' then
        raise exception '%: expected a JSON object', _of using errcode = 'WA010';
    end if;
    select k into _key from jsonb_object_keys(_object) k where k <> all (_known) order by k limit 1;
    if found then
        raise exception '%: unknown key "%"', _of, _key using errcode = 'WA010', hint = agent_internal.suggest(_key, _known);
    end if;
end;
$$;

-- Parameters of models go into the body of a request, and each provider has its own.  What is almost a known one is a
-- misspelling, which many servers ignore.
create or replace function agent_internal.check_parameters()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _known constant text[] := '{temperature,max_tokens,min_tokens,max_completion_tokens,max_output_tokens,presence_penalty,frequency_penalty,
        repetition_penalty,repeat_penalty,length_penalty,reasoning_effort,reasoning,response_format,service_tier,parallel_tool_calls,
        logit_bias,logprobs,top_logprobs,prompt_logprobs,verbosity,metadata,thinking,effort,stop_sequences,stream_options,tool_choice,
        cache_control,prompt_cache_key,chat_template_kwargs,output_config,safety_identifier,mirostat_tau,mirostat_eta,typical_p,
        context_management,threshold,margin,fallback,seed,stop,script,dimensions}';
    _key  text;
    _near text;
begin
    select k, n into _key, _near
      from jsonb_object_keys(new.parameters) k cross join unnest(_known) n
     where k <> all (_known) and k !~ '^[a-z]+[A-Z]' and length(n) >= 8
       and abs(length(k) - length(n)) <= 2 and agent_internal.edit_distance(lower(k), n) <= 2
     order by k, agent_internal.edit_distance(lower(k), n) limit 1;
    if found then
        raise exception '% "%": parameters: unknown key "%"', tg_table_name, new.name, _key
            using errcode = 'WA010', hint = format('Did you mean "%s"? Other keys are sent to the provider as they are.', _near);
    end if;
    return new;
end;
$$;

-- Raises WA010 for what is no JSON Schema: a keyword or a type that does not exist.  A keyword that begins with x- is the author's.
--
-- Source: JSON Schema draft 4 to 2020-12, and the keywords that OpenAPI adds.
create or replace function agent_internal.check_json_schema(_of text, _schema jsonb)
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _known constant text[] := '{$schema,$id,$ref,$anchor,$dynamicRef,$dynamicAnchor,$recursiveRef,$recursiveAnchor,$vocabulary,$comment,$defs,
        id,definitions,title,description,default,deprecated,readOnly,writeOnly,examples,type,enum,const,
        multipleOf,maximum,exclusiveMaximum,minimum,exclusiveMinimum,maxLength,minLength,pattern,format,
        contentEncoding,contentMediaType,contentSchema,items,prefixItems,additionalItems,unevaluatedItems,contains,maxContains,minContains,
        maxItems,minItems,uniqueItems,properties,patternProperties,additionalProperties,unevaluatedProperties,propertyNames,
        maxProperties,minProperties,required,dependencies,dependentRequired,dependentSchemas,allOf,anyOf,oneOf,not,if,then,else,
        nullable,discriminator,example,externalDocs,xml}';
    _types constant text[] := '{array,boolean,integer,"null",number,object,string}';
    _key   text;
    _value jsonb;
    _word  text;
begin
    if jsonb_typeof(_schema) = 'boolean' then
        return;
    elsif jsonb_typeof(_schema) <> 'object' then
        raise exception '%: expected a JSON Schema: an object, true or false', _of using errcode = 'WA010';
    end if;
    for _key, _value in select * from jsonb_each(_schema) loop
        if _key <> all (_known) and _key !~ '^x-' then
            raise exception '%: unknown keyword "%" of JSON Schema', _of, _key
                using errcode = 'WA010', hint = agent_internal.suggest(_key, _known) || ' A keyword that begins with x- is yours.';
        elsif _key = 'type' then
            select w #>> '{}' into _word
              from jsonb_array_elements(case jsonb_typeof(_value) when 'array' then _value else jsonb_build_array(_value) end) w
             where jsonb_typeof(w) <> 'string' or w #>> '{}' <> all (_types) limit 1;
            if found then
                raise exception '%: invalid type "%"', _of, _word using errcode = 'WA010', hint = agent_internal.suggest(_word, _types);
            end if;
        elsif _key = 'required' and (jsonb_typeof(_value) <> 'array' or jsonb_path_exists(_value, 'strict $[*] ? (@.type() != "string")')) then
            raise exception '%: required must be a list of names', _of using errcode = 'WA010', hint = 'It stands beside properties.';
        elsif _key = 'required' and _schema -> 'additionalProperties' = 'false' and not _schema ?| '{patternProperties,$ref,allOf,anyOf,oneOf}' then
            select w into _word from jsonb_array_elements_text(_value) w where not coalesce(_schema -> 'properties' ? w, false) limit 1;
            if found then
                raise exception '%: required "%" is not among the properties', _of, _word
                    using errcode = 'WA010', hint = agent_internal.suggest(_word, array(select jsonb_object_keys(_schema -> 'properties')));
            end if;
        elsif _key = any ('{properties,patternProperties,$defs,definitions,dependentSchemas}') then
            if jsonb_typeof(_value) <> 'object' then
                raise exception '%: % must be an object of schemas', _of, _key using errcode = 'WA010';
            end if;
            perform agent_internal.check_json_schema(format('%s.%s.%s', _of, _key, p.key), p.value) from jsonb_each(_value) p;
        elsif _key = any ('{allOf,anyOf,oneOf,prefixItems}') and jsonb_typeof(_value) <> 'array' then
            raise exception '%: % must be a list of schemas', _of, _key using errcode = 'WA010';
        elsif _key = any ('{allOf,anyOf,oneOf,prefixItems}') or _key = 'items' and jsonb_typeof(_value) = 'array' then
            perform agent_internal.check_json_schema(format('%s.%s', _of, _key), s) from jsonb_array_elements(_value) s;
        elsif _key = any ('{items,additionalItems,unevaluatedItems,contains,additionalProperties,unevaluatedProperties,propertyNames,not,if,then,else,contentSchema}') then
            perform agent_internal.check_json_schema(format('%s.%s', _of, _key), _value);
        end if;
    end loop;
end;
$$;
