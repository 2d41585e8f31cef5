//! Passes ABCI queries, which consist of `/package.Service/Method` and an encoded request, to the gRPC services. The
//! response to a failed query has the code that the SDK's `BaseApp` derives from the gRPC status.

use super::{Answer, Node, arguments::Arguments, shape};
use axum::http::{HeaderValue, uri::PathAndQuery};
use bytes::Bytes;
use serde_json::{Value, json};
use std::sync::Arc;
use tonic::{Code, Status};

/// An error registered in the SDK's codespace: code and text.
type Registered = (u32, &'static str);

const UNAUTHORIZED: Registered = (4, "unauthorized");
const UNKNOWN_REQUEST: Registered = (6, "unknown request");
const INVALID_REQUEST: Registered = (18, "invalid request");
const KEY_NOT_FOUND: Registered = (22, "key not found");
const INVALID_HEIGHT: Registered = (26, "invalid height");

/// Answers a query of the block at `height`, or of the newest block if `height` is 0 or missing. Proofs are not
/// returned.
pub(super) async fn query(node: Arc<Node>, given: Arguments) -> Answer {
    given.flag("prove")?;
    let path = given.text("path")?.unwrap_or_default();
    let data = given.hex("data")?.unwrap_or_default();
    let requested = given.number("height")?.unwrap_or_default();
    let at = match u64::try_from(requested).map(|height| node.queries.at(height)) {
        Ok(Ok(at)) => at,
        Ok(Err(error)) => return Ok(failure(&error.message, INVALID_HEIGHT, requested)),
        Err(_) => return Ok(failure("cannot query with height < 0", INVALID_HEIGHT, requested)),
    };
    let is_path = path.starts_with('/') && path.parse::<PathAndQuery>().is_ok();
    if !is_path {
        return Ok(failure("unknown query path", UNKNOWN_REQUEST, requested));
    }
    let height = (requested != 0).then(|| HeaderValue::from(requested));
    let answer = node.services.call(&path, &data, height.as_ref()).await;
    Ok(match answer {
        Ok(response) => {
            let height = response.height.as_ref().and_then(|height| height.to_str().ok());
            let height = height.map_or_else(|| shape::long(at.number()), str::to_owned);
            success(&response.message, &height)
        }
        Err(status) => status_response(&status, requested),
    })
}

fn success(message: &Bytes, height: &str) -> Value {
    response((0, ""), "", shape::base64(message), height)
}

/// Wraps a gRPC status as the SDK does (`gRPCErrorToSDKError`).
fn status_response(status: &Status, height: i64) -> Value {
    let (code, message) = (status.code(), status.message());
    if code == Code::Unimplemented {
        return failure("unknown query path", UNKNOWN_REQUEST, height);
    }
    let registered = match code {
        Code::NotFound => KEY_NOT_FOUND,
        Code::InvalidArgument | Code::FailedPrecondition => INVALID_REQUEST,
        Code::Unauthenticated => UNAUTHORIZED,
        _ => UNKNOWN_REQUEST,
    };
    failure(&format!("rpc error: code = {code:?} desc = {message}"), registered, height)
}

/// Returns a response with the log `<about>: <registered text>`, or just `about` if it already ends with that text.
fn failure(about: &str, (code, text): Registered, height: i64) -> Value {
    let suffix = format!(": {text}");
    let log = format!("{}{suffix}", about.strip_suffix(&suffix).unwrap_or(about));
    response((code, "sdk"), &log, Value::Null, &shape::long(height))
}

fn response((code, codespace): (u32, &str), log: &str, value: Value, height: &str) -> Value {
    let response = json!({
        "code": code,
        "log": log,
        "info": "",
        "index": "0",
        "key": null,
        "value": value,
        "proofOps": null,
        "height": height,
        "codespace": codespace,
    });
    json!({ "response": response })
}
