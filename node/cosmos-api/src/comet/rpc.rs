//! Answers calls and batches in JSON-RPC 2.0, and calls as URIs, whose responses have the id -1.

use super::{
    Node, REQUEST_TIME,
    arguments::Arguments,
    error::Error,
    method::{METHODS, Method},
};
use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use std::{fmt::Write, sync::Arc};
use tokio::time::Instant;

/// Maximum number of calls in a batch: as many as cosmjs sends by default.
const MAX_BATCH_CALLS: usize = 20;
/// The id of a response to a URI, or to a request without a readable id.
pub(super) const NO_ID: i64 = -1;

/// Answers a call or a batch. A method that fails also produces a response. Calls without a response at `end` fail
/// with a timeout, each under its own id.
pub(super) async fn answer_body(node: Arc<Node>, body: &[u8], end: Instant) -> Response {
    let calls = match serde_json::from_slice(body) {
        Ok(Value::Array(calls)) => calls,
        Ok(call) => {
            let response = answer_call(node, call, end).await;
            return response.map_or_else(|| ().into_response(), json);
        }
        Err(error) => return server_error(&Error::Parse(error.to_string())),
    };
    if calls.len() > MAX_BATCH_CALLS {
        return server_error(&Error::Batch { calls: calls.len(), max: MAX_BATCH_CALLS });
    }
    let mut answers = Vec::new();
    for call in calls {
        answers.extend(answer_call(Arc::clone(&node), call, end).await);
    }
    json(format!("[{}]", answers.join(",")))
}

/// Returns a response whose body is this JSON.
fn json(text: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// Answers a call. A call without an id is a notification, which has no response.
async fn answer_call(node: Arc<Node>, call: Value, end: Instant) -> Option<String> {
    match Call::read(call)? {
        Ok(call) => Some(call.answer(node, end).await),
        Err(response) => Some(response),
    }
}

/// A call that is not a notification.
pub(super) struct Call {
    pub(super) id: Value,
    method: Value,
    params: Value,
}

impl Call {
    /// Reads a call. Returns `None` for a notification, and an error response for JSON that is not a call.
    pub(super) fn read(mut call: Value) -> Option<Result<Self, String>> {
        let id = match call.get_mut("id").map(Value::take) {
            None | Some(Value::Null) if call.is_object() => return None,
            Some(id) if id.is_string() || id.is_number() => id,
            _ => {
                let reason = "a call must be an object whose id is a string or a number";
                return Some(Err(failure(&json!(NO_ID), &Error::Request(reason.to_owned()))));
            }
        };
        let mut member = |name| call.get_mut(name).map(Value::take).unwrap_or_default();
        Some(Ok(Self { id, method: member("method"), params: member("params") }))
    }

    pub(super) fn method(&self) -> Result<&str, Error> {
        let name = self.method.as_str();
        name.ok_or_else(|| Error::Request("method is not a string".to_owned()))
    }

    /// Returns the parameters. `names` are those of the method.
    pub(super) fn arguments(&mut self, names: &'static [&'static str]) -> Result<Arguments, Error> {
        Arguments::of_json(self.params.take(), names)
    }

    /// Runs the method. Returns its response, or a timeout if there is none at `end`.
    pub(super) async fn answer(mut self, node: Arc<Node>, end: Instant) -> String {
        let answer = async {
            let method = Method::find(self.method()?)?;
            method.answer(node, self.arguments(method.parameters)?).await
        };
        let answer = tokio::time::timeout_at(end, answer).await;
        match answer.unwrap_or(Err(Error::TooLong(REQUEST_TIME.as_secs()))) {
            Ok(result) => reply(&self.id, result.get()),
            Err(error) => failure(&self.id, &error),
        }
    }
}

/// Answers a URI. As in CometBFT, an unknown method has the status 404, and any other failure 500.
pub(super) async fn answer_uri(
    node: Arc<Node>,
    name: &str,
    pairs: Vec<(String, String)>,
    end: Instant,
) -> Response {
    let method = match Method::find(name) {
        Ok(method) => method,
        Err(error) => return error_response(StatusCode::NOT_FOUND, &error),
    };
    let answer = async { method.answer(node, Arguments::of_uri(pairs, method.parameters)?).await };
    let answer = tokio::time::timeout_at(end, answer).await;
    match answer.unwrap_or(Err(Error::TooLong(REQUEST_TIME.as_secs()))) {
        Ok(result) => json(reply(&json!(NO_ID), result.get())),
        Err(error) => server_error(&error),
    }
}

/// Returns the response to a request that fails as a whole, with the status 500.
pub(super) fn server_error(error: &Error) -> Response {
    error_response(StatusCode::INTERNAL_SERVER_ERROR, error)
}

/// Returns the response to a request that fails as a whole, with this status.
pub(super) fn error_response(status: StatusCode, error: &Error) -> Response {
    (status, json(failure(&json!(NO_ID), error))).into_response()
}

/// Returns the JSON of a response; `result` is JSON.
pub(super) fn reply(id: &Value, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// Returns the JSON of an error response.
pub(super) fn failure(id: &Value, error: &Error) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "error": error.to_json() }).to_string()
}

/// Returns a response with one line for each method and its parameters.
pub(super) fn list() -> Response {
    let mut out = String::new();
    for method in METHODS {
        let parameters = method.parameters.join(", ");
        writeln!(out, "{}({parameters})", method.name).expect("writing to a string cannot fail");
    }
    out.into_response()
}
