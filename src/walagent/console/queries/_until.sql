-- The instant of the token until: a time, or how long ago.
case when %(until)s = '' then 'infinity'::timestamptz
     when %(until)s ~ '^\d{4}-' then nullif(%(until)s, '')::timestamptz
     else now() - nullif(%(until)s, '')::interval end
