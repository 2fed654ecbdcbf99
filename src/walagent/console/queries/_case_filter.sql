-- What of an evaluation is shown: cases x.
case %(only)s when 'differs' then x.agrees is false
              when 'right' then x.is_right is true
              when 'wrong' then x.is_right is false
              when 'better' then x.is_right is true and x.was_right is false
              when 'worse' then x.is_right is false and x.was_right is true
              when 'unlabelled' then x.is_right is null
              when 'failed' then x.candidate ->> 'state' is distinct from 'succeeded'
              else true end
