//! Reads request bodies and sends response bodies. Their memory is accounted to the client: that of a response until it
//! has been written, that of a streaming request as long, and that of another request until its response is ready.

use super::{Account, Peer, Protocol, STREAM_BYTES, STREAMING_BYTES, Shared};
use crate::{
    body::{BodyError, read_body},
    connection::Open,
};
use axum::{
    body::Body,
    http::{Request, Response, StatusCode},
};
use budget::{Held, Refused, accounted};
use bytes::{Buf, Bytes};
use futures_util::FutureExt;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::{Instant, sleep, timeout};
use tonic::Code;

/// Maximum time to receive the body of a request (CometBFT's `read_timeout`).
const MAX_BODY_TIME: Duration = Duration::from_secs(10);
/// Maximum time for a client to read one piece of a response.
pub(super) const MAX_SLOW_TIME: Duration = Duration::from_secs(20);
/// Maximum size of a piece of a response, in bytes.
const PIECE_BYTES: usize = 64 * 1024;
/// Interval of the checks whether the client reads.
const SLOW_CHECK: Duration = Duration::from_secs(5);

/// Bytes of the header before a gRPC message.
const GRPC_HEAD_BYTES: usize = 5;

/// The memory of a request: its task and its body.
#[derive(Debug)]
pub(super) struct Received {
    _task: Option<Held>,
    _body: Option<Held>,
}

impl Shared {
    /// Reads the body of a request. At most one byte more than the limit is read, so that the service can
    /// refuse the request with its own error. The memory is held until [`Received`] is dropped.
    pub(super) async fn receive(
        &self,
        account: &Arc<Account>,
        peer: &Peer,
        request: Request<Incoming>,
    ) -> Result<(Request<Body>, Received), Box<Response<Body>>> {
        let is_stream = self.is_stream(request.uri().path());
        let task_bytes = match self.protocol {
            Protocol::Http { .. } => 0,
            Protocol::Grpc { .. } if is_stream => STREAMING_BYTES,
            Protocol::Grpc { .. } => STREAM_BYTES,
        };
        let task = (task_bytes > 0).then(|| account.hold(task_bytes)).transpose();
        let task = task.map_err(|refused| self.no_memory(refused))?;
        if is_stream {
            return Ok((request.map(Body::new), Received { _task: task, _body: None }));
        }
        let (head, body) = request.into_parts();
        if body.is_end_stream() {
            return Ok((
                Request::from_parts(head, Body::empty()),
                Received { _task: task, _body: None },
            ));
        }
        let limit = self.body + if task.is_some() { GRPC_HEAD_BYTES } else { 0 };
        let mut usage = account.buffer(self.free_bytes());
        let bytes = match timeout(MAX_BODY_TIME, read_body(body, limit, &mut usage)).await {
            Ok(Ok(bytes)) => {
                peer.requests.body_read();
                bytes
            }
            // The service refuses the request with its own error.
            Ok(Err(BodyError::TooLarge(start))) => start,
            Ok(Err(BodyError::Memory(refused))) => return Err(self.no_memory(refused)),
            Ok(Err(BodyError::Incomplete(error))) => {
                let text = format!("cannot read the request body: {error}");
                return Err(self.refusal(StatusCode::BAD_REQUEST, Code::InvalidArgument, text));
            }
            Err(_) => {
                let text =
                    format!("the request body was incomplete after {} s", MAX_BODY_TIME.as_secs());
                return Err(self.refusal(
                    StatusCode::REQUEST_TIMEOUT,
                    Code::DeadlineExceeded,
                    text,
                ));
            }
        };
        let received = Received { _task: task, _body: usage.into_held() };
        Ok((Request::from_parts(head, Body::from(bytes)), received))
    }

    /// Accounts for a response until it has been written, and holds `open` and `received` for the same time.
    pub(super) fn account_response(
        &self,
        account: &Arc<Account>,
        peer: &Arc<Peer>,
        (open, received): (Option<Open>, Option<Received>),
        response: Response<Body>,
    ) -> Result<Response<Body>, Box<Response<Body>>> {
        let (head, mut body) = response.into_parts();
        let mut first = VecDeque::new();
        let mut ended = body.is_end_stream();
        // A response that is ready is already in memory, and is accounted now because the client may never read it.
        if !ended && let Some(frame) = body.frame().now_or_never() {
            match frame {
                Some(Ok(frame)) => first.push_back(frame),
                Some(Err(error)) => {
                    let text = format!("cannot produce the response: {error}");
                    return Err(self.refusal(
                        StatusCode::INTERNAL_SERVER_ERROR,
                        Code::Internal,
                        text,
                    ));
                }
                None => ended = true,
            }
        }
        if ended {
            return Ok(Response::from_parts(head, Body::empty()));
        }
        let mut accounted = AccountedBody {
            body,
            frames: VecDeque::new(),
            account: Arc::clone(account),
            peer: Arc::clone(peer),
            free_bytes: self.free_bytes(),
            open,
            _received: received,
        };
        for frame in first {
            accounted.push(frame).map_err(|refused| self.no_memory(refused))?;
        }
        Ok(Response::from_parts(head, Body::new(accounted)))
    }

