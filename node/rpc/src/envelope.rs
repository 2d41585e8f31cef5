//! Parses the envelope of a call: the JSON-RPC 2.0 object that contains the method and its parameters. The body is not
//! copied.

use rpc_types::error::Error;
use serde::{
    Deserialize, Deserializer,
    de::{SeqAccess, Visitor},
};
use serde_json::{error::Category, value::RawValue};
use std::{borrow::Cow, fmt};

/// The JSON text of the id in a response to a call whose id is unknown.
pub(crate) const NO_ID: &str = "null";

/// One call. A call without an id is a notification, which has no response.
#[derive(Debug, Deserialize)]
pub(crate) struct Envelope<'a> {
    #[serde(borrow)]
    jsonrpc: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

/// A string, which is copied only if the text contains escapes.
#[derive(Debug, Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Distinguishes an id of `null` from a missing id.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

/// The calls in a body.
#[derive(Debug)]
pub(crate) enum Body<'a> {
    /// One call.
    Single(Envelope<'a>),
    /// The members of a batch, which are not parsed yet.
    Batch(Vec<&'a RawValue>),
    /// The first members of a batch that has too many members.
    TooMany(Vec<&'a RawValue>),
}

impl<'a> Body<'a> {
    /// Parses a body. A batch with more than `max_batch` members is parsed only up to the first surplus one, because
    /// five megabytes of `[1,1,...]` would take 0.1 s.
    ///
    /// # Errors
    /// Returns an error, with the id if it is known, if the body is not JSON, not a call, or an empty batch.
    pub(crate) fn read(body: &'a [u8], max_batch: usize) -> Result<Self, (&'a str, Error)> {
        if body.trim_ascii_start().first() != Some(&b'[') {
            return Envelope::read(body).map(Self::Single);
        }
        let mut members = Vec::new();
        let mut json = serde_json::Deserializer::from_slice(body);
        let read = json.deserialize_seq(Members { members: &mut members, max: max_batch });
        let read = read.and_then(|()| json.end());
        if members.len() > max_batch {
            members.truncate(max_batch);
            return Ok(Self::TooMany(members));
        }
        match read {
            Ok(()) if members.is_empty() => Err((NO_ID, Error::empty_batch())),
            Ok(()) => Ok(Self::Batch(members)),
            Err(_) => Err((NO_ID, Error::parse())),
        }
    }
}

/// Parses a list up to the first surplus member.
struct Members<'m, 'a> {
    members: &'m mut Vec<&'a RawValue>,
    max: usize,
}

impl<'a> Visitor<'a> for Members<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut list: A) -> Result<(), A::Error> {
        while self.members.len() <= self.max
            && let Some(member) = list.next_element()?
        {
            self.members.push(member);
        }
        Ok(())
    }
}

impl<'a> Envelope<'a> {
    /// Parses one call. Returns the same errors as [`Body::read`].
    pub(crate) fn read(text: &'a [u8]) -> Result<Self, (&'a str, Error)> {
        let envelope: Self =
            serde_json::from_slice(text).map_err(|error| match error.classify() {
                Category::Data if serde_json::from_slice::<&RawValue>(text).is_ok() => {
                    (id_of(text), Error::invalid_request())
                }
                _ => (NO_ID, Error::parse()),
            })?;
        let version = envelope.jsonrpc.as_ref().is_some_and(|version| version.0 == "2.0");
        // serde would also accept a list of the values of the fields.
        let object = text.trim_ascii_start().first() == Some(&b'{');
        if !version || !object || envelope.id.is_some_and(|id| !is_id(id)) {
            return Err((id_of(text), Error::invalid_request()));
        }
        Ok(envelope)
    }

    /// Returns the JSON text of the id, or `None` for a notification.
    pub(crate) fn id(&self) -> Option<&'a str> {
        self.id.map(RawValue::get)
    }

    pub(crate) fn method(&self) -> &str {
        &self.method
    }

    /// Returns the JSON text of the parameters, which is empty if there are none.
    pub(crate) fn params(&self) -> &'a str {
        self.params.map_or("", RawValue::get)
    }
}

