//! Reports of many callers at once: written together, each answered for itself.

use futures_util::future::join_all;
use jobforge_testkit::{TENANT_A, TENANT_B};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::worker_agent::{Agent, Held, enqueue, status};
use crate::world::World;

/// Enough that several wait while the first is written.
const CALLERS: usize = 40;

#[tokio::test]
async fn reports_at_once_of_several_workers_each_get_their_own_answer() {
    // One connection: what comes while it writes is gathered.
    let world = World::with(|config| config.connections = 1).await;
    enqueue(&world, TENANT_A, CALLERS / 2).await;
    enqueue(&world, TENANT_B, CALLERS / 2).await;
    let (a, all) = (Agent::of_a(&world).await, Agent::of_all(&world).await);
    let mut held: Vec<(&Agent<'_>, Held)> = a.claim(10).await.into_iter().map(|job| (&a, job)).collect();
    held.extend(all.claim(50).await.into_iter().map(|job| (&all, job)));
    assert_eq!(held.len(), CALLERS);
    // Of each ten: one stale, one unknown, one with a lease that is not, one that fails, one whose result is bad.
    let report = async |at: usize, agent: &Agent<'_>, job: &Held| {
        let mut job = job.clone();
        let (verb, more) = match at % 10 {
            0 => {
                job.0["fence"] = json!(7);
                ("complete", json!({}))
            }
            1 => {
                job.0["id"] = json!(Uuid::new_v4());
                ("fail", json!({}))
            }
            2 => {
                job.0["lease_id"] = json!(Uuid::new_v4());
                ("complete", json!({}))
            }
            3 => ("fail", json!({ "class": "permanent", "error": format!("no {at}") })),
            4 => ("complete", json!({ "result": "\u{0}" })),
            _ => ("complete", json!({ "result": { "at": at } })),
        };
        (at, agent.report(verb, &job, more).await)
    };
    let answers = join_all(held.iter().enumerate().map(|(at, (agent, job))| report(at, agent, job))).await;
    for (at, answer) in answers {
        let body: Value = match at % 10 {
            0 | 2 => answer.refused(409, "JF006", "fence_stale"),
            1 => answer.refused(404, "JF007", "job_unknown"),
            3 => answer.expect(200),
            4 => answer.refused(422, "JF003", "result_invalid"),
            _ => answer.expect(200),
        };
        let job = &held[at].1;
        let tenant = Uuid::parse_str(job.0["tenant_id"].as_str().unwrap()).unwrap();
        let wanted = match at % 10 {
            3 => "failed",
            0 | 1 | 2 | 4 => "running",
            _ => "succeeded",
        };
        assert_eq!(status(&world, tenant, job.id()).await, wanted, "{at}: {body}");
    }
}

#[tokio::test]
async fn reports_at_once_share_their_commits() {
    let world = World::with(|config| config.connections = 1).await;
    enqueue(&world, TENANT_A, CALLERS).await;
    let admin = world.db.connect_super().await;
    let agents: Vec<Agent<'_>> = join_all((0..CALLERS).map(|_| Agent::of_a(&world))).await;
    let mut held = Vec::new();
    for agent in &agents {
        held.push((agent, agent.claim_one().await));
    }
    let answers = join_all(held.iter().map(|(agent, job)| agent.report("complete", job, json!({})))).await;
    for answer in answers {
        assert_eq!(answer.expect(200), json!({ "verdict": "done" }));
    }
    let sql = "select count(*), count(distinct h.xmin::text) from jobforge.job_history h";
    let row = admin.query_one(sql, &[]).await.unwrap();
    let (jobs, commits): (i64, i64) = (row.get(0), row.get(1));
    assert!(jobs == 40 && commits < jobs / 2, "{jobs} jobs of as many leases in {commits} commits");
}

/// Who knows all the tokens of another's job gets nowhere with them, also in one transaction with those who may.
#[tokio::test]
async fn in_a_shared_commit_each_caller_is_bound_to_its_own_tenant() {
    let world = World::with(|config| config.connections = 1).await;
    enqueue(&world, TENANT_A, CALLERS / 2).await;
    enqueue(&world, TENANT_B, CALLERS / 2).await;
    let all = Agent::of_all(&world).await;
    let (a, b) = (Agent::of_a(&world).await, Agent::new(&world, Some(TENANT_B)).await);
    let held = all.claim(50).await;
    assert_eq!(held.len(), CALLERS);
    let report = async |at: usize, job: &Held| {
        let agent = [&all, &a, &b, &all][at % 4];
        let verb = ["complete", "fail"][at / 4 % 2];
        (at, agent.report(verb, job, json!({})).await)
    };
    let answers = join_all(held.iter().enumerate().map(|(at, job)| report(at, job))).await;
    for (at, answer) in answers {
        let own = |tenant: Uuid| held[at].0["tenant_id"] == json!(tenant);
        match at % 4 {
            0 | 3 => drop(answer.expect(200)),
            // To its own tenant's worker the job is there, and on another's lease.
            1 if own(TENANT_A) => drop(answer.refused(409, "JF006", "fence_stale")),
            2 if own(TENANT_B) => drop(answer.refused(409, "JF006", "fence_stale")),
            _ => drop(answer.refused(404, "JF007", "job_unknown")),
        }
    }
    for (at, job) in held.iter().enumerate().filter(|(at, _)| matches!(at % 4, 1 | 2)) {
        assert_eq!(
            all.report("complete", job, json!({})).await.expect(200),
            json!({ "verdict": "done" }),
            "{at}"
        );
    }
}

/// A fault that no verdict tells: what the database raises for one caller's row is that caller's alone.
#[tokio::test]
async fn a_call_that_fails_fails_only_its_own_caller() {
    let world = World::with(|config| config.connections = 1).await;
    enqueue(&world, TENANT_A, CALLERS).await;
    let admin = world.db.connect_super().await;
    let agents: Vec<Agent<'_>> = join_all((0..4).map(|_| Agent::of_a(&world))).await;
    let mut held = Vec::new();
    for agent in &agents {
        held.extend(agent.claim(10).await.into_iter().map(|job| (agent, job)));
    }
    // One job's end breaks a rule that the table does not have otherwise.
    let victim = held[7].1.id().to_owned();
    let rule = format!("alter table jobforge.job_history add constraint no_end check (id <> '{victim}')");
    admin.batch_execute(&rule).await.unwrap();
    let answers = join_all(held.iter().map(|(agent, job)| agent.report("complete", job, json!({})))).await;
    for ((_, job), answer) in held.iter().zip(answers) {
        if job.id() == victim {
            answer.refused(500, "JF107", "internal");
        } else {
            assert_eq!(answer.expect(200), json!({ "verdict": "done" }));
        }
    }
    assert_eq!(status(&world, TENANT_A, &victim).await, "running");
}
