//! Every route, on one screen.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use tower::ServiceBuilder;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use utoipa_swagger_ui::SwaggerUi;

use crate::app::App;
use crate::guard;
use crate::openapi;
use crate::routes::admin::{
    audit, connectors, definitions, keys, pauses, queues, series as system_series, system, tenants, workers,
};
use crate::routes::{
    bootstrap, bulk, dead_letters, errors, health, jobs, no_method, no_route, series, session, worker,
};

/// The routes and the document that describes them.
pub(crate) fn routes() -> (Router<Arc<App>>, OpenApi) {
    let api = OpenApiRouter::with_openapi(openapi::base())
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .routes(routes!(bootstrap::bootstrap))
        .routes(routes!(session::create::create, session::get::get, session::end::end))
        .routes(routes!(jobs::enqueue::enqueue, jobs::list::list))
        .routes(routes!(jobs::summary::summary))
        .routes(routes!(jobs::tick::tick))
        .routes(routes!(jobs::get::get))
        .routes(routes!(jobs::attempts::attempts))
        .routes(routes!(jobs::logs::logs))
        .routes(routes!(jobs::result::result))
        .routes(routes!(jobs::wait::wait))
        .routes(routes!(jobs::explain::explain))
        .routes(routes!(jobs::cancel::cancel))
        .routes(routes!(jobs::retry::retry))
        .routes(routes!(jobs::reschedule::reschedule))
        .routes(routes!(jobs::redrive::redrive))
        .routes(routes!(dead_letters::list::list))
        .routes(routes!(dead_letters::groups::groups))
        .routes(routes!(bulk::start::start, bulk::list::list))
        .routes(routes!(bulk::get::get))
        .routes(routes!(bulk::results::results))
        .routes(routes!(bulk::resume::resume))
        .routes(routes!(bulk::undo::undo))
        .routes(routes!(series::series))
        .routes(routes!(worker::register::register))
        .routes(routes!(worker::stop::stop))
        .routes(routes!(worker::claim::claim))
        .routes(routes!(worker::heartbeat::heartbeat))
        .routes(routes!(worker::heartbeat::heartbeat_job))
        .routes(routes!(worker::complete::complete_jobs))
        .routes(routes!(worker::complete::complete_job))
        .routes(routes!(worker::fail::fail_jobs))
        .routes(routes!(worker::fail::fail_job))
        .routes(routes!(worker::release::release_jobs))
        .routes(routes!(worker::release::release_job))
        .routes(routes!(worker::snooze::snooze))
        .routes(routes!(worker::progress::progress))
        .routes(routes!(worker::log::log))
        .routes(routes!(worker::exit::exit))
        .routes(routes!(definitions::list::list, definitions::create::create))
        .routes(routes!(
            definitions::get::get,
            definitions::upsert::upsert,
            definitions::deactivate::deactivate
        ))
        .routes(routes!(tenants::list::list))
        .routes(routes!(tenants::get::get, tenants::upsert::upsert))
        .routes(routes!(pauses::list::list, pauses::pause::pause))
        .routes(routes!(pauses::resume::resume))
        .routes(routes!(keys::list::list, keys::create::create))
        .routes(routes!(keys::revoke::revoke))
        .routes(routes!(connectors::list::list))
        .routes(routes!(connectors::get::get, connectors::upsert::upsert, connectors::delete::delete))
        .routes(routes!(connectors::enable::enable))
        .routes(routes!(workers::list))
        .routes(routes!(queues::list))
        .routes(routes!(system::look))
        .routes(routes!(system_series::read))
        .routes(routes!(audit::list))
        .routes(routes!(audit::list_all));
    OpenApiRouter::with_openapi(openapi::base()).nest(openapi::ROOT, api).split_for_parts()
}

/// The whole service.
pub(crate) fn router(app: Arc<App>) -> Router {
    let (routes, document) = routes();
    let limits = ServiceBuilder::new()
        .layer(from_fn_with_state(app.clone(), guard::watch))
        .layer(CatchPanicLayer::custom(guard::on_panic))
        .layer(CompressionLayer::new());
    routes
        .route("/errors/{code}", get(errors::page))
        .merge(SwaggerUi::new("/docs").url("/openapi.json", openapi::finished(document)))
        .method_not_allowed_fallback(no_method)
        .fallback(no_route)
        .layer(limits)
        .with_state(app)
}
