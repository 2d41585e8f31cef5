//! Checks the request that opens a WebSocket, and computes the accepting header (RFC 6455, section 4.2).

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hyper::{
    HeaderMap, Method, Request, Version,
    header::{
        CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
    },
};
use sha1::{Digest, Sha1};

/// The version of the protocol that RFC 6455 defines.
pub(in crate::front) const VERSION: HeaderValue = HeaderValue::from_static("13");
/// Appended to the client's key before it is hashed.
const KEY_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Length of a decoded key in bytes.
const KEY_BYTES: usize = 16;

/// The reason why a WebSocket is not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::front) enum HandshakeError {
    #[error(
        "a WebSocket is opened by GET in HTTP/1.1, with `Connection: Upgrade` and without a body"
    )]
    Request,
    #[error("this server supports version 13 of WebSocket only")]
    Version,
    #[error("Sec-WebSocket-Key must be 16 bytes in Base64")]
    Key,
}

/// Returns whether a request asks for a WebSocket. Other protocols, such as the `h2c` that Java's client offers
/// with each first request, are ignored, as RFC 9110 (section 7.8) allows.
pub(in crate::front) fn is_requested(headers: &HeaderMap) -> bool {
    has_token(headers, &UPGRADE, "websocket")
}

/// Returns whether a field, which may be repeated, lists a token.
fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|item| item.trim().eq_ignore_ascii_case(token))
}

/// Returns the value of `Sec-WebSocket-Accept` that completes the handshake.
///
/// # Errors
/// Returns an error if the request does not satisfy the RFC.
pub(in crate::front) fn accept<B>(request: &Request<B>) -> Result<HeaderValue, HandshakeError> {
    let headers = request.headers();
    if request.method() != Method::GET
        || request.version() != Version::HTTP_11
        || !has_token(headers, &CONNECTION, "upgrade")
    {
        return Err(HandshakeError::Request);
    }
    if headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| *version != VERSION) {
        return Err(HandshakeError::Version);
    }
    let mut keys = headers.get_all(SEC_WEBSOCKET_KEY).iter();
    let (Some(key), None) = (keys.next(), keys.next()) else { return Err(HandshakeError::Key) };
    let decoded = STANDARD.decode(key);
    if !decoded.is_ok_and(|decoded| decoded.len() == KEY_BYTES) {
        return Err(HandshakeError::Key);
    }
    let digest = Sha1::new().chain_update(key).chain_update(KEY_SUFFIX).finalize();
    Ok(HeaderValue::from_str(&STANDARD.encode(digest)).expect("Base64 is a valid header value"))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Fields<'a> = &'a [(&'a str, &'a str)];

    /// The request in the example of RFC 6455 (section 1.2).
    const EXAMPLE: [(&str, &str); 4] = [
        ("upgrade", "websocket"),
        ("connection", "keep-alive, Upgrade"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("sec-websocket-version", "13"),
    ];

    fn request(method: Method, version: Version, fields: Fields<'_>) -> Request<()> {
        let mut request = Request::builder().method(method).version(version);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap()
    }

    #[test]
    fn the_example_of_the_rfc_is_accepted() {
        let accepted = accept(&request(Method::GET, Version::HTTP_11, &EXAMPLE));
        assert_eq!(accepted.unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn requests_that_violate_the_rfc_are_refused() {
        let error = |method, version, fields: Fields<'_>| {
            accept(&request(method, version, fields)).expect_err("it is refused")
        };
        let with = |at: usize, value| {
            let mut fields = EXAMPLE;
            fields[at].1 = value;
            fields
        };
        assert_eq!(error(Method::POST, Version::HTTP_11, &EXAMPLE), HandshakeError::Request);
        assert_eq!(error(Method::GET, Version::HTTP_10, &EXAMPLE), HandshakeError::Request);
        let no_upgrade = with(1, "keep-alive");
        assert_eq!(error(Method::GET, Version::HTTP_11, &no_upgrade), HandshakeError::Request);
        for key in ["", "dGhlIHNhbXBsZSBub25jZQ", "c2hvcnQ="] {
            let fields = with(2, key);
            assert_eq!(error(Method::GET, Version::HTTP_11, &fields), HandshakeError::Key, "{key}");
        }
        let old = with(3, "8");
        assert_eq!(error(Method::GET, Version::HTTP_11, &old), HandshakeError::Version);
        assert_eq!(error(Method::GET, Version::HTTP_11, &EXAMPLE[..3]), HandshakeError::Version);
    }

    #[test]
    fn other_protocols_are_not_websockets() {
        let is = |fields: Fields<'_>| {
            is_requested(request(Method::GET, Version::HTTP_11, fields).headers())
        };
        assert!(is(&EXAMPLE) && is(&[("upgrade", "h2c, WebSocket")]));
        assert!(!is(&[("upgrade", "h2c")]) && !is(&[]));
    }
}
