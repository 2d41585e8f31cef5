//! Describes the statuses and bodies of HTTP errors in the OpenAPI document.

use crate::costs;
use crate::rest::route::{Route, Verb};
use serde_json::{Map, Value, json};

/// The component that writes the body of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    /// The gateway, in JSON.
    Gateway,
    /// The listener, as plain text, before the path is examined.
    Listener,
    /// Either of them.
    Either,
    /// The HTTP parser, which sends no body.
    Parser,
}

/// All errors: status, description, and the component that writes the body.
const FAILURES: [(u16, &str, Writer); 12] = [
    (400, "The request is invalid, or this kind of chain does not support it.", Writer::Either),
    (403, "The host, or the origin of the page, is not allowed.", Writer::Listener),
    (404, "The requested item does not exist.", Writer::Gateway),
    (408, "The body of the request was incomplete after 10 s.", Writer::Listener),
    (413, "The body of the request is larger than rest.max-request-bytes.", Writer::Gateway),
    (414, "The path and the query are longer than 65,534 bytes.", Writer::Parser),
    (429, "Too many queries of this kind are waiting.", Writer::Gateway),
    (431, "There are more than 100 headers, or they are too large.", Writer::Parser),
    (
        500,
        "The node failed, a simulated transaction failed, or the broadcast mode is not supported.",
        Writer::Gateway,
    ),
    (501, "The path does not exist, or does not support this HTTP method.", Writer::Gateway),
    (
        503,
        "There are too many connections, clients use too much memory, or the requested height has not been reached.",
        Writer::Either,
    ),
    (504, "The query exceeded its time limit.", Writer::Gateway),
];

/// Methods that look up an item or a proposal that may not exist.
const METHODS_WITH_404: [&str; 18] = [
    "cosmos.auth.v1beta1.Query/Account",
    "cosmos.auth.v1beta1.Query/AccountInfo",
    "cosmos.auth.v1beta1.Query/ModuleAccountByName",
    "cosmos.bank.v1beta1.Query/DenomMetadata",
    "cosmos.bank.v1beta1.Query/DenomMetadataByQueryString",
    "cosmos.tx.v1beta1.Service/GetTx",
    "cosmos.gov.v1.Query/Proposal",
    "cosmos.gov.v1.Query/Vote",
    "cosmos.gov.v1.Query/Votes",
    "cosmos.gov.v1.Query/Deposit",
    "cosmos.gov.v1.Query/Deposits",
    "cosmos.gov.v1.Query/TallyResult",
    "cosmos.gov.v1beta1.Query/Proposal",
    "cosmos.gov.v1beta1.Query/Vote",
    "cosmos.gov.v1beta1.Query/Votes",
    "cosmos.gov.v1beta1.Query/Deposit",
    "cosmos.gov.v1beta1.Query/Deposits",
    "cosmos.gov.v1beta1.Query/TallyResult",
];

/// The mempool query, which fails if the mempool is too busy.
const MEMPOOL_QUERY: &str = "evmd.mempool.v1.Query/PendingSequence";

/// The statuses with which a request to any path can fail.
pub(super) const COMMON_STATUSES: [u16; 6] = [400, 403, 414, 431, 501, 503];

/// Returns the statuses with which a route can fail.
pub(super) fn statuses(route: &Route) -> Vec<u16> {
    let mut statuses = vec![500];
    statuses.extend(COMMON_STATUSES);
    if route.verb == Verb::Post {
        statuses.extend([408, 413]);
    }
    if route.methods().any(|method| METHODS_WITH_404.contains(&method)) {
        statuses.push(404);
    }
    if route.methods().any(|method| method == MEMPOOL_QUERY || costs::has_concurrency_limit(method))
    {
        statuses.push(429);
    }
    if route.methods().any(costs::has_time_limit) {
        statuses.push(504);
    }
    statuses
}

/// Returns references to the responses with these statuses.
pub(super) fn response_references(statuses: impl IntoIterator<Item = u16>) -> Map<String, Value> {
    let responses = statuses.into_iter().map(|status| {
        let reference = format!("#/components/responses/Failure{status}");
        (status.to_string(), json!({ "$ref": reference }))
    });
    responses.collect()
}

/// Returns the error responses to which operations refer.
pub(super) fn components() -> Map<String, Value> {
    let responses = FAILURES.iter().map(|(status, description, writer)| {
        (format!("Failure{status}"), response(description, *writer))
    });
    responses.collect()
}

fn response(description: &str, writer: Writer) -> Value {
    let mut content = Map::new();
    if matches!(writer, Writer::Gateway | Writer::Either) {
        let schema = json!({ "$ref": "#/components/schemas/Error" });
        content.insert("application/json".to_owned(), json!({ "schema": schema }));
    }
    if matches!(writer, Writer::Listener | Writer::Either) {
        let schema = json!({ "type": "string" });
        content.insert("text/plain; charset=utf-8".to_owned(), json!({ "schema": schema }));
    }
    let mut response = json!({ "description": description });
    if !content.is_empty() {
        response["content"] = content.into();
    }
    response
}

/// Returns the schema of [`crate::rest::error::Error`].
pub(super) fn error_schema() -> Value {
    json!({
        "type": "object",
        "description": "Why a request failed.",
        "properties": {
            "code": { "type": "integer", "minimum": 1, "maximum": 16, "description": "The gRPC status code." },
            "message": { "type": "string" },
            "details": { "type": "array", "maxItems": 0 },
        },
        "required": ["code", "message", "details"],
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::error::Error;
    use boon::{Compiler, Schemas};
    use tonic::Code;

    #[test]
    fn every_error_of_the_gateway_is_documented() {
        let (mut compiler, mut schemas) = (Compiler::new(), Schemas::new());
        compiler.add_resource("http://localhost/error.json", error_schema()).unwrap();
        let schema = compiler.compile("http://localhost/error.json", &mut schemas).unwrap();
        let codes = (1..=16).map(|code| Error::of_service(Code::from(code), "a reason"));
        for error in codes.chain([Error::invalid("a reason"), Error::not_served()]) {
            let body = serde_json::to_value(&error).unwrap();
            assert!(schemas.validate(&body, schema).is_ok(), "{body}");
            let status = error.into_response().status().as_u16();
            let described = FAILURES.iter().find(|(known, ..)| *known == status);
            let (.., writer) = described.unwrap_or_else(|| panic!("{status} is not described"));
            assert!(matches!(writer, Writer::Gateway | Writer::Either), "{status}");
        }
    }

    #[test]
    fn methods_that_may_return_404_are_served() {
        let served: Vec<_> = crate::rest::route::ROUTES.iter().flat_map(Route::methods).collect();
        for method in METHODS_WITH_404 {
            assert!(served.contains(&method), "{method}");
        }
    }
}
