//! Why a request got no answer. No message repeats a path, a query or a header: they may hold secrets.

use std::time::Duration;

use super::resolver::NoAddress;

/// Why a request got no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EgressError {
    /// The URL is of a kind that is never requested.
    #[error("the URL is refused: {0}")]
    Url(UrlFault),
    /// The address in the URL may not be reached.
    #[error("{host} is not an address that may be reached")]
    Denied {
        /// The host of the URL.
        host: String,
    },
    /// The name is unknown, or known but all of its addresses are denied. One answer for both: what resolves
    /// inside a private network is nobody's business outside it.
    #[error("{host} has no address that may be reached")]
    NoAddress {
        /// The host of the URL.
        host: String,
    },
    /// The answers lead on and on.
    #[error("more than {0} redirects")]
    TooManyRedirects(usize),
    /// An encrypted request would go on unencrypted.
    #[error("a redirect leads from https to http, at {host}")]
    Downgrade {
        /// The host that answered so.
        host: String,
    },
    /// A redirect leads nowhere.
    #[error("a redirect of {host} has no usable location")]
    Location {
        /// The host that answered so.
        host: String,
    },
    /// The answer's headers are more than anybody needs.
    #[error("the headers of {host} are too many or too large")]
    Headers {
        /// The host that answered so.
        host: String,
    },
    /// No answer, or not all of it, in time.
    #[error("{host} did not answer within {} s", (after.as_secs_f32() * 10.0).round() / 10.0)]
    Timeout {
        /// The host of the URL.
        host: String,
        /// The time it had.
        after: Duration,
    },
    /// The connection could not be made, or broke.
    #[error("the connection to {host} failed: {cause}")]
    Connection {
        /// The host of the URL.
        host: String,
        /// What the system or the protocol said.
        cause: String,
    },
    /// The client cannot be made from these settings.
    #[error("the egress client cannot be made: {0}")]
    Setup(String),
}

/// What is wrong with a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlFault {
    /// It cannot be read.
    #[error("it is no absolute URL")]
    Malformed,
    /// Another scheme.
    #[error("only http and https are requested")]
    Scheme,
    /// A name or a password before the host.
    #[error("a user name or password in it is not sent")]
    UserInfo,
    /// No host.
    #[error("it names no host")]
    NoHost,
    /// A port that is not allowed.
    #[error("its port is not allowed")]
    Port,
}

impl EgressError {
    /// Whether the same request would fail again: nothing but a change of the request or of the settings helps.
    pub fn is_permanent(&self) -> bool {
        match self {
            EgressError::Url(_) | EgressError::Denied { .. } | EgressError::Setup(_) => true,
            EgressError::TooManyRedirects(_)
            | EgressError::Downgrade { .. }
            | EgressError::Location { .. } => true,
            EgressError::Headers { .. } => true,
            EgressError::NoAddress { .. } | EgressError::Timeout { .. } | EgressError::Connection { .. } => {
                false
            }
        }
    }

    /// What the client's error means, for this host and after this time.
    pub(super) fn of(error: &reqwest::Error, host: &str, after: Duration) -> EgressError {
        let host = host.to_owned();
        let mut causes = Vec::new();
        let mut cause: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(error);
        while let Some(source) = cause {
            if source.is::<NoAddress>() {
                return EgressError::NoAddress { host };
            }
            causes.push(source.to_string());
            cause = source.source();
        }
        if error.is_timeout() {
            return EgressError::Timeout { host, after };
        }
        // The innermost cause is the system's word; those around it repeat it or name the client's parts.
        let cause = causes.pop().unwrap_or_else(|| "no cause was given".to_owned());
        EgressError::Connection { host, cause }
    }
}
