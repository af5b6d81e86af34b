//! A clock that tests set: `jobforge.clock()` is replaced in the test's own database, so production has
//! no setting that a caller could change.

use crate::db::TestDb;
use crate::or_fail::OrFail;

impl TestDb {
    /// Stops the clock at a time such as `2030-01-01 12:00:00+00`; `None` lets it run again.
    pub async fn set_clock(&self, at: Option<&str>) {
        let client = self.connect_super().await;
        client.batch_execute(SETTABLE_CLOCK).await.or_fail("make jobforge.clock() settable");
        let sql = "update jobforge_test.clock set at = $1::text::timestamptz";
        client.execute(sql, &[&at]).await.or_fail("set the clock");
    }

    /// Moves the clock by this many seconds, from where it stands or, if it runs, from now; it stands
    /// afterwards.
    pub async fn advance_clock(&self, seconds: f64) {
        let client = self.connect_super().await;
        client.batch_execute(SETTABLE_CLOCK).await.or_fail("make jobforge.clock() settable");
        let sql = "update jobforge_test.clock
                   set at = coalesce(at, clock_timestamp()) + make_interval(secs => $1)";
        client.execute(sql, &[&seconds]).await.or_fail("advance the clock");
    }
}

/// `create or replace` keeps the owner and the grants of the function.
const SETTABLE_CLOCK: &str = "
    set client_min_messages = warning;
    create schema if not exists jobforge_test;
    create table if not exists jobforge_test.clock (
        at timestamptz,
        one_row boolean primary key default true check (one_row)
    );
    insert into jobforge_test.clock default values on conflict do nothing;
    grant usage on schema jobforge_test to public;
    grant select on jobforge_test.clock to public;
    create or replace function jobforge.clock() returns timestamptz language sql volatile as $$
        select coalesce((select c.at from jobforge_test.clock c), clock_timestamp())
    $$;
";
