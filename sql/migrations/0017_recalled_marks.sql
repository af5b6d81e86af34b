-- owner: jf_owner
-- A worker that starts knows no positions, and would walk past everything that is gone and cannot be vacuumed yet.

alter table jobforge.sweeps
  add column marks jsonb,
  add constraint sweeps_marks_are_an_array check (jsonb_typeof(marks) = 'array');
comment on column jobforge.sweeps.marks is
  'The positions of the queue from which the last sweep walked, for who has none; not those of a sweep from the beginning.';
