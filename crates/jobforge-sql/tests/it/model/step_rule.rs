//! What operators set: limits of what runs at once, weights and pauses, given and taken away again.

use super::KINDS;
use super::machine::Track;
use super::run::{Outcome, Run, Step};
use crate::schema::{TENANT_A, TENANT_B};

impl Run {
    /// Only outside of a transaction: a rule that nobody sees yet would need a model of its own.
    pub(crate) async fn rule(&mut self, track: Track) -> Outcome {
        let is_open = self.machine.open.contains_key(&track);
        if is_open {
            return Ok(Step::Skipped);
        }
        let tenant = [TENANT_A, TENANT_B][self.dice.below(2)];
        let kind = self.dice.below(2);
        let most = 1 + self.dice.below(4);
        let (die, away) = (self.dice.below(100), self.dice.chance(50));
        let set = if away {
            "p_clear => '{max_in_flight}'".to_owned()
        } else {
            format!("p_max_in_flight => {most}")
        };
        let sql = match die {
            0..=39 => format!("select jobforge.upsert_tenant('{tenant}', {set})"),
            40..=69 => format!("select jobforge.upsert_definition('{}', {set})", KINDS[kind]),
            70..=84 => format!("select jobforge.upsert_tenant('{tenant}', p_weight => {most})"),
            _ if away => format!("select jobforge.resume('tenant', '{tenant}')"),
            _ => format!("select jobforge.pause('tenant', '{tenant}')"),
        };
        match self.wires[track].ask_briefly(&sql, &[]).await {
            // A claim under way holds what it counts.
            Err(told) if told == "55P03" => return Ok(Step::Refused),
            answer => drop(answer?),
        }
        self.counts.ruled += 1;
        let rules = &mut self.machine.rules;
        match die {
            0..=39 if away => drop(rules.tenants.remove(&tenant)),
            0..=39 => drop(rules.tenants.insert(tenant, most)),
            40..=69 if away => drop(rules.kinds.remove(&kind)),
            40..=69 => drop(rules.kinds.insert(kind, most)),
            70..=84 => {}
            _ if away => drop(rules.paused.remove(&tenant)),
            _ => drop(rules.paused.insert(tenant)),
        }
        Ok(Step::Done)
    }
}
