-- What a reason says of each failure of its kind: JSON, quoted texts, addresses and words with digits are left out.
--
-- The result of a result is the same.
create or replace function agent_internal.without_values(_reason text)
    returns text
    language sql
    immutable
    return regexp_replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace(left(_reason, 1000),
        '[{[].*[]}]', '{...}'),
        '"[^"]*"|`[^`]*`|(?<!\w)''[^'']*''(?!\w)|(?<==)\([^)]*\)', '"..."', 'g'),
        '[^\s"(),;:]*(://|@)([^\s"(),;]*[^\s"(),;:.])?', '...', 'g'),
        '[^\s"(),;:={}]*\d([^\s"(),;={}]*[^\s"(),;:={}.])?', '...', 'g'),
        '\.\.\.([\s,]+\.\.\.)+', '...', 'g');
comment on function agent_internal.without_values(text) is 'A reason without values, so that failures of a kind have the same';

-- Whether a failure of a version counts after an issue was resolved: *_made* and *_replaced* are when that version was.
create or replace function agent_internal.fails_again(_resolved_in text, _since timestamptz, _made timestamptz, _replaced timestamptz)
    returns boolean
    language sql
    immutable
    return case _resolved_in when 'present' then _replaced > _since is not false
                             when 'next' then _made > _since is not false
                             else true end;
comment on function agent_internal.fails_again(text, timestamptz, timestamptz, timestamptz) is 'Whether a failure counts after an issue was resolved';
