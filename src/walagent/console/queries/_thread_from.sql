       left join agent.thread thread on r.kind = 'turn' and thread.tenant = r.tenant
                 and thread.id = substring(r.ordering_key from '^(?:summary )?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$')::uuid
