//! How a failure is told: what was refused, its code and reason, where to read more. And the exit codes.

use std::fmt;
use std::process::ExitCode;

use jobforge_core::Code;
use jobforge_core::schema::Problem;
use serde_json::json;

use crate::logs;
use crate::output::{Output, inert, say};

/// The command line or the settings are wrong; nothing was tried.
#[derive(Debug)]
pub(crate) struct Usage(String);

impl Usage {
    pub(crate) fn new(message: impl Into<String>) -> Usage {
        Usage(message.into())
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Tells the failure on stderr and gives the exit code.
pub(crate) fn report(error: &anyhow::Error, output: Output) -> ExitCode {
    let told = Told::of(error);
    if output.is_json() {
        let error = json!({ "error": {
            "message": told.message, "causes": told.causes, "code": told.code.map(Code::as_str),
            "reason": told.reason, "hint": told.hint, "problems": told.problems,
        }});
        say(&logs::clean(&error.to_string()));
    } else {
        say(&format!("error: {}", inert(&logs::clean(&told.message))));
        for cause in &told.causes {
            say(&format!("  because: {}", inert(&logs::clean(cause))));
        }
        if let Some(hint) = &told.hint {
            say(&format!("  hint: {hint}"));
        }
    }
    ExitCode::from(exit_code(error))
}

/// A failure in the parts that people and programs look for.
struct Told {
    message: String,
    causes: Vec<String>,
    code: Option<Code>,
    reason: Option<String>,
    hint: Option<String>,
    /// What is wrong with a payload, place by place.
    problems: Option<Vec<Problem>>,
}

impl Told {
    fn of(error: &anyhow::Error) -> Told {
        let mut texts = error.chain().map(ToString::to_string);
        let message = texts.next().unwrap_or_default();
        let mut causes: Vec<String> = texts.collect();
        causes.dedup();
        let core = core_error(error);
        let code = core.and_then(jobforge_core::Error::code);
        let hint = code.map(|code| format!("see docs/errors/{code}.md")).or_else(|| core.and_then(hint));
        let reason = core.and_then(jobforge_core::Error::reason).map(str::to_owned);
        let problems = match core {
            Some(jobforge_core::Error::Invalid { problems, .. }) => Some(problems.clone()),
            _ => None,
        };
        Told { message, causes, code, reason, hint, problems }
    }
}

fn core_error(error: &anyhow::Error) -> Option<&jobforge_core::Error> {
    error.chain().find_map(|cause| cause.downcast_ref::<jobforge_core::Error>())
}

/// What to do about a failure that is no refusal.
fn hint(error: &jobforge_core::Error) -> Option<String> {
    use jobforge_core::Error::{Connect, Database, Unfit};
    use tokio_postgres::error::SqlState;
    let text = match error {
        Unfit(_) => "use a login that is a member of jf_tenant, jf_worker or jf_operator and of nothing else",
        Connect { .. } => "is the server running, and are host, port, login and password right?",
        Database { source, .. } => match source.code()?.clone() {
            SqlState::UNDEFINED_FUNCTION | SqlState::INVALID_SCHEMA_NAME => {
                "the schema is missing or old: jobforge migrate"
            }
            SqlState::INSUFFICIENT_PRIVILEGE => {
                "this login may not do that: producers need jf_tenant, workers jf_worker, operators jf_operator"
            }
            _ => return None,
        },
        _ => return None,
    };
    Some(text.to_owned())
}

fn exit_code(error: &anyhow::Error) -> u8 {
    use jobforge_postgres::Error::{Fetch, NoMeans, NotFound, Unsuitable};
    let missing = |cause: &(dyn std::error::Error + 'static)| {
        matches!(cause.downcast_ref(), Some(NotFound | NoMeans { .. } | Unsuitable { .. } | Fetch { .. }))
    };
    if error.chain().any(missing) {
        3
    } else if error.is::<Usage>() {
        2
    } else {
        1
    }
}
