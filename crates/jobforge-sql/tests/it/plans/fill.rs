//! Rows by the hundred thousand, stored past the functions: it is the reading that is looked at.

use jobforge_testkit::TestDb;
use tokio_postgres::Client;

/// Statistics stay as the test makes them: no vacuum comes by itself. And there are many logins, as where every tenant
/// has one.
pub(crate) async fn quiet(db: &TestDb) -> Client {
    let admin = db.connect_super().await;
    // Only leaves are vacuumed.
    let sql = "do $$ declare v_table regclass; begin
        for v_table in select c.oid::regclass from pg_class c where c.relnamespace = 'jobforge'::regnamespace and c.relkind = 'r' loop
          execute format('alter table %s set (autovacuum_enabled = off)', v_table);
        end loop;
      end $$";
    admin.batch_execute(sql).await.expect("turn autovacuum off");
    let sql =
        "insert into jobforge.logins (role_name) select 'somebody_' || n from generate_series(1, 2000) as n;
               analyze jobforge.logins;";
    admin.batch_execute(sql).await.expect("make logins");
    admin
}

/// Jobs of many tenants, spread evenly, in the order of their ids.
pub(crate) struct Jobs {
    pub(crate) count: i32,
    pub(crate) tenants: i32,
    pub(crate) kind: &'static str,
    /// `ready`, `future`, `running`, `dead`, `reserved` or `suspect`.
    pub(crate) state: &'static str,
}

pub(crate) async fn fill(admin: &Client, jobs: Jobs) {
    let tenants = "insert into jobforge.tenants (id, name) select lpad(to_hex(t), 32, '0')::uuid, 'filled'
        from generate_series(4096, 4095 + $1::integer) as t on conflict do nothing";
    admin.execute(tenants, &[&jobs.tenants]).await.expect("make tenants");
    let sql = "
        insert into jobforge.jobs (tenant_id, id, run_at, created_at, max_attempts, priority, ready, status, retention, queue,
          type, payload, source, lease_id, started_at, finished_at, fence, deaths, taken)
        select lpad(to_hex(4096 + n % $2), 32, '0')::uuid, gen_random_uuid(),
          now() - interval '1 hour' + n * interval '1 millisecond' + case when $4 = 'future' then interval '1 day' else '0' end,
          now(), 5, case when $4 = 'reserved' then 5 else 100 end, $4 in ('ready', 'reserved', 'suspect'),
          case $4 when 'running' then 'running' when 'dead' then 'dead' else 'queued' end, 'week', 'default', $3, '{}', 'manual',
          case when $4 = 'running' then gen_random_uuid() end, case when $4 = 'running' then now() end,
          case when $4 = 'dead' then now() end, case when $4 in ('running', 'suspect') then 2 else 0 end,
          case when $4 = 'suspect' then 2 else 0 end, $4 = 'running'
        from generate_series(1, $1) as n";
    let filled = admin.execute(sql, &[&jobs.count, &jobs.tenants, &jobs.kind, &jobs.state]).await;
    filled.unwrap_or_else(|e| panic!("cannot fill: {}", crate::schema::told(&e)));
}

/// Finished jobs of a few tenants, all in one partition.
pub(crate) async fn fill_history(admin: &Client, count: i32) {
    let sql = "
        insert into jobforge.job_history (tenant_id, id, run_at, created_at, finished_at, fence, failures, deaths, max_attempts,
          priority, status, retention, queue, type, payload, source)
        select lpad(to_hex(4096 + n % 10), 32, '0')::uuid, gen_random_uuid(), now(), now(), now(), 1, 0, 0, 5, 100, 'succeeded',
          'week', 'default', 'test.noop', '{}', 'manual'
        from generate_series(1, $1) as n";
    admin.execute(sql, &[&count]).await.expect("fill the history");
}

/// The tenant with the `n`th id of the filled ones.
pub(crate) fn tenant(n: u128) -> uuid::Uuid {
    uuid::Uuid::from_u128(4096 + n)
}
