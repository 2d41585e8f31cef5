//! Checks properties that hold for all bytes that a client may send. The fuzz targets (`node/fuzz`) call this module.

use crate::envelope::{Body, Envelope, NO_ID};
use rpc_types::error::Error;
use serde_json::{Value, value::RawValue};

/// Maximum number of calls of a batch.
const MAX_BATCH: usize = 8;

/// Reads the body of a request, and each call in it.
///
/// # Panics
/// Panics if a call differs from the result of a JSON parser, or if an id cannot be sent back.
pub fn envelope(body: &[u8]) {
    match Body::read(body, MAX_BATCH) {
        Ok(Body::Single(call)) => check_call(body, &call),
        Ok(Body::Batch(members)) => {
            assert!((1..=MAX_BATCH).contains(&members.len()), "{} members", members.len());
            members.into_iter().for_each(check_member);
        }
        Ok(Body::TooMany(members)) => {
            assert_eq!(members.len(), MAX_BATCH);
            members.into_iter().for_each(check_member);
        }
        Err((id, error)) => check_error(body, id, &error),
    }
}

fn check_member(member: &RawValue) {
    let text = member.get().as_bytes();
    match Envelope::read(text) {
        Ok(call) => check_call(text, &call),
        Err((id, error)) => check_error(text, id, &error),
    }
}

fn check_call(text: &[u8], call: &Envelope<'_>) {
    if let Some(id) = call.id() {
        check_id(text, id);
    }
    // `Envelope` does not parse the parameters, which may be nested deeper than this parser accepts.
    let Ok(whole) = serde_json::from_slice::<Value>(text) else { return };
    assert_eq!(whole["jsonrpc"], "2.0");
    assert_eq!(whole["method"], call.method());
    assert_eq!(call.id().map(parsed), whole.get("id").cloned());
    // Absent parameters are the same as `null`.
    let params = if call.params().is_empty() { Value::Null } else { parsed(call.params()) };
    assert_eq!(params, whole.get("params").cloned().unwrap_or_default());
}

fn check_error(text: &[u8], id: &str, error: &Error) {
    check_id(text, id);
    assert!([-32700, -32600].contains(&error.code()), "{error:?}");
}

/// An id is sent back unchanged, so it must be a JSON value that is neither a list nor an object.
fn check_id(text: &[u8], id: &str) {
    let is_part = text.windows(id.len()).any(|part| part == id.as_bytes());
    assert!(is_part || id == NO_ID, "the id {id:?} is not in the request");
    let json: &RawValue = serde_json::from_str(id).expect("an id is JSON");
    assert!(!json.get().starts_with(['[', '{']), "the id {id:?} is a list or an object");
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("a part of parsed JSON is JSON")
}

#[cfg(test)]
mod tests {
    #[test]
    fn properties_hold_for_calls_batches_and_invalid_bodies() {
        let single = r#"{"jsonrpc":"2.0","id":"\u0061","method":"m\n","params":[{"a":1.50}]}"#;
        let batch = format!("[{single}, 1, {{}}, null]");
        let many = format!("[{}]", vec!["{}"; 20].join(","));
        for body in [single, &batch, &many, "", "[", r#"{"jsonrpc":"2.0","id":-0,"method":"m"}"#] {
            super::envelope(body.as_bytes());
        }
    }
}
