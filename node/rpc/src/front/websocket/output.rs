//! Writes responses, notifications and control frames to the client of a WebSocket, each as one frame.

use super::frames;
use crate::{
    flow::{Flow, Unanswered},
    subscriber::with_client_id,
    subscription::Start,
};
use hyper::body::{Buf, Bytes};
use serde_json::value::RawValue;
use std::io::{self, IoSlice};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::mpsc,
};

/// Maximum number of pieces that one write passes to the socket.
const MAX_SLICES: usize = 16;

/// A frame that the reader of the socket sends to the client.
#[derive(Debug)]
pub(super) enum Outgoing {
    /// The response to a message, which is unanswered until the response is written.
    Response {
        pieces: Vec<Bytes>,
        message: Unanswered,
        /// Subscriptions whose ids are in the response.
        subscriptions: Vec<Start>,
    },
    /// A complete ping or pong.
    Control(Vec<u8>),
    /// The last frame.
    Close(Option<u16>),
}

/// Writes until a close frame is written or the socket fails.
pub(super) async fn write<W: AsyncWrite + Unpin>(
    mut socket: W,
    flow: &Flow,
    mut outgoing: mpsc::Receiver<Outgoing>,
    mut pushed: mpsc::Receiver<Box<RawValue>>,
) -> io::Result<()> {
    loop {
        tokio::select! {
            Some(next) = outgoing.recv() => match next {
                Outgoing::Response { pieces, message, subscriptions } => {
                    let pending = pieces.iter().map(Bytes::len).sum();
                    write_text(&mut socket, flow, pieces, pending).await?;
                    subscriptions.into_iter().for_each(Start::begin);
                    drop(message);
                }
                Outgoing::Control(frame) => {
                    write_all(&mut socket, flow, vec![frame.into()], 0).await?;
                }
                Outgoing::Close(status) => {
                    write_all(&mut socket, flow, vec![frames::close(status).into()], 0).await?;
                    return socket.shutdown().await;
                }
            },
            Some(json) = pushed.recv() => {
                let pending = json.get().len();
                if let Some(text) = with_client_id(json) {
                    write_text(&mut socket, flow, vec![text], pending).await?;
                }
            }
        }
    }
}

/// Writes a text message, for which `pending` bytes were counted.
async fn write_text<W: AsyncWrite + Unpin>(
    socket: &mut W,
    flow: &Flow,
    mut pieces: Vec<Bytes>,
    pending: usize,
) -> io::Result<()> {
    let length = pieces.iter().map(Bytes::len).sum();
    pieces.insert(0, frames::text_head(length).into());
    write_all(socket, flow, pieces, pending).await
}

/// Writes all pieces, and frees each one once it is written. `pending` is the number of bytes that [`Flow`] counted for
/// the pieces. It excludes frame heads, pings and pongs, which would otherwise reduce the count too far.
async fn write_all<W: AsyncWrite + Unpin>(
    socket: &mut W,
    flow: &Flow,
    mut pieces: Vec<Bytes>,
    mut pending: usize,
) -> io::Result<()> {
    let mut first = 0;
    while first < pieces.len() {
        let mut slices = [IoSlice::new(&[]); MAX_SLICES];
        let count = slices.len().min(pieces.len() - first);
        for (slice, piece) in slices.iter_mut().zip(&pieces[first..]) {
            *slice = IoSlice::new(piece);
        }
        let written = socket.write_vectored(&slices[..count]).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        let counted = written.min(pending);
        if counted > 0 {
            flow.written(counted);
        }
        pending -= counted;
        first += advance(&mut pieces[first..], written);
    }
    if pending > 0 {
        flow.written(pending);
    }
    socket.flush().await
}

/// Removes this many bytes from the front, and returns the number of pieces that were removed completely.
fn advance(pieces: &mut [Bytes], mut bytes: usize) -> usize {
    let mut removed = 0;
    for piece in pieces {
        if bytes < piece.len() {
            piece.advance(bytes);
            break;
        }
        bytes -= piece.len();
        *piece = Bytes::new();
        removed += 1;
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn a_message_of_many_pieces_is_one_frame() {
        for (count, length) in [(1, 1), (1, 125), (3, 42), (1, 126), (17, 1000), (40, 70_000)] {
            let piece = |at: usize| Bytes::from(vec![at as u8; length]);
            let pieces: Vec<_> = (0..count).map(piece).collect();
            let content = pieces.concat();
            // The pipe holds 777 bytes, so larger messages need several writes.
            let (mut client, server) = tokio::io::duplex(777);
            let (flow, mut read) = (Flow::default(), Vec::new());
            flow.add_pending(content.len());
            let (replies, outgoing) = mpsc::channel(2);
            let (_sink, pushed) = mpsc::channel(1);
            let message = Flow::received(&std::sync::Arc::default(), 1);
            replies
                .try_send(Outgoing::Response { pieces, message, subscriptions: Vec::new() })
                .unwrap();
            replies.try_send(Outgoing::Close(Some(frames::NORMAL))).unwrap();
            let writing = write(server, &flow, outgoing, pushed);
            let (written, received) = tokio::join!(writing, client.read_to_end(&mut read));
            written.unwrap();
            received.unwrap();
            let head = frames::text_head(content.len());
            let expected = [head, content, frames::close(Some(frames::NORMAL))].concat();
            assert!(read == expected, "{count} pieces of {length} bytes");
            assert_eq!(flow.pending_bytes(), 0);
        }
    }

    /// The whole response is still pending for a client that reads only the pongs before it.
    #[tokio::test]
    async fn pongs_and_frame_heads_do_not_reduce_the_pending_bytes() {
        let (mut client, server) = tokio::io::duplex(1 << 20);
        let (flow, response) = (Flow::default(), vec![b'7'; 1000]);
        flow.add_pending(response.len());
        let (replies, outgoing) = mpsc::channel(200);
        let (_sink, pushed) = mpsc::channel(1);
        for _ in 0..100 {
            replies.try_send(Outgoing::Control(frames::pong(&[7; 125]))).unwrap();
        }
        let mut writing = std::pin::pin!(write(server, &flow, outgoing, pushed));
        let mut pongs = vec![0; 100 * 127];
        tokio::select! {
            ended = &mut writing => panic!("{ended:?}"),
            read = client.read_exact(&mut pongs) => drop(read.unwrap()),
        }
        assert_eq!(flow.pending_bytes(), response.len());
        let message = Flow::received(&std::sync::Arc::default(), 1);
        let pieces = vec![response.clone().into()];
        replies
            .try_send(Outgoing::Response { pieces, message, subscriptions: Vec::new() })
            .unwrap();
        let mut read = vec![0; frames::text_head(response.len()).len() + response.len()];
        tokio::select! {
            ended = &mut writing => panic!("{ended:?}"),
            read = client.read_exact(&mut read) => drop(read.unwrap()),
        }
        assert_eq!(flow.pending_bytes(), 0);
    }
}
