//! Compresses HTTP responses with gzip for clients that accept it: [`accepts_gzip`] checks the request, and [`Gzip`]
//! compresses. JSON-RPC uses its threads for large bodies, and the other servers use blocking threads. No response is
//! compressed on a thread that serves sockets.
//!
//! The costs are in `docs/costs.md`.

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use hyper::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, HeaderMap, HeaderValue, VARY,
};
use std::io::Write as _;

/// Smaller responses are not compressed: they fit into a dozen packets, and handing them to another thread costs
/// as much as sending them.
pub const MIN_COMPRESSED_BYTES: usize = 16 * 1024;
/// The deflate level: the fastest. Level 2 makes responses a third smaller and takes 1.6 times as long.
const LEVEL: u32 = 1;
/// Bytes that are compressed before the thread checks for other work. They take a third of a millisecond.
pub const CHUNK_BYTES: usize = 64 * 1024;

/// The content coding of [`Gzip`].
const GZIP: HeaderValue = HeaderValue::from_static("gzip");
const VARIES: HeaderValue = HeaderValue::from_static("accept-encoding");

/// Whether a client accepts gzip and does not prefer an uncompressed response (RFC 9110, section 12.5.3).
/// Without the header, the response is not compressed.
pub fn accepts_gzip(headers: &HeaderMap) -> bool {
    let codings = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let (mut gzip, mut identity, mut any) = (None, None, None);
    for coding in codings.flat_map(|codings| codings.split(',')) {
        let mut parts = coding.split(';').map(str::trim);
        let named = match parts.next().unwrap_or_default().to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => &mut gzip,
            "identity" => &mut identity,
            "*" => &mut any,
            _ => continue,
        };
        *named = Some(weight(parts));
    }
    let weight = gzip.or(any).unwrap_or_default();
    weight > 0 && weight >= identity.unwrap_or_default()
}

/// The weight among the parameters of a coding, in thousandths: 1000 if there is none, and 0 if it is invalid.
fn weight<'a>(mut parameters: impl Iterator<Item = &'a str>) -> u16 {
    let value = parameters.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim_end().eq_ignore_ascii_case("q").then(|| value.trim_start())
    });
    let Some(value) = value else { return 1000 };
    match value.parse::<f32>() {
        Ok(weight) if (0.0..=1.0).contains(&weight) => (weight * 1000.0) as u16,
        _ => 0,
    }
}

/// Compresses one response.
#[derive(Debug)]
pub struct Gzip(GzEncoder<Vec<u8>>);

impl Default for Gzip {
    fn default() -> Self {
        Self::new()
    }
}

impl Gzip {
    /// An encoder without input.
    pub fn new() -> Self {
        Self(GzEncoder::new(Vec::new(), Compression::new(LEVEL)))
    }

    /// Compresses a part of the response, which takes a few nanoseconds per byte.
    pub fn add(&mut self, part: &[u8]) {
        self.0.write_all(part).expect("writing to a Vec cannot fail");
    }

    /// The memory that the compressed response occupies so far, in bytes: the capacity of its buffer.
    pub fn bytes(&self) -> usize {
        self.0.get_ref().capacity()
    }

    /// The compressed response.
    pub fn finish(self) -> Bytes {
        let mut compressed = self.0.finish().expect("writing to a Vec cannot fail");
        compressed.shrink_to_fit();
        compressed.into()
    }
}

/// Marks the body as compressed: sets `Content-Encoding` and removes `Content-Length`.
pub fn name_coding(headers: &mut HeaderMap) {
    headers.remove(CONTENT_LENGTH);
    headers.insert(CONTENT_ENCODING, GZIP);
}

/// Adds `Vary: accept-encoding`, because the coding of the response depends on the request.
pub fn name_variation(headers: &mut HeaderMap) {
    if !headers.get_all(VARY).iter().any(|value| *value == VARIES) {
        headers.append(VARY, VARIES);
    }
}

/// Whether a response already has a content coding.
pub fn is_coded(headers: &HeaderMap) -> bool {
    headers.contains_key(CONTENT_ENCODING)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::bufread::GzDecoder;
    use std::io::Read as _;

    fn accepts(values: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(ACCEPT_ENCODING, HeaderValue::from_str(value).unwrap());
        }
        accepts_gzip(&headers)
    }

    #[test]
    fn gzip_is_sent_only_to_clients_that_accept_it() {
        for accepted in [
            &["gzip"][..],
            &["br, GZIP;q=0.5"],
            &["*"],
            &["deflate, gzip ; q=1.0"],
            &["x-gzip"],
            &["br", "gzip"],
            &["gzip;q=0.001"],
            &["gzip;q=0.5, identity;q=0.5"],
            &["gzip; Q = 1"],
            &["identity;q=0, *;q=0.1"],
        ] {
            assert!(accepts(accepted), "{accepted:?}");
        }
        for refused in [
            &[][..],
            &[""],
            &["br"],
            &["gzip;q=0"],
            &["gzip; q=0.0"],
            &["gzip;q=0, *"],
            &["*;q=0"],
            &["xgzip"],
            &["identity"],
            &["gzip;q=0.5, identity"],
            &["gzip;q=x"],
            &["gzip;q=2"],
            &["gzip;q=-1"],
            &["gzip;q=NaN"],
        ] {
            assert!(!accepts(refused), "{refused:?}");
        }
    }

    #[test]
    fn parts_compress_to_one_valid_stream() {
        let text = (0..100_000).map(|n: u32| format!("{n:08x}")).collect::<String>().into_bytes();
        let mut gzip = Gzip::new();
        text.chunks(CHUNK_BYTES).for_each(|part| gzip.add(part));
        assert!(gzip.bytes() > 0);
        let compressed = gzip.finish();
        assert!(compressed.len() < text.len() / 2);
        let mut read = Vec::new();
        GzDecoder::new(&compressed[..]).read_to_end(&mut read).unwrap();
        assert!(read == text);
    }
}
