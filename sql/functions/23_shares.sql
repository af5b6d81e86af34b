-- owner: jf_sys
-- Shares: how many jobs each tenant of a turn may start. A visit is worth a tenant's weight; what a claim cannot give of
-- it the tenant is owed by the next.

create or replace function jobforge.share_out(
  p_tenants uuid[], p_weighted boolean, p_everybody boolean, p_limit integer, p_owed integer,
  out quanta integer[], out turn uuid, out owed integer)
language plpgsql stable
as $$
declare
  v_weights integer[];
  v_rounds integer;
  v_left integer;
  v_credit integer;
begin
  if p_weighted then
    v_weights := array(select t.weight from unnest(p_tenants) with ordinality as u(id, o)
                       join jobforge.tenants t on t.id = u.id order by u.o);
  else
    v_weights := array_fill(1, array[cardinality(p_tenants)]);
  end if;
  -- As many whole rounds as the claim has room for, then the beginning of one more.
  v_rounds := p_limit / (select sum(w) from unnest(v_weights) as w);
  quanta := array(select w * v_rounds from unnest(v_weights) with ordinality as u(w, o) order by o);
  v_left := p_limit - (select sum(q) from unnest(quanta) as q);
  turn := p_tenants[case when p_everybody then 1 else cardinality(p_tenants) end];
  owed := 0;
  if v_rounds > 0 and not p_everybody then
    return; -- what is left goes to the tenants that come next
  end if;
  for i in 1..cardinality(p_tenants) loop
    exit when v_left = 0;
    v_credit := case when i = 1 and p_owed > 0 then least(p_owed, v_weights[1]) else v_weights[i] end;
    quanta[i] := quanta[i] + least(v_credit, v_left);
    turn := p_tenants[i];
    owed := greatest(v_credit - v_left, 0);
    v_left := greatest(v_left - v_credit, 0);
  end loop;
end
$$;
comment on function jobforge.share_out(uuid[], boolean, boolean, integer, integer) is
  'Each tenant''s quantum by its weight, the tenant at which the next claim begins, and what that one is still owed '
  '(nothing: the next claim begins after it).';
