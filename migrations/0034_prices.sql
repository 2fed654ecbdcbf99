-- Prices of current models, where none is set; docs/models.md has their sources.
--
-- A price that somebody has set is kept.

create function pg_temp.set_price(_names text[], _input numeric, _cached numeric, _written numeric, _output numeric, _above integer default null,
                                  _times_input numeric default 2, _times_output numeric default 1.5)
    returns void
    language sql
as $$
    update agent.model
       set input_price = _input, cached_input_price = _cached, cache_write_price = _written, output_price = _output,
           price_bands = case when _above is null then '[]' else jsonb_build_array(jsonb_build_object(
               'above', _above, 'input_price', _input * _times_input, 'cached_input_price', _cached * _times_input,
               'cache_write_price', _written * _times_input, 'output_price', _output * _times_output)) end
     where name = any (_names) and num_nonnulls(input_price, cached_input_price, cache_write_price, output_price) = 0
$$;

select pg_temp.set_price('{claude-haiku-5-5}', 0.1, 0.01, 0.125, 0.5, 100000, 5, 5);
-- Above 272,000 tokens of input, input costs twice and output 1.5 times as much, for the whole request.
select pg_temp.set_price('{gpt-6.2-astra}', 8, 0.4, 10, 40, 272000);
select pg_temp.set_price('{gpt-6.2-sol,gpt-6.1-sol}', 2, 0.1, 2.5, 10, 272000);
select pg_temp.set_price('{gpt-6.1-terra}', 1, 0.05, 1.25, 5, 272000);
select pg_temp.set_price('{gpt-6-astra}', 10, 1, 12.5, 50, 272000);
select pg_temp.set_price('{gpt-6-sol}', 2, 0.2, 2.5, 10, 272000);
select pg_temp.set_price('{gpt-6-luna}', 0.1, 0.01, 0.125, 0.5, 272000);
select pg_temp.set_price('{gpt-5.6-sol}', 5, 0.5, 6.25, 30, 272000);
select pg_temp.set_price('{gpt-5.6-terra}', 2, 0.2, 2.5, 12, 272000);
select pg_temp.set_price('{gpt-5.6-luna}', 0.2, 0.02, 0.25, 1.2, 272000);
select pg_temp.set_price('{gpt-5.5}', 5, 0.5, 5, 30, 272000);
select pg_temp.set_price('{gpt-5.4}', 2.5, 0.25, 2.5, 15, 272000);
select pg_temp.set_price('{gpt-5.4-mini}', 0.75, 0.075, 0.75, 4.5, 272000);
select pg_temp.set_price('{gpt-5.4-nano}', 0.2, 0.02, 0.2, 1.25, 272000);
drop function pg_temp.set_price;
update agent.model set cached_input_price = 0.1
 where name = 'claude-sonnet-5-5' and cached_input_price is null and input_price = 2;

-- Those that reason unless a parameter prevents it, as walagent calls them.
update agent.model set reasons = true
 where name ~ '^(claude-fable-5|claude-(opus|sonnet|haiku)-5|o[134]|gpt-5(-mini|-nano)?$|gpt-5\.5|gpt-6(\.[12])?-(astra|terra)|gpt-6\.[12]-sol|gemini-2\.5|deepseek-r1)';

update agent.model m set cache_min_tokens = c.tokens
  from (values ('^claude-(fable-5|opus-5)$', 512),
               ('^claude-(opus-4-8|sonnet-5$|sonnet-4-6|sonnet-4-5|3-5-sonnet)', 1024),
               ('^claude-(opus-4-7|3-5-haiku)', 2048),
               ('^claude-(opus-4-6|opus-4-5|haiku-4-5)', 4096),
               ('^(gpt-|o[134])', 1024)) as c (pattern, tokens)
 where m.name ~ c.pattern and m.provider in ('anthropic', 'openai');
