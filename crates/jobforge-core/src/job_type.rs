//! Payloads that name their job type: producers and workers then share one Rust type and no string.

use serde::Serialize;

use crate::error::Error;
use crate::rpc::NewJob;

/// The payload of one type of job.
///
/// ```
/// use jobforge_core::JobType;
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct SendMail {
///     to: String,
/// }
///
/// impl JobType for SendMail {
///     const TYPE: &'static str = "mail.send";
/// }
///
/// # fn main() -> Result<(), jobforge_core::Error> {
/// let job = SendMail { to: "ada@example.com".to_owned() }.into_job()?.queue("mail");
/// assert_eq!(job.job_type, "mail.send");
/// # Ok(())
/// # }
/// ```
pub trait JobType {
    /// The key of the type's definition.
    const TYPE: &'static str;

    /// A job of this type with this payload and the definition's defaults.
    fn into_job(self) -> Result<NewJob, Error>
    where
        Self: Serialize + Sized,
    {
        NewJob::new(Self::TYPE, &self)
    }
}
