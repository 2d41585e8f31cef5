//! Reads the body of a request, up to a limit and within the memory limit of the client.

use budget::{Refused, Usage};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

/// Why a body was not read to its end.
#[derive(Debug)]
pub enum BodyError {
    /// The body has more bytes than the limit. The value contains its first bytes, one more than the limit, so that a
    /// service can refuse the request with its own error.
    TooLarge(Bytes),
    /// The client has disconnected, or the request is malformed.
    Incomplete(hyper::Error),
    /// There is not enough memory for the body.
    Memory(Refused),
}

/// Reads a body of at most `limit` bytes. A body that arrives in one piece, as small ones do, is not copied.
///
/// # Errors
/// See [`BodyError`].
pub async fn read_body(
    mut body: Incoming,
    limit: usize,
    usage: &mut Usage,
) -> Result<Bytes, BodyError> {
    let max_read = limit.saturating_add(1);
    let announced = body.size_hint().upper().and_then(|upper| usize::try_from(upper).ok());
    let max = announced.map_or(max_read, |announced| announced.min(max_read));
    let mut first = Bytes::new();
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(BodyError::Incomplete)?;
        let Ok(mut data) = frame.into_data() else { continue };
        data.truncate(max_read - first.len() - whole.len());
        if first.is_empty() && whole.is_empty() {
            // The first piece can be as large as one read from the socket, so it is accounted too.
            usage.grow_to(data.len()).map_err(BodyError::Memory)?;
            first = data;
        } else {
            if whole.is_empty() {
                whole = std::mem::take(&mut first).to_vec();
            }
            usage.extend(&mut whole, &data, max).map_err(BodyError::Memory)?;
        }
        if first.len() + whole.len() > limit {
            return Err(BodyError::TooLarge(joined(first, whole)));
        }
    }
    Ok(joined(first, whole))
}

/// Returns the first piece if it is the only one, and otherwise all pieces.
fn joined(first: Bytes, whole: Vec<u8>) -> Bytes {
    if whole.is_empty() { first } else { whole.into() }
}
