//! What operators do to tenants, definitions and the queue as a whole: weights, limits, pauses, looks.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use jobforge_core::rpc::{
    Stranded, get_definition, get_tenant, lead, list_definitions, list_forgotten_pauses, list_pauses,
    list_starved, list_stranded, list_stuck_leases, list_tenants, pause, resume, system_state,
    upsert_definition, upsert_tenant,
};
use jobforge_core::{Clear, Code, Definition, Expected, NewPause, PauseKind, Tenant};
use jobforge_testkit::{NOOP, OTHER, TENANT_A, TENANT_B};
use serde_json::json;
use uuid::Uuid;

use crate::story::{Story, noop, refused};

fn hold(kind: PauseKind, name: impl Into<String>) -> NewPause {
    NewPause { kind, name: name.into(), reason: String::new(), until: None, author: None }
}

#[tokio::test]
async fn a_tenants_weight_and_limits_are_set_kept_and_taken_away() {
    let story = Story::begin().await;
    let listed = async |id| {
        let all = list_tenants(&story.operator, 100, None).await.unwrap();
        all.into_iter().find(|tenant| tenant.id == id).unwrap()
    };
    let new = listed(TENANT_A).await;
    assert_eq!((new.name.as_str(), new.weight, new.max_in_flight, new.pause.clone()), ("A", 1, None, None));
    let limited = Tenant {
        weight: Some(3),
        max_pending: Some(1000),
        max_in_flight: Some(5),
        rate_per_second: Some(0.5),
        rate_burst: Some(10),
        retention: Some("month".to_owned()),
        ..Tenant::new(TENANT_A)
    };
    upsert_tenant(&story.operator, &limited).await.unwrap();
    let set = listed(TENANT_A).await;
    assert_eq!((set.name.as_str(), set.weight, set.max_pending), ("A", 3, Some(1000)));
    assert_eq!((set.max_in_flight, set.rate_per_second, set.rate_burst), (Some(5), Some(0.5), Some(10)));
    assert_eq!(set.retention.as_deref(), Some("month"));
    upsert_tenant(&story.operator, &Tenant::named(TENANT_A, "A renamed")).await.unwrap();
    assert_eq!(listed(TENANT_A).await.max_in_flight, Some(5), "what is not given stays");
    let all = vec![Clear::MaxPending, Clear::MaxInFlight, Clear::Rate, Clear::Retention];
    upsert_tenant(&story.operator, &Tenant { clear: all, ..Tenant::new(TENANT_A) }).await.unwrap();
    let cleared = listed(TENANT_A).await;
    assert_eq!((cleared.name.as_str(), cleared.weight), ("A renamed", 3));
    assert_eq!((cleared.max_pending, cleared.max_in_flight), (None, None));
    assert_eq!((cleared.rate_per_second, cleared.rate_burst, cleared.retention), (None, None, None));
    let after: Vec<Uuid> =
        list_tenants(&story.operator, 1, Some(TENANT_A)).await.unwrap().iter().map(|t| t.id).collect();
    assert_eq!(after, [TENANT_B], "a page goes on after the last one's id");
}

#[tokio::test]
async fn a_tenant_has_a_time_zone_that_is_known() {
    let story = Story::begin().await;
    let zone = async || get_tenant(&story.operator, TENANT_A).await.unwrap().unwrap().time_zone;
    let set = async |zone: &str| {
        let tenant = Tenant { time_zone: Some(zone.to_owned()), ..Tenant::new(TENANT_A) };
        upsert_tenant(&story.operator, &tenant).await
    };
    assert_eq!(zone().await, "UTC");
    set("America/Argentina/Buenos_Aires").await.unwrap();
    assert_eq!(zone().await, "America/Argentina/Buenos_Aires");
    // Abbreviations, offsets and files of the server that are no zones: Postgres alone would take some of them.
    for unknown in ["", "Mars/Olympus", "CEST", "UTC+3", "posixrules", "localtime", "posix/Europe/Berlin"] {
        assert_eq!(
            refused(set(unknown).await),
            (Code::InvalidArgument, "time_zone_unknown".to_owned()),
            "{unknown}"
        );
    }
    assert_eq!(zone().await, "America/Argentina/Buenos_Aires");
    assert!(get_tenant(&story.operator, Uuid::from_u128(7)).await.unwrap().is_none());
}

