//! What a plan says, reduced to its scans: of which table, by which index, under which condition, below what.

use std::fmt;

use serde_json::Value;

/// One scan node of one statement's plan.
#[derive(Debug, Clone)]
pub(crate) struct Scan {
    /// The beginning of the statement, on one line.
    pub(crate) statement: String,
    /// `Index Scan`, `Seq Scan`, `Tid Scan`, …
    pub(crate) kind: String,
    pub(crate) table: String,
    pub(crate) index: String,
    /// The index condition, without aliases.
    pub(crate) condition: String,
    pub(crate) backward: bool,
    /// From the nearest node upwards.
    pub(crate) above: Vec<String>,
    /// Rows that it looked at, those it then threw away included.
    pub(crate) tuples: u64,
}

impl Scan {
    /// Rows come in the index's order and stop when enough were there: up to its limit there is nothing that would have
    /// to read them all.
    pub(crate) fn stops_at_its_limit(&self) -> bool {
        let streams = ["LockRows", "Subquery Scan", "Nested Loop", "Result", "Merge Append"];
        let mut below_limit = self.above.iter().take_while(|kind| *kind != "Limit");
        below_limit.all(|kind| streams.contains(&kind.as_str()))
            && self.above.iter().any(|kind| kind == "Limit")
    }

    /// One row by the whole primary key.
    pub(crate) fn is_by_key(&self) -> bool {
        self.kind.starts_with("Index")
            && self.index == "jobs_pk"
            && self.has("tenant_id = ")
            && self.has("(id = ")
    }

    pub(crate) fn has(&self, condition: &str) -> bool {
        self.condition.contains(condition)
    }

    pub(crate) fn locks(&self) -> bool {
        self.above.iter().take_while(|kind| *kind != "Limit").any(|kind| kind == "LockRows")
    }
}

impl fmt::Display for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {} by {:?} on {:?} ({} rows) below {} in {:?}",
            self.kind,
            self.table,
            self.index,
            self.condition,
            self.tuples,
            self.above.join(" < "),
            self.statement
        )
    }
}

/// All scans of a plan as `auto_explain` tells it.
pub(crate) fn scans(told: &Value) -> Vec<Scan> {
    let text = told["Query Text"].as_str().unwrap_or("");
    let statement: String = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(120).collect();
    let mut found = Vec::new();
    walk(&told["Plan"], &mut Vec::new(), &mut |node, above| {
        let kind = text_of(node, "Node Type");
        if node["Relation Name"].is_string() && kind != "ModifyTable" {
            found.push(Scan {
                statement: statement.clone(),
                table: text_of(node, "Relation Name"),
                index: text_of(node, "Index Name"),
                condition: without_aliases(&text_of(node, "Index Cond")),
                backward: text_of(node, "Scan Direction") == "Backward",
                above: above.iter().rev().cloned().collect(),
                tuples: tuples(node),
                kind,
            });
        }
    });
    found
}

fn walk(node: &Value, above: &mut Vec<String>, see: &mut impl FnMut(&Value, &[String])) {
    see(node, above);
    above.push(text_of(node, "Node Type"));
    for child in node["Plans"].as_array().into_iter().flatten() {
        walk(child, above, see);
    }
    above.pop();
}

fn text_of(node: &Value, key: &str) -> String {
    node[key].as_str().unwrap_or("").to_owned()
}

/// Both counts are averages over the loops.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts of a test's rows")]
fn tuples(node: &Value) -> u64 {
    let number = |key: &str| node[key].as_f64().unwrap_or(0.0);
    ((number("Actual Rows") + number("Rows Removed by Filter")) * number("Actual Loops")).round() as u64
}

fn without_aliases(condition: &str) -> String {
    ["j.", "k.", "f.", "j_1.", "j_2.", "j_3.", "h."]
        .iter()
        .fold(condition.to_owned(), |text, alias| text.replace(alias, ""))
}
