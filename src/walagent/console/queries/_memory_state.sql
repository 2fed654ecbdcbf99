-- What became of a memory m: only live and disputed ones are recalled.
case when m.superseded_by is not null then 'replaced'
     when m.retracted_at is not null then 'withdrawn'
     when m.expires_at <= agent_internal.now() then 'expired'
     when m.disputed then 'disputed'
     else 'live' end
