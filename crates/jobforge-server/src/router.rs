//! Every route, on one screen.

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
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
use crate::routes::{bootstrap, errors, health, jobs, no_method, no_route, session};

/// The routes and the document that describes them.
pub(crate) fn routes() -> (Router<Arc<App>>, OpenApi) {
    let api = OpenApiRouter::with_openapi(openapi::base())
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .routes(routes!(bootstrap::bootstrap))
        .routes(routes!(session::create::create, session::get::get, session::end::end))
        .routes(routes!(jobs::enqueue::enqueue, jobs::list::list))
        .routes(routes!(jobs::get::get));
    OpenApiRouter::with_openapi(openapi::base()).nest(openapi::ROOT, api).split_for_parts()
}

/// The whole service.
pub(crate) fn router(app: Arc<App>) -> Router {
    let (routes, document) = routes();
    let limits = ServiceBuilder::new()
        .layer(CatchPanicLayer::custom(guard::on_panic))
        .layer(from_fn_with_state(app.clone(), guard::watch))
        .layer(CompressionLayer::new())
        .layer(DefaultBodyLimit::max(app.config.max_body_bytes));
    routes
        .route("/errors/{code}", get(errors::page))
        .merge(SwaggerUi::new("/docs").url("/openapi.json", openapi::finished(document)))
        .method_not_allowed_fallback(no_method)
        .fallback(no_route)
        .layer(limits)
        .with_state(app)
}
