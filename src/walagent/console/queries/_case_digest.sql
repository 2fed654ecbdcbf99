-- The digest of what a person reads before a label: both outcomes of case p, and the label that case d of the dataset has now.
encode(sha256(convert_to(jsonb_build_array(p.recorded, p.candidate, d.expected)::text, 'utf8')), 'hex')
