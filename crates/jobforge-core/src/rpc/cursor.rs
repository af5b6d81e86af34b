//! A claimer's memory between claims: whose turn it was, and how far it came in the lanes it empties.
//!
//! A claim walks an index whose beginning fills with entries of jobs that are gone. A remembered position
//! lets the next claim start behind them. The database moves positions back where late comers may be, so a
//! position is never trusted for longer than it may be.

use std::collections::HashMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::claim::{Claimed, ClaimedJob};

/// Fewer jobs than this leave too little behind them to be worth remembering.
const WORTH_MARKING: usize = 32;
const MOST_MARKS: usize = 8;
/// Below it lies operators' work, which no lane's walk meets.
const FIRST_ORDINARY_PRIORITY: i16 = 10;

/// What a claim hands to the next one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cursor {
    turn: Option<Uuid>,
    owed: Option<i32>,
    /// Whose turn it was in claims beside the first: two that began at the same tenant would serve it twice.
    #[serde(skip)]
    beside: (Option<Uuid>, Option<i32>),
    /// The most lately advanced one last.
    marks: Vec<Mark>,
}

/// Jobs of this lane and priority up to `(run_at, id)` were taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Mark {
    #[serde(flatten)]
    lane: Lane,
    run_at: Timestamp,
    id: Uuid,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Lane {
    queue: String,
    #[serde(rename = "type")]
    job_type: String,
    tenant_id: Uuid,
    priority: i16,
}

impl Cursor {
    /// As the claim takes it.
    pub fn to_json(&self) -> String {
        // Strings, uuids and timestamps always serialise.
        serde_json::to_string(self).unwrap_or_else(|_| "{}".to_owned())
    }

    /// A position in a lane that no job can lie in, with which a claim goes the way of one in the middle of a backlog.
    pub(super) fn of_rehearsal(queue: &str) -> Cursor {
        let lane =
            Lane { queue: queue.to_owned(), job_type: String::new(), tenant_id: Uuid::nil(), priority: 100 };
        let mark = Mark { lane, run_at: Timestamp::UNIX_EPOCH, id: Uuid::nil() };
        Cursor { marks: vec![mark], ..Cursor::default() }
    }

    /// With positions that another claimer of the same lanes had.
    pub(super) fn recalled(marks: &str) -> Result<Cursor, serde_json::Error> {
        let mut marks: Vec<Mark> = serde_json::from_str(marks)?;
        marks.drain(..marks.len().saturating_sub(MOST_MARKS));
        Ok(Cursor { marks, ..Cursor::default() })
    }

    /// Whether a claim with this walks past anything.
    pub fn has_positions(&self) -> bool {
        !self.marks.is_empty()
    }

    /// Goes on by the positions of an earlier cursor.
    pub fn keep_positions_of(&mut self, earlier: Cursor) {
        self.marks = earlier.marks;
    }

    /// Takes in a claim's answer. One without jobs forgets the positions: with them the database cannot
    /// tell an empty queue from one whose rest is locked.
    pub fn advance(&mut self, claimed: &Claimed) {
        if claimed.turn.is_some() {
            (self.turn, self.owed) = (claimed.turn, claimed.owed);
        }
        self.advance_marks(claimed);
    }

    /// For a claim that is made at the same time on another connection: the same positions, a turn of its own.
    #[must_use]
    pub fn beside(&self) -> Cursor {
        let (turn, owed) = self.beside;
        Cursor { turn, owed, ..self.clone() }
    }

    /// Takes in the answer of a claim beside the first.
    pub fn advance_beside(&mut self, claimed: &Claimed) {
        if claimed.turn.is_some() {
            self.beside = (claimed.turn, claimed.owed);
        }
        self.advance_marks(claimed);
    }

    fn advance_marks(&mut self, claimed: &Claimed) {
        if claimed.jobs.is_empty() {
            self.marks.clear();
        }
        for (lane, (jobs, run_at, id)) in furthest(&claimed.jobs) {
            let known = self.marks.iter().position(|mark| mark.lane == lane);
            if known.is_none() && jobs < WORTH_MARKING {
                continue;
            }
            if let Some(known) = known {
                self.marks.remove(known);
            } else if self.marks.len() == MOST_MARKS {
                self.marks.remove(0);
            }
            self.marks.push(Mark { lane, run_at, id });
        }
    }
}