#[tokio::test]
async fn a_rate_that_is_taken_away_and_given_at_once_is_the_given_one() {
    let story = Story::begin().await;
    let rated = |rate, burst, clear| Definition {
        rate_per_second: rate,
        rate_burst: burst,
        clear,
        ..Definition::new(NOOP)
    };
    upsert_definition(&story.operator, &rated(Some(1.0), Some(9), vec![])).await.unwrap();
    upsert_definition(&story.operator, &rated(Some(2.0), None, vec![Clear::Rate])).await.unwrap();
    let now = get_definition(&story.operator, NOOP).await.unwrap().unwrap();
    assert_eq!((now.rate_per_second, now.rate_burst), (Some(2.0), None));
    let limits = |rate, burst, clear| Tenant {
        rate_per_second: rate,
        rate_burst: burst,
        clear,
        ..Tenant::new(TENANT_A)
    };
    upsert_tenant(&story.operator, &limits(Some(1.0), Some(9), vec![])).await.unwrap();
    upsert_tenant(&story.operator, &limits(Some(2.0), None, vec![Clear::Rate])).await.unwrap();
    let now = get_tenant(&story.operator, TENANT_A).await.unwrap().unwrap();
    assert_eq!((now.rate_per_second, now.rate_burst), (Some(2.0), None));
}

#[tokio::test]
async fn a_definition_is_written_only_over_what_was_expected() {
    let story = Story::begin().await;
    let write = async |key: &str, words: &str, expected| {
        let definition = Definition { description: Some(words.to_owned()), expected, ..Definition::new(key) };
        upsert_definition(&story.operator, &definition).await
    };
    let seen = get_definition(&story.operator, NOOP).await.unwrap().unwrap().updated_at;
    let exists = (Code::WrongState, "definition_exists".to_owned());
    assert_eq!(refused(write(NOOP, "new", Expected::Nothing).await), exists);
    write(NOOP, "first", Expected::ChangedAt(seen)).await.unwrap();
    let changed = (Code::WrongState, "definition_changed".to_owned());
    assert_eq!(refused(write(NOOP, "second", Expected::ChangedAt(seen)).await), changed);
    assert_eq!(get_definition(&story.operator, NOOP).await.unwrap().unwrap().description, "first");
    assert_eq!(refused(write("test.absent", "x", Expected::ChangedAt(seen)).await), changed);
    assert!(get_definition(&story.operator, "test.absent").await.unwrap().is_none(), "nothing is left of it");
    write("test.absent", "x", Expected::Nothing).await.unwrap();
}

#[tokio::test]
async fn a_definitions_limits_are_set_and_taken_away() {
    let story = Story::begin().await;
    let listed = async || list_definitions(&story.operator, 1, None).await.unwrap().remove(0);
    let new = listed().await;
    assert_eq!((new.key.as_str(), new.max_in_flight, new.max_in_flight_per_key), (NOOP, None, 1));
    assert_eq!((new.dead_retention.as_str(), new.is_active), ("year", true));
    let limited = Definition {
        max_in_flight: Some(7),
        max_in_flight_per_key: Some(2),
        rate_per_second: Some(100.0),
        rate_burst: Some(50),
        dead_retention: Some("month".to_owned()),
        ..Definition::new(NOOP)
    };
    upsert_definition(&story.operator, &limited).await.unwrap();
    let set = listed().await;
    assert_eq!((set.max_in_flight, set.max_in_flight_per_key), (Some(7), 2));
    assert_eq!((set.rate_per_second, set.rate_burst), (Some(100.0), Some(50)));
    assert_eq!((set.dead_retention.as_str(), set.retention.as_str()), ("month", "week"));
    let clear = vec![Clear::MaxInFlight, Clear::Rate];
    upsert_definition(&story.operator, &Definition { clear, ..Definition::new(NOOP) }).await.unwrap();
    let cleared = listed().await;
    assert_eq!((cleared.max_in_flight, cleared.rate_per_second, cleared.rate_burst), (None, None, None));
    assert_eq!(cleared.max_in_flight_per_key, 2);
    let next = list_definitions(&story.operator, 100, Some(NOOP)).await.unwrap();
    assert_eq!(next.iter().map(|definition| definition.key.as_str()).collect::<Vec<_>>(), [OTHER]);
}

