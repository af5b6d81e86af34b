//! What each route does, one file per verb.

pub(crate) mod admin;
pub(crate) mod bulk;
pub(crate) mod dead_letters;
pub(crate) mod health;
pub(crate) mod jobs;
pub(crate) mod series;

use axum::http::StatusCode;

use crate::problem::{ErrorCode, Problem};

/// Nothing is here.
pub(crate) async fn no_route() -> Problem {
    Problem::new(ErrorCode::NoRoute, "route_unknown", "there is no such route; /docs lists them")
}

/// Something is here, but not for this method.
pub(crate) async fn no_method() -> Problem {
    Problem::new(ErrorCode::NoRoute, "method_unknown", "the route does not take this method")
        .with_status(StatusCode::METHOD_NOT_ALLOWED)
}
