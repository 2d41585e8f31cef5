//! Checks properties that hold for all requests to the REST server. The fuzz targets are in `node/fuzz`.

use super::{
    gateway::Gateway,
    json::Style,
    request,
    route::{ROUTES, Route, Verb, style_of},
};
use axum::{
    Router,
    body::Body,
    extract::{RawPathParams, RawQuery, rejection::RawPathParamsRejection},
    http::{Method, Request, StatusCode, Uri},
    routing::{get, post},
};
use bytes::Bytes;
use futures_util::FutureExt;
use prost::Message;
use prost_reflect::{DynamicMessage, ReflectMessage};
use std::sync::LazyLock;
use tonic::service::Routes;
use tower::ServiceExt;

/// A gateway with the descriptors of the messages and without services.
static GATEWAY: LazyLock<Gateway> = LazyLock::new(|| Gateway::new(Routes::default()));
/// The paths of the server, with handlers that only parse.
static ROUTER: LazyLock<Router> = LazyLock::new(router);

/// Sends a request through the router. `data` is a path with its query string and, after a line feed, a body. A
/// request without a body is a GET request, and one with a body a POST request.
///
/// # Panics
/// If an accepted request changes or becomes far longer when it is encoded for the gRPC service, or if the response
/// is an internal error.
pub fn rest_request(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == b'\n');
    let (target, body) = end.map_or((data, None), |at| (&data[..at], Some(&data[at + 1..])));
    let Ok(uri) = Uri::try_from(target) else { return };
    let method = if body.is_some() { Method::POST } else { Method::GET };
    let body = Body::from(body.unwrap_or_default().to_vec());
    let Ok(request) = Request::builder().method(method).uri(uri).body(body) else { return };
    let response = ROUTER.clone().oneshot(request).now_or_never();
    let response = response.expect("parsing does not wait").expect("a router does not fail");
    assert!(!response.status().is_server_error(), "{}", response.status());
}

fn router() -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        for path in route.paths() {
            let style = style_of(&path);
            router = match route.verb {
                Verb::Get => router.route(
                    &path,
                    get(move |path, RawQuery(query): RawQuery| async move {
                        parse_text(route, style, path, query.as_deref())
                    }),
                ),
                Verb::Post => router
                    .route(&path, post(move |body: Bytes| async move { parse_json(route, &body) })),
            };
        }
    }
    router
}

fn parse_text(
    route: &Route,
    style: Style,
    path: Result<RawPathParams, RawPathParamsRejection>,
    query: Option<&str>,
) -> StatusCode {
    let Ok(path) = path else { return StatusCode::BAD_REQUEST };
    let values: Vec<_> = path.iter().collect();
    let method = GATEWAY.method(route.method_for(&values));
    let Ok(message) = request::from_text(&method.input(), &values, query) else {
        return StatusCode::BAD_REQUEST;
    };
    let input_bytes: usize = values.iter().map(|(_, value)| value.len()).sum();
    check(&message, style, input_bytes + query.map_or(0, str::len));
    StatusCode::OK
}

fn parse_json(route: &Route, body: &[u8]) -> StatusCode {
    let method = GATEWAY.method(route.method);
    let Ok(message) = request::from_json(&GATEWAY.descriptors, method.input(), body) else {
        return StatusCode::BAD_REQUEST;
    };
    check(&message, Style::Sdk, body.len());
    StatusCode::OK
}

fn check(message: &DynamicMessage, style: Style, input_bytes: usize) {
    let encoded = message.encode_to_vec();
    assert!(encoded.len() <= 16 * (input_bytes + 1), "{} bytes from {input_bytes}", encoded.len());
    let decoded = DynamicMessage::decode(message.descriptor(), encoded.as_slice());
    let decoded = decoded.expect("an encoded message decodes");
    assert_eq!(decoded.encode_to_vec(), encoded);
    // The conversion of nested messages to JSON may fail, but must not panic.
    let _ = serde_json::to_vec(&GATEWAY.descriptors.json(&decoded, style));
}

#[cfg(test)]
mod tests {
    #[test]
    fn properties_hold_for_queries_and_bodies() {
        for request in [
            "/cosmos/auth/v1beta1/accounts?pagination.limit=2&pagination.key=AAE%3D",
            "/cosmos/gov/v1/proposals/1/votes?proposal_status=2",
            "/chain/bank/v1beta1/balances/a%2fb/by_denom?denom=%ff",
            "/cosmos/tx/v1beta1/decode\n{\"tx_bytes\":\"CgEB\"}",
            "/cosmos/tx/v1beta1/encode\n{\"tx\":{\"body\":{\"messages\":[]}}}",
            "/nothing",
        ] {
            super::rest_request(request.as_bytes());
        }
    }
}