#[tokio::test]
async fn pauses_are_listed_with_their_author_and_end() {
    let story = Story::begin().await;
    let until = Timestamp::now() + SignedDuration::from_hours(1);
    let named = NewPause {
        reason: "deploy".to_owned(),
        until: Some(until),
        author: Some("ann@desk".to_owned()),
        ..hold(PauseKind::Definition, NOOP)
    };
    pause(&story.operator, &hold(PauseKind::Queue, "default")).await.unwrap();
    pause(&story.operator, &hold(PauseKind::Tenant, TENANT_A.to_string())).await.unwrap();
    let at = pause(&story.operator, &named).await.unwrap();
    let pauses = list_pauses(&story.operator, 10).await.unwrap();
    let kinds: Vec<PauseKind> = pauses.iter().map(|pause| pause.kind).collect();
    assert_eq!(kinds, [PauseKind::Definition, PauseKind::Tenant, PauseKind::Queue], "the latest first");
    let latest = &pauses[0];
    assert_eq!(
        (latest.name.as_str(), latest.reason.as_str(), latest.author.as_str()),
        (NOOP, "deploy", "ann@desk")
    );
    assert_eq!(latest.paused_at, at);
    assert_eq!(latest.until.unwrap().as_microsecond(), until.as_microsecond());
    assert_eq!(pauses[2].author, jobforge_testkit::OPERATOR, "without a name it is the login's");

    let definition = list_definitions(&story.operator, 1, None).await.unwrap().remove(0);
    assert_eq!(definition.pause.unwrap().author, "ann@desk");
    let tenants = list_tenants(&story.operator, 10, None).await.unwrap();
    let held: Vec<Uuid> = tenants.iter().filter(|t| t.pause.is_some()).map(|t| t.id).collect();
    assert_eq!(held, [TENANT_A]);

    assert!(resume(&story.operator, PauseKind::Definition, NOOP, Some("bob")).await.unwrap());
    assert!(!resume(&story.operator, PauseKind::Definition, NOOP, None).await.unwrap(), "nothing was paused");
    assert_eq!(list_pauses(&story.operator, 10).await.unwrap().len(), 2);
}