/// Returns whether the value is a string, a number or null.
fn is_id(raw: &RawValue) -> bool {
    !matches!(raw.get().as_bytes().first(), Some(b'{' | b'[' | b't' | b'f'))
}

/// Returns the id of an object that is not a valid call, or [`NO_ID`].
fn id_of(text: &[u8]) -> &str {
    #[derive(Deserialize)]
    struct Id<'a> {
        #[serde(borrow)]
        id: &'a RawValue,
    }
    let id = serde_json::from_slice::<Id<'_>>(text).ok().map(|found| found.id);
    id.filter(|id| is_id(id)).map_or(NO_ID, RawValue::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 10;

    fn code(body: &str) -> (String, i32) {
        match Body::read(body.as_bytes(), MAX) {
            Ok(_) => (String::new(), 0),
            Err((id, error)) => (id.to_owned(), error.code()),
        }
    }

    #[test]
    fn calls_are_read_without_copies() {
        let body = r#" {"jsonrpc":"2.0","id":null,"method":"eth_call","params":[1, {}],"x":0}"#;
        let Body::Single(call) = Body::read(body.as_bytes(), MAX).unwrap() else {
            panic!("one call")
        };
        assert_eq!(
            (call.id(), call.method(), call.params()),
            (Some("null"), "eth_call", "[1, {}]")
        );
        assert!(matches!(call.method, Cow::Borrowed(_)));
        let body = r#"{"jsonrpc":"2.0","method":"a"}"#;
        let Body::Single(call) = Body::read(body.as_bytes(), MAX).unwrap() else {
            panic!("one call")
        };
        assert_eq!((call.id(), call.params()), (None, ""));
    }

    #[test]
    fn invalid_calls_have_the_error_of_their_kind() {
        for (body, id, expected) in [
            ("", "null", -32700),
            ("garbage", "null", -32700),
            ("{\"jsonrpc\":", "null", -32700),
            ("[{]", "null", -32700),
            ("[]", "null", -32600),
            ("null", "null", -32600),
            ("1", "null", -32600),
            ("{}", "null", -32600),
            (r#"{"jsonrpc":"2.0","id":7}"#, "7", -32600),
            (r#"{"jsonrpc":"1.0","id":"a","method":"m"}"#, "\"a\"", -32600),
            (r#"{"id":7,"method":"m"}"#, "7", -32600),
            (r#"{"jsonrpc":"2.0","id":[1],"method":"m"}"#, "null", -32600),
            (r#"{"jsonrpc":"2.0","id":true,"method":"m"}"#, "null", -32600),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, "1", -32600),
            (r#"{"jsonrpc":"2.0","id":1,"method":"m"} x"#, "null", -32700),
        ] {
            assert_eq!(code(body), (id.to_owned(), expected), "{body}");
        }
        let batch = Body::read(b" [null, 1]", MAX);
        assert!(matches!(batch, Ok(Body::Batch(members)) if members.len() == 2));
    }

    #[test]
    fn a_batch_is_parsed_up_to_its_first_surplus_member() {
        for count in [MAX - 1, MAX] {
            let body = format!("[{}]", vec!["1"; count].join(", "));
            let batch = Body::read(body.as_bytes(), MAX);
            assert!(matches!(batch, Ok(Body::Batch(members)) if members.len() == count));
        }
        let more = format!("[{}", "1,".repeat(MAX + 1));
        // The rest is not JSON, and is not parsed.
        for rest in ["", "1]", "}", "\u{0}"] {
            let body = format!("{more}{rest}");
            let batch = Body::read(body.as_bytes(), MAX);
            assert!(matches!(batch, Ok(Body::TooMany(members)) if members.len() == MAX), "{rest}");
        }
        let body = format!("[{}1]", "1,".repeat(1000 * MAX));
        let Ok(Body::TooMany(members)) = Body::read(body.as_bytes(), MAX) else {
            panic!("too many")
        };
        assert!(members.capacity() < 10 * MAX, "further members were not read");
    }
}
