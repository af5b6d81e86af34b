//! What is paused starts nothing from the next claim on, what runs goes on, and the rest of the queue never notices.

use tokio_postgres::Error;
use uuid::Uuid;

use super::sleep::Ear;
use super::stage::{Stage, ids, refusal};
use crate::schema::calls::{complete, enqueue_with};
use crate::schema::{NOOP, OPERATOR, OTHER, QUEUE, TENANT_A, TENANT_B};

const NOBODY: [Uuid; 0] = [];

impl Stage {
    /// Calls `pause` with further arguments, e.g. `, p_reason => 'why'`.
    async fn pause_with(&self, kind: &str, name: &str, more: &str) -> Result<(), Error> {
        let sql = format!("select jobforge.pause($1, $2{more})");
        self.operator.client().execute(&sql, &[&kind, &name]).await.map(drop)
    }

    async fn pause(&self, kind: &str, name: &str) {
        self.pause_with(kind, name, "").await.unwrap();
    }

    async fn resume(&self, kind: &str, name: &str) -> bool {
        let sql = "select jobforge.resume($1, $2)";
        self.operator.client().query_one(sql, &[&kind, &name]).await.unwrap().get(0)
    }

    async fn enqueue(&self, tenant: Uuid, kind: &str, extra: &str) -> Uuid {
        enqueue_with(self.other.client(), tenant, kind, extra).await.unwrap().0
    }
}

/// Two jobs of what is paused, `held` after the pause and `early` before it, and one that is none of it.
async fn a_pause_holds_back(kind: &str, name: &str, free: (Uuid, &str)) {
    let stage = Stage::set().await;
    let early = stage.job().await;
    let running = stage.claim(1).await.remove(0);
    assert_eq!(running.id, early);
    let waiting = stage.job().await;
    stage.pass(1.0).await;
    stage.pause(kind, name).await;
    let held = stage.job().await;
    let (tenant, free_type) = free;
    let free = stage.enqueue(tenant, free_type, "'{}'").await;
    let wanted = if kind == "queue" { vec![] } else { vec![free] };
    assert_eq!(ids(&stage.claim(10).await), wanted, "from the next claim on only the others start");
    complete(stage.worker.client(), &running).await.unwrap();
    assert!(stage.see(early).await.over, "what ran goes on to its end");
    assert!(stage.resume(kind, name).await);
    let mut late = ids(&stage.claim(10).await);
    late.retain(|id| *id != free);
    assert_eq!(late, [waiting, held], "resumed, they start in their order");
}

#[tokio::test]
async fn a_paused_tenant_starts_nothing_new_and_its_running_jobs_go_on() {
    a_pause_holds_back("tenant", &TENANT_A.to_string(), (TENANT_B, NOOP)).await;
}

#[tokio::test]
async fn a_paused_definition_starts_nothing_new_and_its_running_jobs_go_on() {
    a_pause_holds_back("definition", NOOP, (TENANT_A, OTHER)).await;
}

#[tokio::test]
async fn a_paused_queue_starts_nothing_new_and_its_running_jobs_go_on() {
    a_pause_holds_back("queue", QUEUE, (TENANT_B, OTHER)).await;
}

async fn a_pause_holds_reserved_and_suspect_work(kind: &str, name: &str) {
    let stage = Stage::set().await;
    let suspect = stage.job().await;
    stage.meddle("update jobforge.jobs set deaths = 2, fence = 2 where id = $1", &[&suspect]).await;
    let reserved = enqueue_with(stage.operator.client(), TENANT_A, NOOP, "p_priority => 0").await.unwrap().0;
    stage.pause(kind, name).await;
    assert_eq!(ids(&stage.claim(10).await), NOBODY);
    stage.resume(kind, name).await;
    assert_eq!(ids(&stage.claim(10).await), [suspect, reserved]);
}

#[tokio::test]
async fn a_paused_tenants_reserved_and_suspect_work_waits_too() {
    a_pause_holds_reserved_and_suspect_work("tenant", &TENANT_A.to_string()).await;
}

#[tokio::test]
async fn a_paused_definitions_reserved_and_suspect_work_waits_too() {
    a_pause_holds_reserved_and_suspect_work("definition", NOOP).await;
}

#[tokio::test]
async fn a_paused_queues_reserved_and_suspect_work_waits_too() {
    a_pause_holds_reserved_and_suspect_work("queue", QUEUE).await;
}

async fn a_pause_ends_by_itself(kind: &str, name: &str) {
    let stage = Stage::set().await;
    let id = stage.job().await;
    let minute = ", p_until => jobforge.clock() + interval '1 minute'";
    stage.pause_with(kind, name, minute).await.unwrap();
    stage.pass(59.0).await;
    assert_eq!(ids(&stage.claim(1).await), NOBODY, "a second before its end");
    assert_eq!(stage.count("select count(*) from jobforge.list_pauses()").await, 1);
    stage.pass(1.0).await;
    assert_eq!(stage.count("select count(*) from jobforge.list_pauses()").await, 0);
    assert_eq!(ids(&stage.claim(1).await), [id], "at its end");
    assert!(!stage.resume(kind, name).await, "there is nothing left to end");
}

#[tokio::test]
async fn a_tenants_pause_ends_by_itself_at_its_time() {
    a_pause_ends_by_itself("tenant", &TENANT_A.to_string()).await;
}

#[tokio::test]
async fn a_definitions_pause_ends_by_itself_at_its_time() {
    a_pause_ends_by_itself("definition", NOOP).await;
}

#[tokio::test]
async fn a_queues_pause_ends_by_itself_at_its_time() {
    a_pause_ends_by_itself("queue", QUEUE).await;
}