#[tokio::test]
async fn bad_limits_and_pauses_are_refused_and_change_nothing() {
    let story = Story::begin().await;
    let operator = &story.operator;
    let tenant = Tenant::new(TENANT_A);
    let tenants = [
        Tenant { weight: Some(101), ..tenant.clone() },
        Tenant { weight: Some(70_000), ..tenant.clone() },
        Tenant { max_pending: Some(0), ..tenant.clone() },
        Tenant { max_in_flight: Some(0), ..tenant.clone() },
        Tenant { rate_per_second: Some(0.0), ..tenant.clone() },
        Tenant { rate_burst: Some(3), ..tenant.clone() },
        Tenant { retention: Some("decade".to_owned()), ..tenant },
    ];
    let before = list_tenants(operator, 10, None).await.unwrap();
    for tenant in &tenants {
        let refusal = refused(upsert_tenant(operator, tenant).await);
        assert_eq!(refusal, (Code::InvalidArgument, "tenant_out_of_range".to_owned()), "{tenant:?}");
    }
    assert_eq!(list_tenants(operator, 10, None).await.unwrap(), before);
    let definition = Definition::new(NOOP);
    let before = list_definitions(operator, 10, None).await.unwrap();
    for definition in [
        Definition { max_in_flight: Some(0), ..definition.clone() },
        Definition { max_in_flight_per_key: Some(0), ..definition.clone() },
        Definition { rate_per_second: Some(-1.0), ..definition.clone() },
        Definition { rate_burst: Some(3), ..definition.clone() },
        Definition { dead_retention: Some("decade".to_owned()), ..definition.clone() },
    ] {
        let refusal = refused(upsert_definition(operator, &definition).await);
        assert_eq!(refusal, (Code::InvalidArgument, "definition_out_of_range".to_owned()), "{definition:?}");
    }
    let pending = Definition { clear: vec![Clear::MaxPending], ..definition };
    assert_eq!(refused(upsert_definition(operator, &pending).await).1, "clear_unknown");
    let after = list_definitions(operator, 10, None).await.unwrap();
    assert_eq!(json!(after), json!(before));
    let unknown = refused(pause(operator, &hold(PauseKind::Definition, "no.such")).await);
    assert_eq!(unknown, (Code::UnknownDefinition, "unknown_definition".to_owned()));
    let unknown = refused(resume(operator, PauseKind::Tenant, &Uuid::now_v7().to_string(), None).await);
    assert_eq!(unknown, (Code::NotFound, "tenant_unknown".to_owned()));
    assert!(list_pauses(operator, 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn an_examination_finds_stuck_leases_starved_work_and_forgotten_pauses() {
    let story = Story::begin().await;
    let operator = &story.operator;
    let now = Duration::ZERO;
    assert!(!system_state(operator, 1).await.unwrap().leads);
    let term = lead(operator, "me", 10).await.unwrap().term;
    let state = system_state(operator, 1).await.unwrap();
    assert_eq!((state.leader_holder.as_str(), state.leader_term, state.leads), ("me", term, true));

    let running = story.running().await;
    story.enqueue(&noop()).await;
    assert!(list_stuck_leases(operator, now, 10).await.unwrap().is_empty(), "a lease that lives");
    assert!(list_starved(operator, now, 10).await.unwrap().is_empty(), "no limit");
    assert!(list_forgotten_pauses(operator, now, 10).await.unwrap().is_empty(), "no pause");

    let admin = story.db.connect_super().await;
    let limits = Tenant { max_in_flight: Some(1), ..Tenant::new(TENANT_A) };
    upsert_tenant(operator, &limits).await.unwrap();
    let count =
        "insert into jobforge.limited_runs select 'tenant', tenant_id::text, tenant_id, id, lease_id, fence
                 from jobforge.jobs where status = 'running' on conflict do nothing";
    admin.batch_execute(count).await.unwrap();
    let starved = list_starved(operator, now, 10).await.unwrap();
    assert_eq!(starved.len(), 1);
    assert_eq!((starved[0].kind, starved[0].name.clone()), (PauseKind::Tenant, TENANT_A.to_string()));
    assert_eq!((starved[0].limit_name.as_str(), starved[0].allowed), ("max_in_flight", 1.0));
    let patient = Duration::from_secs(900);
    assert!(list_starved(operator, patient, 10).await.unwrap().is_empty(), "it has just begun to wait");
    upsert_tenant(operator, &Tenant { max_in_flight: Some(2), ..Tenant::new(TENANT_A) }).await.unwrap();
    assert!(list_starved(operator, now, 10).await.unwrap().is_empty(), "there is room");

    for kind in [PauseKind::Queue, PauseKind::Tenant, PauseKind::Definition] {
        let name = match kind {
            PauseKind::Queue => "default".to_owned(),
            PauseKind::Tenant => TENANT_A.to_string(),
            PauseKind::Definition => NOOP.to_owned(),
        };
        pause(operator, &hold(kind, name.clone())).await.unwrap();
        let forgotten = list_forgotten_pauses(operator, now, 10).await.unwrap();
        assert_eq!(
            forgotten.iter().map(|p| (p.kind, p.name.clone())).collect::<Vec<_>>(),
            [(kind, name.clone())]
        );
        assert!(list_forgotten_pauses(operator, patient, 10).await.unwrap().is_empty(), "it is young");
        resume(operator, kind, &name, None).await.unwrap();
    }
    pause(operator, &hold(PauseKind::Definition, OTHER)).await.unwrap();
    assert!(list_forgotten_pauses(operator, now, 10).await.unwrap().is_empty(), "it holds no work");

    let expire = "update jobforge.leases set expires_at = clock_timestamp() - interval '1 minute'";
    admin.batch_execute(expire).await.unwrap();
    let stuck = list_stuck_leases(operator, Duration::from_secs(30), 10).await.unwrap();
    assert_eq!(stuck.len(), 1);
    assert_eq!(
        (stuck[0].lease_id, stuck[0].worker_id.as_deref(), stuck[0].jobs),
        (running.lease_id, Some("w1"), 1)
    );
    let refusal = refused(list_stuck_leases(operator, Duration::from_secs(400 * 86_400), 10).await);
    assert_eq!(refusal, (Code::InvalidArgument, "age_out_of_range".to_owned()));
}

#[tokio::test]
async fn an_examination_finds_jobs_whose_lease_is_gone() {
    let story = Story::begin().await;
    let (operator, budget) = (&story.operator, Duration::from_secs(60));
    let running = story.running().await;
    story.enqueue(&noop()).await;
    let none = Stranded { jobs: Vec::new(), complete: true };
    assert_eq!(list_stranded(operator, budget, 10).await.unwrap(), none);
    story.db.connect_super().await.batch_execute("delete from jobforge.leases").await.unwrap();
    let found = list_stranded(operator, budget, 10).await.unwrap();
    assert!(found.complete && found.jobs.len() == 1, "{found:?}");
    let job = &found.jobs[0];
    assert_eq!((job.tenant_id, job.id, job.lease_id), (TENANT_A, running.job.id, running.lease_id));
    assert_eq!(job.job_type, NOOP);
    assert!(!list_stranded(operator, budget, 1).await.unwrap().complete, "there may be more");
    let refusal = refused(list_stranded(operator, Duration::from_secs(61), 10).await);
    assert_eq!(refusal, (Code::InvalidArgument, "budget_out_of_range".to_owned()));
}