/// Per lane how many jobs came and the greatest place among them. Suspects stand outside the lanes, and a limit takes
/// jobs from the middle of one.
fn furthest(jobs: &[ClaimedJob]) -> HashMap<Lane, (usize, Timestamp, Uuid)> {
    let mut lanes = HashMap::new();
    for job in jobs.iter().filter(|job| !job.solo && !job.limited && job.priority >= FIRST_ORDINARY_PRIORITY)
    {
        let lane = Lane {
            queue: job.queue.clone(),
            job_type: job.job_type.clone(),
            tenant_id: job.job.tenant_id,
            priority: job.priority,
        };
        let place = lanes.entry(lane).or_insert((0, job.run_at, job.job.id));
        let (run_at, id) = (place.1, place.2).max((job.run_at, job.job.id));
        *place = (place.0 + 1, run_at, id);
    }
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::job::{JobRef, Locator};

    fn job(tenant: u128, id: u128) -> ClaimedJob {
        ClaimedJob {
            lease_id: Uuid::nil(),
            lease_expires_at: Timestamp::UNIX_EPOCH,
            solo: false,
            claim_no: 1,
            job: JobRef { tenant_id: Uuid::from_u128(tenant), id: Uuid::from_u128(id), fence: 1 },
            job_type: "test.noop".to_owned(),
            queue: "default".to_owned(),
            priority: 100,
            run_at: Timestamp::UNIX_EPOCH,
            failures: 0,
            deaths: 0,
            max_attempts: 5,
            timeout_seconds: 60,
            correlation_id: None,
            traceparent: None,
            payload: serde_json::value::to_raw_value(&()).unwrap(),
            locator: Locator { block: 0, offset: 1 },
            limited: false,
        }
    }

    fn claimed(jobs: Vec<ClaimedJob>) -> Claimed {
        let turn = jobs.last().map(|job| job.job.tenant_id);
        Claimed {
            jobs,
            lease_id: Uuid::nil(),
            expires_at: Timestamp::UNIX_EPOCH,
            turn,
            owed: Some(2),
            more: false,
            limited: false,
            retry_at: None,
        }
    }

    fn batch(tenant: u128, ids: std::ops::Range<u128>) -> Claimed {
        claimed(ids.map(|id| job(tenant, id)).collect())
    }

    #[test]
    fn a_lane_is_marked_once_it_gives_many_and_then_follows() {
        let mut cursor = Cursor::default();
        cursor.advance(&batch(1, 0..31));
        assert!(cursor.marks.is_empty());
        cursor.advance(&batch(1, 31..63));
        assert_eq!(cursor.marks[0].id, Uuid::from_u128(62));
        cursor.advance(&batch(1, 63..64));
        assert_eq!((cursor.marks.len(), cursor.marks[0].id), (1, Uuid::from_u128(63)));
        assert_eq!(cursor.turn, Some(Uuid::from_u128(1)));
    }

    #[test]
    fn the_least_lately_advanced_mark_goes_first() {
        let mut cursor = Cursor::default();
        for tenant in 0..8 {
            cursor.advance(&batch(tenant, 0..32));
        }
        cursor.advance(&batch(0, 32..33));
        cursor.advance(&batch(8, 0..32));
        let tenants: Vec<u128> = cursor.marks.iter().map(|mark| mark.lane.tenant_id.as_u128()).collect();
        assert_eq!(tenants, [2, 3, 4, 5, 6, 7, 0, 8]);
    }

    #[test]
    fn suspects_limited_and_reserved_work_leave_no_mark_and_nothing_forgets() {
        let mut cursor = Cursor::default();
        cursor.advance(&claimed((0..40).map(|id| ClaimedJob { solo: true, ..job(1, id) }).collect()));
        cursor.advance(&claimed((0..40).map(|id| ClaimedJob { limited: true, ..job(1, id) }).collect()));
        cursor.advance(&claimed((0..40).map(|id| ClaimedJob { priority: 5, ..job(1, id) }).collect()));
        assert!(cursor.marks.is_empty());
        cursor.advance(&batch(1, 0..32));
        cursor.advance(&claimed(Vec::new()));
        assert!(cursor.marks.is_empty());
        assert_eq!(cursor.turn, Some(Uuid::from_u128(1)));
    }

    #[test]
    fn a_claim_beside_has_a_turn_of_its_own_and_the_same_positions() {
        let mut cursor = Cursor::default();
        cursor.advance(&batch(1, 0..32));
        assert_eq!(cursor.beside().turn, None);
        cursor.advance_beside(&batch(2, 0..32));
        assert_eq!((cursor.turn, cursor.beside().turn), (Some(Uuid::from_u128(1)), Some(Uuid::from_u128(2))));
        assert_eq!((cursor.marks.len(), cursor.beside().marks.len()), (2, 2));
    }

    #[test]
    fn the_json_is_what_the_database_reads() {
        let mut cursor = Cursor::default();
        cursor.advance(&batch(1, 0..32));
        let json: serde_json::Value = serde_json::from_str(&cursor.to_json()).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "turn": "00000000-0000-0000-0000-000000000001",
                "owed": 2,
                "marks": [{
                    "queue": "default", "type": "test.noop", "priority": 100,
                    "tenant_id": "00000000-0000-0000-0000-000000000001",
                    "run_at": "1970-01-01T00:00:00Z", "id": "00000000-0000-0000-0000-00000000001f",
                }],
            })
        );
    }
}
