//! Lists whose search ends before it has looked at everything: the page says so, and its cursor leads on to the end.
//!
//! What takes a search its time is made slow in the database, by sleeps that are longer than the time it has: where a page
//! ends is certain then.

use jobforge_core::rpc::enqueue_jobs;
use jobforge_core::{NewJob, Role};
use jobforge_testkit::{NOOP, OTHER, TENANT_A};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::jobs_cast::{Cast, ids, raw};
use crate::world::Key;

/// Jobs in all.
const JOBS: usize = 160;
/// So many are looked at before a search by payload asks for the first time whether its time is over.
const STRETCH: usize = 49;
/// Those that are looked for, by how many are newer.
const WANTED: [usize; 6] = [0, 5, 48, 100, 150, 159];

/// A payload takes five milliseconds to be looked at: a stretch of them three times what a list has.
const SLOW_PAYLOADS: &str = "
    create or replace function jobforge.redact_payload(p_payload jsonb, p_paths text[]) returns jsonb
    language plpgsql volatile as $$ begin perform pg_sleep(0.005); return p_payload; end $$";

/// A dead letter takes a millisecond: a thousand of them twice what their list has.
const SLOW_DEAD_LETTERS: &str = "
    create or replace function jobforge.error_class(p_tenant_id uuid, p_job_id uuid, p_fence integer, p_status text)
    returns text language plpgsql volatile as $$ begin perform pg_sleep(0.001); return p_status; end $$";

/// All pages from the first to the last, each where the one before ended.
async fn pages(cast: &Cast, key: &Key, list: &str) -> Vec<Value> {
    let mut pages: Vec<Value> = Vec::new();
    let mut next = list.to_owned();
    loop {
        let page = cast.world.get(key, &next).await.expect(200);
        let cursor = page["next_cursor"].as_str().map(str::to_owned);
        pages.push(page);
        assert!(pages.len() < 20, "the cursors lead nowhere: {pages:?}");
        let Some(cursor) = cursor else { return pages };
        // A cursor stands in for the offset that the first page began with.
        let rest: Vec<&str> = list.split('&').filter(|part| !part.starts_with("offset=")).collect();
        next = format!("{}&cursor={cursor}", rest.join("&"));
    }
}

/// For each page the jobs that it shows, by their place, and whether it is a whole one.
fn told(pages: &[Value], all: &[Uuid]) -> Vec<(Vec<usize>, bool)> {
    let place = |id: &Uuid| all.iter().position(|job| job == id).unwrap();
    let told =
        |page: &Value| (ids(&page["jobs"]).iter().map(place).collect(), page["complete"].as_bool().unwrap());
    pages.iter().map(told).collect()
}

#[tokio::test]
async fn a_search_for_jobs_that_runs_out_of_time_says_so_and_goes_on_to_the_end() {
    let cast = Cast::new().await;
    let job = |at: usize| NewJob::raw(NOOP, raw(&json!({ "wanted": WANTED.contains(&(JOBS - 1 - at)) })));
    let jobs: Vec<NewJob> = (0..JOBS).map(job).collect();
    let made = enqueue_jobs(&cast.app, TENANT_A, &jobs).await.unwrap();
    let all: Vec<Uuid> = made.into_iter().rev().map(|job| job.unwrap().id).collect();
    cast.world.db.connect_super().await.batch_execute(SLOW_PAYLOADS).await.unwrap();

    // %7B"wanted":true%7D
    let wanted = "/jobs?payload=%7B%22wanted%22%3Atrue%7D";
    let walked = pages(&cast, &cast.admin, &format!("{wanted}&limit=1000")).await;
    let (first, last) = (vec![0, 5, 48], vec![150, 159]);
    let partial = |jobs: &[usize]| (jobs.to_vec(), false);
    assert_eq!(
        told(&walked, &all),
        [partial(&first), partial(&[]), partial(&[100]), (last.clone(), true)],
        "each stretch of {STRETCH} is a page"
    );

    // A page that is full is no partial one.
    let walked = pages(&cast, &cast.admin, &format!("{wanted}&limit=2")).await;
    assert_eq!(
        told(&walked, &all),
        [
            (vec![0, 5], true),
            // What is behind the full page begins a stretch of its own: 6 to 54, 55 to 103, 104 to 152.
            partial(&[48]),
            partial(&[100]),
            partial(&[150]),
            (vec![159], true),
        ]
    );

    // What is still to be passed by goes along.
    let walked = pages(&cast, &cast.admin, &format!("{wanted}&limit=1000&offset=4")).await;
    assert_eq!(told(&walked, &all), [partial(&[]), partial(&[]), partial(&[]), (last, true)]);
}

#[tokio::test]
async fn a_search_for_dead_letters_that_runs_out_of_time_says_so_and_goes_on_to_the_end() {
    let cast = Cast::new().await;
    let admin = cast.world.db.connect_super().await;
    let died = "
        insert into jobforge.jobs (tenant_id, id, run_at, created_at, max_attempts, priority, ready, status, retention, queue,
          type, payload, source, error, finished_at)
        select $1, gen_random_uuid(), now(), now(), 5, 100, false, 'dead', 'week', 'default',
          case when n in (500, 2050) then $3::text else $2 end, '{}', 'manual', 'broke', now() - n * interval '1 second'
        from generate_series(1, 2100) as n returning id, type";
    let rows = admin.query(died, &[&TENANT_A, &NOOP, &OTHER]).await.unwrap();
    let all: Vec<Uuid> =
        rows.iter().filter(|row| row.get::<_, &str>(1) == OTHER).map(|row| row.get(0)).collect();
    admin.batch_execute(SLOW_DEAD_LETTERS).await.unwrap();
    let walked = pages(&cast, &cast.admin, &format!("/dead-letters?type={OTHER}")).await;
    assert_eq!(told(&walked, &all), [(vec![0], false), (vec![], false), (vec![1], true)]);
}

/// The audit log is searched ten thousand entries at a time.
#[tokio::test]
async fn a_search_of_the_audit_log_that_is_not_at_its_end_says_so_and_goes_on() {
    let cast = Cast::new().await;
    let deeds = "insert into jobforge.audit_log (tenant_id, at, actor, action, subject_kind, subject_id)
        select $1, now() - n * interval '1 second', case when n in (3, 20010) then 'rare' else 'often' end, 'deed', 'queue',
          n::text
        from generate_series(1, 20020) as n";
    cast.world.db.connect_super().await.execute(deeds, &[&TENANT_A]).await.unwrap();
    let operator = cast.world.key(Role::SuperAdmin).await;
    for (key, list) in [(&cast.admin, "/audit?actor=rare"), (&operator, "/admin/audit?actor=rare")] {
        let walked = pages(&cast, key, list).await;
        let told = |page: &Value| {
            let entries = page["entries"].as_array().unwrap().iter();
            let subjects = entries.map(|entry| entry["subject_id"].as_str().unwrap().to_owned());
            (subjects.collect::<Vec<_>>(), page["complete"].as_bool().unwrap())
        };
        let told: Vec<(Vec<String>, bool)> = walked.iter().map(told).collect();
        let one = |subject: &str| vec![subject.to_owned()];
        assert_eq!(told, [(one("3"), false), (vec![], false), (one("20010"), true)], "{list}");
    }
}