#[tokio::test]
async fn a_resume_wakes_the_sleepers_and_a_vain_one_nobody() {
    let stage = Stage::set().await;
    let mut ear = Ear::open(&stage).await;
    for (kind, name) in
        [("tenant", TENANT_A.to_string()), ("queue", QUEUE.to_owned()), ("definition", NOOP.to_owned())]
    {
        stage.pause(kind, &name).await;
        ear.heard().await;
        assert!(stage.resume(kind, &name).await);
        assert_eq!(ear.heard().await, ["jobforge_wake"], "{kind}");
        assert!(!stage.resume(kind, &name).await);
        assert_eq!(ear.heard().await, Vec::<String>::new(), "{kind}: nothing was paused");
    }
}

#[tokio::test]
async fn a_changed_pause_keeps_its_beginning_and_one_that_ran_out_begins_anew() {
    let stage = Stage::set().await;
    let seen = async || {
        let sql =
            "select extract(epoch from paused_at)::float8, extract(epoch from until)::float8, reason, author
                   from jobforge.list_pauses()";
        let row = stage.operator.client().query_one(sql, &[]).await.unwrap();
        (row.get::<_, f64>(0), row.get::<_, Option<f64>>(1), row.get::<_, String>(2), row.get::<_, String>(3))
    };
    let start = stage.now().await;
    stage.pause("queue", QUEUE).await;
    assert_eq!(seen().await, (start, None, String::new(), OPERATOR.to_owned()));
    stage.pass(60.0).await;
    let minute =
        ", p_reason => 'deploy', p_until => jobforge.clock() + interval '1 minute', p_author => 'ann'";
    stage.pause_with("queue", QUEUE, minute).await.unwrap();
    assert_eq!(seen().await, (start, Some(start + 120.0), "deploy".to_owned(), "ann".to_owned()));
    stage.pass(61.0).await;
    stage.pause("queue", QUEUE).await;
    assert_eq!(seen().await.0, start + 121.0, "the first pause was over");
}

#[tokio::test]
async fn bad_input_is_refused_and_pauses_nothing() {
    let stage = Stage::set().await;
    let ghost = Uuid::now_v7().to_string();
    for (kind, name, more, told) in [
        ("worker", "w1", "", "JF001 kind_unknown"),
        ("", "w1", "", "JF001 kind_unknown"),
        ("queue", "", "", "JF001 queue_malformed"),
        ("queue", "a b", "", "JF001 queue_malformed"),
        ("tenant", &ghost, "", "JF007 tenant_unknown"),
        ("tenant", "no uuid", "", "JF007 tenant_unknown"),
        ("definition", "no.such", "", "JF002 unknown_definition"),
        ("queue", "q", ", p_until => jobforge.clock()", "JF001 until_in_the_past"),
        ("queue", "q", ", p_reason => repeat('x', 501)", "JF001 reason_length"),
        ("queue", "q", ", p_author => ''", "JF001 reason_length"),
        ("queue", "q", ", p_author => repeat('x', 256)", "JF001 reason_length"),
    ] {
        let refused = refusal(stage.pause_with(kind, name, more).await);
        assert_eq!(refused, told, "pause({kind}, {name}{more})");
        if more.is_empty() {
            let sql = "select jobforge.resume($1, $2)";
            let refused = refusal(stage.operator.client().query(sql, &[&kind, &name]).await);
            assert_eq!(refused, told, "resume({kind}, {name})");
        }
    }
    let nulls = "select jobforge.pause(null, null)";
    assert_eq!(refusal(stage.operator.client().query(nulls, &[]).await), "JF001 kind_unknown");
    let none = "select * from jobforge.list_pauses(0)";
    assert_eq!(refusal(stage.operator.client().query(none, &[]).await), "JF001 limit_out_of_range");
    assert_eq!(stage.count("select count(*) from jobforge.pauses").await, 0);
    assert_eq!(
        stage.count("select count(*) from jobforge.audit_log where action in ('pause', 'resume')").await,
        0
    );
}

#[tokio::test]
async fn who_paused_what_is_written_down_with_the_tenant_it_concerns() {
    let stage = Stage::set().await;
    let author = ", p_reason => 'unpaid', p_author => 'ann'";
    stage.pause_with("tenant", &TENANT_A.to_string(), author).await.unwrap();
    stage.pause("queue", QUEUE).await;
    stage.resume("tenant", &TENANT_A.to_string()).await;
    stage.resume("tenant", &TENANT_A.to_string()).await;
    let sql = "select tenant_id, action, actor, detail ->> 'kind', detail ->> 'name', detail ->> 'author', detail ->> 'reason'
               from jobforge.audit_log where action in ('pause', 'resume') order by at, action, detail ->> 'kind' desc";
    let mut told: Vec<String> = Vec::new();
    for row in stage.admin.query(sql, &[]).await.unwrap() {
        let text = |column: usize| row.get::<_, Option<String>>(column).unwrap_or_default();
        assert_eq!(text(2), OPERATOR);
        told.push(format!(
            "{} {} {} {} {} {}",
            row.get::<_, Uuid>(0),
            text(1),
            text(3),
            text(4),
            text(5),
            text(6)
        ));
    }
    let system = Uuid::nil();
    assert_eq!(
        told,
        [
            format!("{TENANT_A} pause tenant {TENANT_A} ann unpaid"),
            format!("{system} pause queue {QUEUE}  "),
            format!("{TENANT_A} resume tenant {TENANT_A}  "),
        ],
        "a resume of nothing is no deed"
    );
}
