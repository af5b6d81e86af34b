-- owner: jf_owner
-- Sessions of the web page: a browser shows a random id instead of an API key, and every server knows it.

-- The id is nowhere, its hash is. What a session may do is its key's, so it ends when the key does.
create table jobforge.sessions (
  id_sha256  bytea       not null,
  key_id     text        collate "C" not null,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  constraint sessions_pk primary key (id_sha256),
  constraint sessions_hash_size check (octet_length(id_sha256) = 32),
  constraint sessions_key_form check (key_id ~ '^[a-z0-9]{12}$'),
  constraint sessions_expiry_later check (expires_at > created_at)
);
create index sessions_key on jobforge.sessions (key_id, created_at);
create index sessions_end on jobforge.sessions (expires_at);

alter table jobforge.sessions enable row level security, force row level security;
create policy sys_all on jobforge.sessions for all to jf_sys using (true) with check (true);
grant select, insert, update, delete on jobforge.sessions to jf_sys;
