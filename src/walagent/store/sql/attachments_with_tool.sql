-- The attachments, of any tenant that can be seen, whose definition has a tool over HTTP.
select a.name
  from agent.attachment a
 where exists (select from jsonb_array_elements(a.definition -> 'tools') d
                where d ->> 'name' = %(tool)s and d ->> 'kind' = 'http')
 order by 1
