-- Which code of users runs when relations are planned, read or written, and whose it is.
--
-- Args: _relations: with them, all partitions and children, and what views and policies read, down to the bottom.
--
-- Returns: relation: where the code stands; moment: the earliest at which it runs: planned, read or written; function:
-- NULL for an expression of the relation's owner, such as a policy, which can call PostgreSQL's own functions; owner: of
-- the function or expression; trusted: whether that is a superuser or walagent itself.
--
-- PostgreSQL records what each object needs in pg_depend, for its own DROP, so no tree is read here.  What PostgreSQL
-- itself has is not recorded, and is not code of users.  Nor is what a function of text names: its owner is named already.
--
-- store/relations/table_code.py executes the body, also in databases without this schema.
create or replace function agent_internal.code_of(_relations oid[])
    returns table (relation text, moment text, place text, function text, owner name, trusted boolean, owns_relation boolean)
    language sql
    stable
    set search_path = pg_catalog, pg_temp
    set jit = off
as $$
    with recursive reached (oid) as (
        select unnest(_relations)
         union
        select n.oid
          from reached r
               cross join lateral (
                   select i.inhrelid from pg_inherits i where i.inhparent = r.oid
                    union all
                   select d.refobjid
                     from (select 'pg_rewrite'::regclass, w.oid from pg_rewrite w where w.ev_class = r.oid and w.ev_type = '1'
                            union all
                           select 'pg_policy'::regclass, p.oid from pg_policy p where p.polrelid = r.oid) as s (classid, objid)
                          join pg_depend d on d.classid = s.classid and d.objid = s.objid
                                          and d.refclassid = 'pg_class'::regclass
                    where d.refobjid >= 16384) as n (oid)
    ), sites (relation, moment, place, classid, objid, is_column, is_expression) as (
        select r.oid, s.moment, s.place, s.classid, s.objid, s.is_column, s.is_expression
          from reached r
               cross join lateral (
                   select 'planned', format('index %s', i.indexrelid::regclass), 'pg_class'::regclass, i.indexrelid, false, false
                     from pg_index i where i.indrelid = r.oid
                    union all
                   select 'planned', format('statistics %I', s.stxname), 'pg_statistic_ext'::regclass, s.oid, false, false
                     from pg_statistic_ext s where s.stxrelid = r.oid
                    union all
                   select 'planned', 'the partition key', 'pg_class'::regclass, p.partrelid, false, false
                     from pg_partitioned_table p where p.partrelid = r.oid
                    union all
                   -- A child's is evaluated by the planner, which leaves out children.
                   select 'planned', format('constraint %I', c.conname), 'pg_constraint'::regclass, c.oid, false, false
                     from pg_constraint c where c.conrelid = r.oid and c.contype in ('c', 'x')
                    union all
                   select case p.polcmd when 'r' then 'read' when '*' then 'read' else 'written' end,
                          format('policy %I', p.polname), 'pg_policy'::regclass, p.oid, false, true
                     from pg_policy p where p.polrelid = r.oid
                    union all
                   select 'written', format('constraint %I', c.conname), 'pg_constraint'::regclass, c.oid, false, true
                     from pg_constraint c where c.conrelid = r.oid and c.contype = 'c'
                    union all
                   select case a.attgenerated when 'v' then 'read' else 'written' end,
                          format(case a.attgenerated when '' then 'the default of column %I' else 'generated column %I' end, a.attname),
                          'pg_attrdef'::regclass, d.oid, false, a.attgenerated = ''
                     from pg_attrdef d join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
                    where d.adrelid = r.oid
                    union all
                   select 'written', format('trigger %I', t.tgname), 'pg_trigger'::regclass, t.oid, false, false
                     from pg_trigger t where t.tgrelid = r.oid and not t.tgisinternal and t.tgenabled <> 'D'
                    union all
                   select case w.ev_type when '1' then 'read' else 'written' end,
                          case w.ev_type when '1' then 'the view''s query' else format('rule %I', w.rulename) end,
                          'pg_rewrite'::regclass, w.oid, false, true
                     from pg_rewrite w where w.ev_class = r.oid
                    union all
                   select 'read', format('the type of column %I', a.attname), 'pg_type'::regclass, a.atttypid, true, false
                     from pg_attribute a where a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped and a.atttypid >= 16384
               ) as s (moment, place, classid, objid, is_column, is_expression)
    ), needed (classid, objid, is_root, relation, moment, place) as (
        select s.classid::oid, s.objid, true, s.relation, s.moment, s.place from sites s
         union
        select p.classid, p.objid, false, n.relation, n.moment, n.place
          from needed n
               cross join lateral (
                   -- An operator class brings the functions of its family, a domain its checks.
                   select d.refclassid, d.refobjid
                     from pg_depend d
                    where d.classid = n.classid and d.objid = n.objid
                      and d.refclassid in ('pg_proc'::regclass, 'pg_operator'::regclass, 'pg_opclass'::regclass,
                                           'pg_opfamily'::regclass, 'pg_type'::regclass)
                      -- Of a table, what its columns need is counted with them.
                      and (n.is_root or n.classid <> 'pg_class'::regclass) and (d.objsubid = 0 or n.classid <> 'pg_class'::regclass)
                    union all
                   select 'pg_opfamily'::regclass, o.opcfamily from pg_opclass o
                    where n.classid = 'pg_opclass'::regclass and o.oid = n.objid
                    union all
                   select 'pg_proc'::regclass, a.amproc from pg_amproc a
                    where n.classid = 'pg_opfamily'::regclass and a.amprocfamily = n.objid
                    union all
                   select 'pg_operator'::regclass, a.amopopr from pg_amop a
                    where n.classid = 'pg_opfamily'::regclass and a.amopfamily = n.objid
                    union all
                   select 'pg_proc'::regclass, o.oprcode from pg_operator o
                    where n.classid = 'pg_operator'::regclass and o.oid = n.objid
                    union all
                   select 'pg_opclass'::regclass, o.oid from pg_opclass o
                    where n.classid = 'pg_type'::regclass and o.opcintype = n.objid and o.opcdefault
                    union all
                   select 'pg_constraint'::regclass, c.oid from pg_constraint c
                    where n.classid = 'pg_type'::regclass and c.contypid = n.objid
                    union all
                   select 'pg_type'::regclass, a.atttypid
                     from pg_type t join pg_attribute a on a.attrelid = t.typrelid and a.attnum > 0
                    where n.classid = 'pg_type'::regclass and t.oid = n.objid and t.typtype = 'c'
               ) as p (classid, objid)
         where p.objid >= 16384
    ), found (relation, moment, place, function, owner) as (
        select n.relation, n.moment, n.place, (pg_identify_object('pg_proc'::regclass, p.oid, 0)).identity, p.proowner
          from needed n join pg_proc p on n.classid = 'pg_proc'::regclass and p.oid = n.objid
         where p.pronamespace not in (select oid from pg_namespace where nspname in ('agent', 'agent_internal', 'agent_signed'))
         union all
        select s.relation, s.moment, s.place, null, c.relowner
          from sites s join pg_class c on c.oid = s.relation
         where s.is_expression
    )
    select (pg_identify_object('pg_class'::regclass, f.relation, 0)).identity, f.moment, f.place, f.function, o.rolname,
           o.rolsuper or o.oid in (select nspowner from pg_namespace where nspname = 'agent'), f.owner = c.relowner
      from found f join pg_roles o on o.oid = f.owner join pg_class c on c.oid = f.relation
     group by 1, 2, 3, 4, 5, 6, 7
     order by case f.moment when 'planned' then 0 when 'read' then 1 else 2 end, 1, 3, 4
$$;
comment on function agent_internal.code_of(oid[]) is 'Which code of users runs when relations are planned, read or written, and whose it is';
