//! Serves REST: the queries over HTTP and JSON, the OpenAPI document at `/openapi.json` and Swagger UI at `/swagger`.
//!
//! The table in [`route`] maps a request to a gRPC method, the services of [`crate::grpc`] answer the request, and
//! the response is converted to JSON. The headers `x-cosmos-block-height` and [`GATEWAY_HEIGHT_HEADER`] both select
//! the block of a query, and name the queried block in the response.

pub mod display_json;
mod error;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod gateway;
pub mod json;
mod openapi;
mod request;
mod route;
mod swagger;

use crate::{grpc, query::Queries};
use axum::{
    Router,
    extract::{
        DefaultBodyLimit, RawPathParams, RawQuery, State,
        rejection::{BytesRejection, RawPathParamsRejection},
    },
    http::{HeaderMap, HeaderValue, header::CONTENT_TYPE},
    response::Response,
    routing::{get, post},
};
use budget::Budget;
use bytes::Bytes;
use config::Rest;
use error::Error;
use gateway::Gateway;
use json::Style;
use route::{ROUTES, Route, Verb, style_of};
use server::{
    access::{Access, PageRules},
    front_page,
    heights::Heights,
    listen::{self, Bounds, Protocol, Server},
    listener::Listener,
};
use std::sync::Arc;

/// The name of [`grpc::HEIGHT_HEADER`] in the SDK's gateway.
const GATEWAY_HEIGHT_HEADER: &str = "grpc-metadata-x-cosmos-block-height";
/// The path of the OpenAPI document.
const OPENAPI_PATH: &str = "/openapi.json";

/// Serves the address of `listener` until [`Server::stop`].
///
/// # Panics
/// Outside a Tokio runtime.
pub fn serve(config: &Rest, listener: Listener, budget: &Arc<Budget>, queries: Queries) -> Server {
    let access = Access::new(
        PageRules::QUERIES,
        ("rest.allowed-hosts", &config.allowed_hosts),
        ("rest.cors-origins", &config.cors_origins),
    );
    let bounds = Bounds {
        heights: Some(Heights::of(&queries.published)),
        connections: Arc::clone(&budget.rest),
        concurrent: config.max_concurrent,
        body: config.max_request_bytes as usize,
        protocol: Protocol::Http { access, health: &[] },
    };
    let pages = queries.pages();
    let router = front_page::with_link(router(config, queries), "REST", pages);
    listen::serve(listener, bounds, budget, router)
}

fn router(config: &Rest, queries: Queries) -> Router {
    let max_request_bytes = config.max_request_bytes as usize;
    let gateway = Arc::new(Gateway::new(grpc::routes(&queries, max_request_bytes)));
    paths(&gateway)
        .fallback(|| async { Error::not_served().into_response() })
        .method_not_allowed_fallback(|| async { Error::not_served().into_response() })
        .with_state(gateway)
        .layer(DefaultBodyLimit::max(max_request_bytes))
}

/// Returns the router of all paths.
fn paths(gateway: &Gateway) -> Router<Arc<Gateway>> {
    let mut router = Router::new();
    for route in ROUTES {
        let submit_body = move |gateway, body| submit(gateway, route, body);
        for path in route.paths() {
            let style = style_of(&path);
            let answer = move |gateway, path, query, headers| {
                answer_query(gateway, route, style, path, query, headers)
            };
            router = match route.verb {
                Verb::Get => router.route(&path, get(answer)),
                Verb::Post => router.route(&path, post(submit_body)),
            };
        }
    }
    let description: Bytes = openapi::text(gateway).into();
    let described = async move || ([(CONTENT_TYPE, "application/json")], description.clone());
    router.route(OPENAPI_PATH, get(described)).merge(swagger::router())
}

/// Returns the gRPC methods of all routes.
#[cfg(test)]
pub fn methods() -> impl Iterator<Item = &'static str> {
    ROUTES.iter().map(|route| route.method)
}

async fn answer_query(
    State(gateway): State<Arc<Gateway>>,
    route: &Route,
    style: Style,
    path: Result<RawPathParams, RawPathParamsRejection>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let answer = async {
        let path = path.map_err(|error| Error::invalid(error.body_text()))?;
        let values: Vec<_> = path.iter().collect();
        let method = gateway.method(route.method_for(&values));
        let message = request::from_text(&method.input(), &values, query.as_deref())?;
        gateway.call(&method, &message, height(&headers)?, style).await
    };
    answer.await.unwrap_or_else(Error::into_response)
}

/// Returns the block that a request selects, by either header.
fn height(headers: &HeaderMap) -> Result<Option<&HeaderValue>, Error> {
    let names = [grpc::HEIGHT_HEADER, GATEWAY_HEIGHT_HEADER];
    let mut heights = names.iter().flat_map(|name| headers.get_all(*name));
    let height = heights.next();
    if heights.any(|other| Some(other) != height) {
        let names = names.join(" and ");
        return Err(Error::invalid(format!("{names} name different blocks: send one of them")));
    }
    Ok(height)
}

async fn submit(
    State(gateway): State<Arc<Gateway>>,
    route: &Route,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let answer = async {
        let body = body.map_err(|error| Error::of_body(error.status(), error.body_text()))?;
        let method = gateway.method(route.method);
        let message = request::from_json(&gateway.descriptors, method.input(), &body)?;
        gateway.call(&method, &message, None, Style::Sdk).await
    };
    answer.await.unwrap_or_else(Error::into_response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use tonic::service::Routes;

    /// Returns a router's paths: the quoted texts in its debug output that begin with a slash. It has no other list.
    fn served(router: &Router<Arc<Gateway>>) -> BTreeSet<String> {
        let shown = format!("{router:?}");
        let shown = shown.split("fallback_router").next().unwrap();
        shown.split('"').filter(|text| text.starts_with('/')).map(str::to_owned).collect()
    }

    #[test]
    fn sdk_paths_come_first_in_the_document() {
        let gateway = Gateway::new(Routes::default());
        let text = openapi::text(&gateway);
        let found: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(found, openapi::describe(&gateway));
        let positions: Vec<_> = ["\"/cosmos/tx/v1beta1/txs\":", "\"/chain/", "\"/swagger\":"]
            .map(|path| text.find(path).unwrap())
            .into();
        assert!(positions.is_sorted(), "{positions:?}");
    }

    #[test]
    fn document_describes_exactly_the_served_paths() {
        let gateway = Gateway::new(Routes::default());
        let served = served(&paths(&gateway));
        assert!(served.contains(OPENAPI_PATH) && served.contains("/swagger/"), "{served:?}");
        let document = openapi::describe(&gateway);
        let described: BTreeSet<_> =
            document["paths"].as_object().unwrap().keys().cloned().collect();
        let not_served = route::NOT_SERVED.iter().map(|(_, path)| (*path).to_owned());
        assert_eq!(described, served.into_iter().chain(not_served).collect());
    }
}
