-- The instant of the token since: today, a time, or how long ago.
case when %(since)s = '' then '-infinity'::timestamptz
     when %(since)s = 'today' then date_trunc('day', now())
     when %(since)s ~ '^\d{4}-' then nullif(%(since)s, '')::timestamptz
     else now() - nullif(%(since)s, '')::interval end
