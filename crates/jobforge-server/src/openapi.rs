//! The OpenAPI document: made from the routes themselves.

use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{
    Content, OpenApi, Ref, RefOr, Required, Response, ResponseBuilder, SecurityRequirement,
    schema::ComponentsBuilder,
};
use utoipa::{Modify, OpenApi as _, PartialSchema, ToSchema};

use crate::problem::{FaultBody, ProblemBody};
use crate::router;

/// Where the routes begin.
pub(crate) const ROOT: &str = "/api/v1";
const KEY: &str = "key";

#[derive(utoipa::OpenApi)]
#[openapi(
    info(title = "JobForge", description = "Durable background work for many tenants on Postgres."),
    modifiers(&Common)
)]
pub(crate) struct Base;

/// The document of this version, as JSON.
pub fn document() -> String {
    let (_, document) = router::routes();
    let mut text = finished(document).to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

/// What all routes have in common.
pub(crate) fn finished(mut document: OpenApi) -> OpenApi {
    Common.modify(&mut document);
    document
}

pub(crate) fn base() -> OpenApi {
    Base::openapi()
}

struct Common;

impl Modify for Common {
    fn modify(&self, document: &mut OpenApi) {
        let components = document.components.take().unwrap_or_default();
        let key = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("jf_<id>_<secret>");
        let components = ComponentsBuilder::from(components)
            .schema(ProblemBody::name(), ProblemBody::schema())
            .schema(FaultBody::name(), FaultBody::schema())
            .security_scheme(KEY, SecurityScheme::Http(key.build()))
            .build();
        document.components = Some(components);
        document.security = Some(vec![SecurityRequirement::new(KEY, Vec::<String>::new())]);
        for item in document.paths.paths.values_mut() {
            let operations = [
                &mut item.get,
                &mut item.put,
                &mut item.post,
                &mut item.delete,
                &mut item.patch,
                &mut item.head,
            ];
            for operation in operations.into_iter().flatten() {
                operation.operation_id = Some(name(operation));
                if is_of_a_tenant(operation) {
                    operation.parameters.get_or_insert_default().push(RefOr::T(tenant_header()));
                }
                let responses = &mut operation.responses.responses;
                responses.entry("default".to_owned()).or_insert_with(|| RefOr::T(refusal()));
            }
        }
    }
}

/// A name that no other operation has, for generated clients: the verb and, unless it says so itself, of what.
fn name(operation: &Operation) -> String {
    let verb = operation.operation_id.as_deref().unwrap_or_default();
    match operation.tags.as_deref() {
        Some([tag, ..]) if !verb.contains('_') => format!("{verb}_{}", tag.replace(' ', "_")),
        _ => verb.to_owned(),
    }
}

/// Whether an operation is one tenant's, which a super-admin has to name.
fn is_of_a_tenant(operation: &Operation) -> bool {
    let tags = operation.tags.as_deref().unwrap_or_default();
    let known = tags
        .iter()
        .any(|tag| ["jobs", "dead letters", "bulk operations", "connectors"].contains(&tag.as_str()));
    match operation.operation_id.as_deref() {
        Some("tick_jobs") => false,
        Some("list_audit") => true,
        _ => known,
    }
}

fn tenant_header() -> Parameter {
    ParameterBuilder::new()
        .name("JobForge-Tenant")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(
            "For which tenant a super-admin acts; every other credential has a tenant of its own",
        ))
        .schema(Some(
            ObjectBuilder::new()
                .schema_type(Type::String)
                .format(Some(SchemaFormat::KnownFormat(KnownFormat::Uuid))),
        ))
        .build()
}

/// Every refusal has one form.
fn refusal() -> Response {
    let body = Content::new(Some(Ref::from_schema_name(ProblemBody::name())));
    ResponseBuilder::new()
        .description("Refused: a problem with its code and reason (RFC 9457)")
        .content("application/problem+json", body)
        .build()
}
