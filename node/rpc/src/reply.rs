//! Creates the body of a response from pieces of JSON. Large results are shared with the cache instead of copied.

use crate::{
    subscription::Start,
    unsent_responses::{self, UnsentResponses},
};
use alloy_primitives::Bytes;
use hyper::body::{Body, Bytes as Piece, Frame, SizeHint};
use jsonrpsee::types::ErrorObject;
use rpc_types::{error::Error, text::Json};
use server::connection::Open;
use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

/// A result of at least this many bytes is a piece of its own. A smaller one is copied, because another piece costs the
/// kernel more than the copy.
const MIN_SHARED_BYTES: usize = 16 * 1024;

/// A response that is being created.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    pieces: Vec<Piece>,
    /// The text after the last piece.
    tail: Vec<u8>,
    /// Bytes of `pieces`.
    piece_bytes: usize,
    subscriptions: Vec<Start>,
}

impl Reply {
    /// Returns the number of bytes so far.
    pub(crate) const fn len(&self) -> usize {
        self.piece_bytes + self.tail.len()
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.tail.extend_from_slice(text.as_bytes());
    }

    fn result(&mut self, result: &Json) {
        let bytes: &Bytes = result.bytes();
        if bytes.len() < MIN_SHARED_BYTES {
            self.tail.extend_from_slice(bytes);
            return;
        }
        self.push_tail();
        self.piece_bytes += bytes.len();
        self.pieces.push(bytes.0.clone());
    }

    fn push_tail(&mut self) {
        if !self.tail.is_empty() {
            self.piece_bytes += self.tail.len();
            self.pieces.push(std::mem::take(&mut self.tail).into());
        }
    }

    /// Adds the response to a call. `id` is JSON text.
    pub(crate) fn answer(&mut self, id: &str, answer: Result<Json, Error>) {
        match answer {
            Ok(result) => {
                if self.tail.is_empty() {
                    self.tail.reserve(id.len() + result.bytes().len().min(MIN_SHARED_BYTES) + 48);
                }
                self.text("{\"jsonrpc\":\"2.0\",\"id\":");
                self.text(id);
                self.text(",\"result\":");
                self.result(&result);
                self.text("}");
            }
            Err(error) => {
                self.text("{\"jsonrpc\":\"2.0\",\"id\":");
                self.text(id);
                self.text(",\"error\":");
                let error = ErrorObject::from(error);
                serde_json::to_writer(&mut self.tail, &error).expect("an error serialises");
                self.text("}");
            }
        }
    }

    /// Adds a subscription whose id is in the response. It starts when the response has been written.
    pub(crate) fn subscription(&mut self, start: Start) {
        self.subscriptions.push(start);
    }

    /// Returns the pieces, and the subscriptions that start when these have been written.
    pub(crate) fn into_pieces(mut self) -> (Vec<Piece>, Vec<Start>) {
        self.push_tail();
        (self.pieces, self.subscriptions)
    }

    /// Returns the body. A large one is accounted until it is written.
    pub(crate) fn finish(mut self, unsent: &UnsentResponses) -> ReplyBody {
        self.push_tail();
        ReplyBody::pieces(counted(self.pieces, unsent))
    }
}

/// Returns the pieces of a body. Those of a large body are accounted until they are written.
pub(crate) fn counted(pieces: Vec<Piece>, unsent: &UnsentResponses) -> Vec<Piece> {
    if !unsent_responses::is_large(pieces.iter().map(Piece::len).sum()) {
        return pieces;
    }
    pieces.into_iter().map(|piece| unsent.counted(piece)).collect()
}

/// The body of a response.
#[derive(Debug)]
pub(crate) struct ReplyBody {
    /// The pieces that hyper has not received.
    pieces: std::vec::IntoIter<Piece>,
    /// Bytes of `pieces`.
    left: u64,
    /// Keeps the request open until hyper has received the whole body and drops it.
    open: Option<Open>,
}

impl ReplyBody {
    /// Creates a body of pieces. The caller has accounted for them if they are large ([`counted`]).
    pub(crate) fn pieces(pieces: Vec<Piece>) -> Self {
        let left = pieces.iter().map(|piece| piece.len() as u64).sum();
        Self { pieces: pieces.into_iter(), left, open: None }
    }

    pub(crate) fn text(text: impl Into<Piece>) -> Self {
        Self::pieces(vec![text.into()])
    }

    pub(crate) fn empty() -> Self {
        Self::pieces(Vec::new())
    }

    /// Keeps the request open until hyper drops this body.
    pub(crate) fn hold(&mut self, open: Open) {
        self.open = Some(open);
    }
}

impl Body for ReplyBody {
    type Data = Piece;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, Infallible>>> {
        let piece = self.pieces.next();
        if let Some(piece) = &piece {
            self.left -= piece.len() as u64;
            self.open.iter().for_each(|open| open.handed_over(piece.len()));
        }
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use budget::Account;

    #[test]
    fn large_results_are_not_copied() {
        let large = Json::from_text(vec![b'7'; MIN_SHARED_BYTES]);
        let mut reply = Reply::default();
        reply.answer("1", Ok(Json::fixed("true")));
        reply.answer("\"x\"", Ok(large.clone()));
        let length = reply.len();
        let ReplyBody { pieces, left, .. } = reply.finish(&UnsentResponses::default());
        assert_eq!(left as usize, length);
        let pieces: Vec<_> = pieces.collect();
        assert_eq!(pieces.len(), 3);
        assert_eq!(pieces[1].as_ptr(), large.bytes().as_ptr(), "shared");
        let start = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":true}\
                     {\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":";
        assert_eq!(pieces[0], start);
    }

    /// None of the results is large by itself.
    #[test]
    fn a_body_is_accounted_if_its_pieces_together_are_large() {
        let result = Json::from_text(vec![b'7'; MIN_SHARED_BYTES]);
        let account = Account::with_limit(1 << 40);
        let unsent = UnsentResponses::of(&account);
        let is_empty = || account.memory.reading().used == 0;
        for (results, is_accounted) in [(2, false), (5, true)] {
            let mut reply = Reply::default();
            (0..results).for_each(|_| reply.answer("1", Ok(result.clone())));
            let body = reply.finish(&unsent);
            assert_eq!(is_empty(), !is_accounted, "{results}");
            drop(body);
            assert!(is_empty());
        }
    }
}