    pub(super) fn no_memory(&self, refused: Refused) -> Box<Response<Body>> {
        let text = format!(
            "clients use too much memory: at most {} bytes (server.max-client-bytes); try again later",
            refused.limit()
        );
        self.refusal(StatusCode::SERVICE_UNAVAILABLE, Code::ResourceExhausted, text)
    }
}

/// Counts the pieces of responses that the client of a connection has not read. Checked only for HTTP/2: over
/// HTTP/1.1, a layer of the socket finds slow clients.
#[derive(Debug)]
pub(super) struct UnreadPieces {
    pieces: AtomicUsize,
    start: Instant,
    /// The time in milliseconds after `start` at which the client last read a piece, or the first unread one was added.
    progress_ms: AtomicU64,
}

impl Default for UnreadPieces {
    fn default() -> Self {
        Self { pieces: AtomicUsize::new(0), start: Instant::now(), progress_ms: AtomicU64::new(0) }
    }
}

impl UnreadPieces {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn add(&self) {
        if self.pieces.fetch_add(1, SeqCst) == 0 {
            self.progress_ms.store(self.now_ms(), SeqCst);
        }
    }

    fn remove(&self) {
        self.progress_ms.store(self.now_ms(), SeqCst);
        self.pieces.fetch_sub(1, SeqCst);
    }

    /// Ready when the client has not read any of the unread pieces for [`MAX_SLOW_TIME`].
    pub(super) async fn slow(&self) {
        loop {
            sleep(SLOW_CHECK).await;
            let since = self.now_ms().saturating_sub(self.progress_ms.load(SeqCst));
            if self.pieces.load(SeqCst) > 0 && u128::from(since) >= MAX_SLOW_TIME.as_millis() {
                return;
            }
        }
    }
}

/// Counts a piece as unread until this guard is dropped.
struct UnreadPiece {
    peer: Arc<Peer>,
    _held: Option<Held>,
}

impl UnreadPiece {
    fn new(peer: &Arc<Peer>, held: Option<Held>) -> Self {
        peer.unread.add();
        Self { peer: Arc::clone(peer), _held: held }
    }
}

impl Drop for UnreadPiece {
    fn drop(&mut self) {
        self.peer.unread.remove();
    }
}

/// The body of a response whose pieces are accounted.
struct AccountedBody {
    body: Body,
    /// Frames that were taken from `body` but not passed to the HTTP library yet.
    frames: VecDeque<Frame<Bytes>>,
    account: Arc<Account>,
    peer: Arc<Peer>,
    free_bytes: usize,
    open: Option<Open>,
    _received: Option<Received>,
}

impl fmt::Debug for AccountedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccountedBody").field("frames", &self.frames.len()).finish_non_exhaustive()
    }
}

impl AccountedBody {
    /// Accounts for a frame and divides its data into pieces.
    fn push(&mut self, frame: Frame<Bytes>) -> Result<(), Refused> {
        let mut data = match frame.into_data() {
            Ok(data) => data,
            Err(frame) => {
                self.frames.push_back(frame);
                return Ok(());
            }
        };
        let mut held = match data.len() {
            length if length <= self.free_bytes => None,
            length => Some(self.account.hold(length)?),
        };
        while data.has_remaining() {
            let piece = data.split_to(data.len().min(PIECE_BYTES));
            let part = held.as_mut().map(|held| held.split(piece.len() as u64));
            let guard = UnreadPiece::new(&self.peer, part);
            self.frames.push_back(Frame::data(accounted(piece, guard)));
        }
        Ok(())
    }
}

impl hyper::body::Body for AccountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                self.open.iter().for_each(|open| open.handed_over(bytes));
                return Poll::Ready(Some(Ok(frame)));
            }
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    if let Err(refused) = self.push(frame) {
                        let error = format!("clients use too much memory: {refused:?}");
                        return Poll::Ready(Some(Err(axum::Error::new(error))));
                    }
                }
                other => return other,
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let ready: u64 = self
            .frames
            .iter()
            .filter_map(|frame| frame.data_ref())
            .map(|data| data.len() as u64)
            .sum();
        let rest = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(ready + rest.lower());
        if let Some(upper) = rest.upper() {
            hint.set_upper(ready + upper);
        }
        hint
    }
}
