-- owner: jf_sys
-- Shares: how many jobs each tenant of a turn may start. A visit is worth a tenant's weight; what a claim cannot give of
-- it the tenant is owed by the next.

create or replace function jobforge.share_out(p_turn jobforge.claim_turn, p_weighted boolean, p_limit integer)
returns jobforge.claim_turn
language plpgsql stable
as $$
declare
  v_turn jobforge.claim_turn := p_turn;
  v_weights integer[] := jobforge.weights(p_turn.tenants, p_weighted);
  -- Where everybody comes: as many whole rounds as the claim has room for, then the beginning of one more. Else a visit is
  -- worth so much that about 64 tenants use the claim up, and the next claim goes on where this one ends.
  v_rounds integer := case when p_turn.everybody then p_limit / (select sum(w) from unnest(v_weights) as w) else 0 end;
  v_visit integer := case when p_turn.everybody then 1 else greatest(p_limit / 64, 1) end;
  v_left integer;
  v_credit integer;
begin
  v_turn.quanta := array(select w * v_rounds from unnest(v_weights) with ordinality as u(w, o) order by o);
  v_left := p_limit - (select sum(q) from unnest(v_turn.quanta) as q);
  -- The next claim begins one further, so that what is left over goes round.
  v_turn.at := p_turn.tenants[1];
  v_turn.owed := 0;
  for i in 1..cardinality(p_turn.tenants) loop
    if v_left = 0 then
      -- Who gets nothing of this claim is not in its turn.
      if v_rounds = 0 then
        v_turn.tenants := v_turn.tenants[:i - 1];
        v_turn.quanta := v_turn.quanta[:i - 1];
        v_turn.everybody := false;
      end if;
      exit;
    end if;
    v_credit := v_weights[i] * v_visit;
    if p_turn.at = p_turn.tenants[i] and p_turn.owed > 0 then
      v_credit := least(p_turn.owed, v_credit);
    end if;
    v_turn.quanta[i] := v_turn.quanta[i] + least(v_credit, v_left);
    v_turn.at := p_turn.tenants[i];
    v_turn.owed := greatest(v_credit - v_left, 0);
    v_left := greatest(v_left - v_credit, 0);
  end loop;
  return v_turn;
end
$$;
comment on function jobforge.share_out(jobforge.claim_turn, boolean, integer) is
  'Each tenant''s quantum by its weight, the tenant at which the next claim begins, and what that one is still owed '
  '(nothing: the next claim begins after it).';

create or replace function jobforge.share_left(
  p_turn jobforge.claim_turn, p_weighted boolean, p_hungry uuid[], p_left integer) returns jobforge.claim_turn
language plpgsql stable
as $$
declare
  v_turn jobforge.claim_turn := p_turn;
  v_more jobforge.claim_turn;
begin
  v_turn.tenants := '{}';
  v_turn.hungry := null;
  if p_left > 0 and p_turn.everybody and cardinality(p_hungry) > 0 then
    v_more.tenants := p_hungry;
    v_more.everybody := true;
    v_more := jobforge.share_out(v_more, p_weighted, p_left);
    v_turn.tenants := v_more.tenants;
    v_turn.quanta := v_more.quanta;
  end if;
  return v_turn;
end
$$;
comment on function jobforge.share_left(jobforge.claim_turn, boolean, uuid[], integer) is
  'Shares what a claim has left among the hungry; at whom the next claim begins stays.';

create or replace function jobforge.weights(p_tenants uuid[], p_weighted boolean) returns integer[]
language plpgsql stable
as $$
begin
  if not p_weighted then
    return array_fill(1, array[cardinality(p_tenants)]);
  end if;
  return array(select coalesce(t.weight, 1) from unnest(p_tenants) with ordinality as u(id, o)
               left join jobforge.tenants t on t.id = u.id order by u.o);
end
$$;
comment on function jobforge.weights(uuid[], boolean) is 'The tenants'' weights, in their order.';
