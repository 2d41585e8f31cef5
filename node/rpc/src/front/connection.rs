//! A client's socket, closed when its client seems to be gone: when no request, or for a WebSocket nothing
//! at all, arrives for a while, and when what is sent is not taken.

use super::{Place, flow::Flow, threads::Room, untaken::is_large};
use budget::Evictable;
use hyper::body::Bytes;
use server::half_close::HalfClose;
use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep, sleep},
};

/// Bytes a slow client must take within the time it is given.
const TAKEN_LEAST: usize = 64 * 1024;

/// Bytes written before other connections have their turn: some twenty microseconds of copying. A socket
/// that takes megabytes at once would hold up the thread that many are served by.
const WRITE_TURN: usize = 128 * 1024;

/// Bytes read before other connections have their turn. Hundreds of clients that each send megabytes would
/// otherwise be read one after another, each as far as its socket has received, and a small request of another
/// client would wait for all of them.
const READ_TURN: usize = 16 * 1024;

/// Pieces of an answer given to the kernel at once: a head, a body and a few more.
const PIECES_MAX: usize = 16;

/// Small answers after a large one until a connection counts as one with small answers again: to move it
/// costs as much as some of them.
const SMALL_LEAST: u32 = 64;

/// Messages between the request reader and the socket task.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Requests that arrived whole.
    requests: AtomicU32,
    /// Requests whose heads have arrived and whose response bodies hyper still holds.
    open: AtomicU32,
    /// The last request has a body that has not been read to its end.
    unread: AtomicBool,
    /// hyper may hold bytes that the socket has not accepted: it has not flushed since it dropped the
    /// last response body or since the last write.
    unflushed: AtomicBool,
    /// Bytes of response bodies that hyper received since the counters were last compared.
    handed_over: AtomicU64,
    /// Bytes that the socket accepted since then, heads included.
    accepted: AtomicU64,
    /// Small answers to go until the connection has a seat among those with small ones.
    bulk: AtomicU32,
    /// A WebSocket now, which detects by pings whether its client is gone.
    upgraded: AtomicBool,
    /// Back-pressure of a WebSocket.
    pub(super) flow: Arc<Flow>,
    /// Set when another client needs the connection.
    pub(super) evictable: Arc<Evictable>,
}

/// Counts a request as open until this is dropped. The response body holds it, because hyper keeps the
/// body until it has taken the last byte: the service returns long before.
#[derive(Debug)]
pub(super) struct Open(Arc<Progress>);

impl Open {
    /// hyper received this part of the response body.
    pub(super) fn handed_over(&self, bytes: usize) {
        self.0.handed_over.fetch_add(bytes as u64, Relaxed);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.unflushed.store(true, Relaxed);
        self.0.open.fetch_sub(1, Relaxed);
    }
}

impl Progress {
    /// The head of a request has arrived, and its body too if it has none.
    pub(super) fn open(self: &Arc<Self>, whole: bool) -> Open {
        self.open.fetch_add(1, Relaxed);
        self.unread.store(!whole, Relaxed);
        Open(Arc::clone(self))
    }

    /// The body of the last request has been read to its end.
    pub(super) fn body_read(&self) {
        self.unread.store(false, Relaxed);
        self.requests.fetch_add(1, Relaxed);
    }

    /// Whether a request has arrived whole and its response is not sent: the client waits for the node. If
    /// it does not take the response, it is slow, and not idle.
    fn is_answering(&self) -> bool {
        self.open.load(Relaxed) > 0 && !self.unread.load(Relaxed)
    }

    /// Whether a request has arrived whole and its response is not in the hands of the socket.
    fn is_response_owed(&self) -> bool {
        let is_unread = self.unread.load(Relaxed);
        !is_unread && (self.open.load(Relaxed) > 0 || self.unflushed.load(Relaxed))
    }

    /// An answer of this many bytes will be written.
    pub(super) fn answer(&self, bytes: usize) {
        let left = match self.bulk.load(Relaxed) {
            _ if is_large(bytes) => SMALL_LEAST,
            left => left.saturating_sub(1),
        };
        self.bulk.store(left, Relaxed);
    }

    /// The threads that suit what was answered.
    pub(super) fn room(&self) -> Room {
        if self.bulk.load(Relaxed) == 0 { Room::Quick } else { Room::Bulk }
    }

    /// Whether all requests have been read and the socket has accepted all responses. Only then does
    /// hyper hold nothing that would be lost if the connection were taken from it.
    ///
    /// hyper flushes its own buffer whenever that holds 16 pieces, so a flush in the middle of a body
    /// says nothing. A response is complete when hyper has dropped its body and has flushed after that.
    pub(super) fn is_between_requests(&self) -> bool {
        let busy = [&self.unread, &self.unflushed, &self.upgraded];
        self.open.load(Relaxed) == 0 && !busy.iter().any(|busy| busy.load(Relaxed))
    }

    /// hyper reports that it has written all that it holds.
    ///
    /// # Errors
    /// If all response bodies have been handed over and the socket has accepted fewer bytes than they
    /// have. The rest is lost, so the client must not receive anything more on this connection.
    fn flushed(&self) -> Result<(), UnsentResponse> {
        self.unflushed.store(false, Relaxed);
        if self.open.load(Relaxed) > 0 {
            return Ok(());
        }
        let handed_over = self.handed_over.swap(0, Relaxed);
        let accepted = self.accepted.swap(0, Relaxed);
        if accepted < handed_over { Err(UnsentResponse { handed_over, accepted }) } else { Ok(()) }
    }

    /// The connection is a WebSocket from now on.
    pub(super) fn upgrade(&self) {
        self.upgraded.store(true, Relaxed);
    }
}

/// A bug of this program truncated a response.
#[derive(Debug, thiserror::Error)]
#[error("the socket accepted {accepted} bytes for response bodies of {handed_over} bytes")]
struct UnsentResponse {
    handed_over: u64,
    accepted: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    /// What was read by the thread that the connection was moved from.
    read: Bytes,
    progress: Arc<Progress>,
    requests_seen: u32,
    idle_max: Duration,
    /// When the client last asked for something, or took some of it.
    alive: Instant,
    /// Looks at that later.
    idle: Pin<Box<Sleep>>,
    slow_max: Duration,
    slow: Pin<Box<Sleep>>,
    /// Bytes taken since the client was found slow; `None` while it is not.
    taken: Option<usize>,
    /// Bytes written in this turn.
    turn: usize,
    /// Bytes read in this turn.
    read_turn: usize,
    half_close: HalfClose,
    /// Kept as long as the socket, which a WebSocket takes with it.
    place: Option<Place>,
}

impl Connection {
    pub(super) fn new(
        stream: TcpStream,
        read: Bytes,
        progress: Arc<Progress>,
        (idle_max, slow_max): (Duration, Duration),
        place: Option<Place>,
    ) -> Self {
        Self {
            stream,
            read,
            progress,
            requests_seen: 0,
            idle_max,
            alive: Instant::now(),
            idle: Box::pin(sleep(idle_max)),
            slow_max,
            slow: Box::pin(sleep(slow_max)),
            taken: None,
            turn: 0,
            read_turn: 0,
            half_close: HalfClose::default(),
            place,
        }
    }

    /// The socket, what was read from it before it came here and was not consumed, and its place, for
    /// another thread.
    ///
    /// # Errors
    /// When this thread's runtime cannot let go of it.
    pub(super) fn into_parts(self) -> io::Result<(std::net::TcpStream, Bytes, Option<Place>)> {
        Ok((self.stream.into_std()?, self.read, self.place))
    }

    /// What is left of this turn; when nothing is, the task goes to the end of the line.
    fn turn_left(&mut self, cx: &mut Context<'_>) -> Option<usize> {
        self.progress.unflushed.store(true, Relaxed);
        if self.turn >= WRITE_TURN {
            self.turn = 0;
            give_way_after_write(cx);
            return None;
        }
        Some(WRITE_TURN - self.turn)
    }

    /// Returns the result of a write, and closes the connection of a client that does not read enough.
    fn watch_write(
        &mut self,
        cx: &mut Context<'_>,
        result: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match result {
            Poll::Ready(Ok(written)) => {
                self.turn += written;
                self.progress.accepted.fetch_add(written as u64, Relaxed);
                self.alive = Instant::now();
                self.taken = self.taken.map(|taken| taken + written);
                if self.taken.is_some_and(|taken| taken >= TAKEN_LEAST) {
                    self.taken = None;
                }
                Poll::Ready(Ok(written))
            }
            Poll::Ready(error) => Poll::Ready(error),
            Poll::Pending => {
                self.turn = 0;
                if self.taken.is_none() {
                    self.taken = Some(0);
                    self.slow.as_mut().reset(Instant::now() + self.slow_max);
                }
                ready!(self.slow.as_mut().poll(cx));
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }

    /// Reads what is left of this turn at most. A socket that has nothing more ends the turn.
    fn poll_read_turn(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let left = READ_TURN - self.read_turn;
        let before = buffer.filled().len();
        let result = if buffer.remaining() <= left {
            Pin::new(&mut self.stream).poll_read(cx, buffer)
        } else {
            let mut part = ReadBuf::new(buffer.initialize_unfilled_to(left));
            let result = Pin::new(&mut self.stream).poll_read(cx, &mut part);
            let read = part.filled().len();
            buffer.advance(read);
            result
        };
        let read = buffer.filled().len() - before;
        self.read_turn = if result.is_pending() { 0 } else { self.read_turn + read };
        result
    }

    /// Ready when the end of the input is to be reported.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let is_response_owed = self.progress.is_response_owed();
        self.half_close.poll_end(cx, &self.stream, is_response_owed)
    }

    /// Ready when the client seems to be gone. The timer is not set anew with every request:
    /// it looks when the last one was.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.idle.as_mut().poll(cx));
            let now = Instant::now();
            if self.progress.is_answering() {
                self.alive = now;
            }
            let until = self.alive + self.idle_max;
            if until <= now {
                return Poll::Ready(());
            }
            self.idle.as_mut().reset(until);
        }
    }
}

/// Lets the client that these bytes woke, or another thread that serves sockets, have the core too, and
/// then other tasks.
///
/// A read wakes no other thread, so after a read the core is kept: if other processes wait for it, each call can take a
/// scheduler's slice of several milliseconds, and hundreds of clients that send megabytes cause thousands.
fn give_way_after_write(cx: &mut Context<'_>) {
    std::thread::yield_now();
    give_way(cx);
}

/// Has the task polled again, after those that can run, and after a look at the sockets. Woken at
/// once, tasks with much to read or write would keep a thread from looking for what has arrived.
fn give_way(cx: &mut Context<'_>) {
    let later = std::pin::pin!(tokio::task::yield_now());
    // Its first poll only leaves the waker; the runtime keeps that, not the future.
    let _ = later.poll(cx);
}

fn evicted<T>() -> Poll<io::Result<T>> {
    Poll::Ready(Err(io::Error::new(
        io::ErrorKind::ConnectionAborted,
        "evicted because another client needs the connection",
    )))
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.progress.evictable.poll_reader(cx) {
            return evicted();
        }
        if !self.read.is_empty() {
            let count = self.read.len().min(buffer.remaining());
            buffer.put_slice(&self.read.split_to(count));
            return Poll::Ready(Ok(()));
        }
        if self.read_turn >= READ_TURN {
            self.read_turn = 0;
            give_way(cx);
            return Poll::Pending;
        }
        if self.half_close.has_ended() {
            return self.poll_end(cx);
        }
        let (before, room) = (buffer.filled().len(), buffer.remaining());
        let result = self.poll_read_turn(cx, buffer);
        let has_ended = matches!(result, Poll::Ready(Ok(()))) && buffer.filled().len() == before;
        if has_ended && room > 0 && !self.progress.upgraded.load(Relaxed) {
            return self.poll_end(cx);
        }
        let requests = self.progress.requests.load(Relaxed);
        if requests != self.requests_seen {
            self.requests_seen = requests;
            self.alive = Instant::now();
            self.progress.evictable.touch();
        }
        let is_upgraded = self.progress.upgraded.load(Relaxed);
        if is_upgraded && result.is_ready() {
            // Its messages are no requests, and its pongs show that the client is there.
            self.progress.evictable.touch();
        }
        if is_upgraded || result.is_ready() {
            return result;
        }
        ready!(self.poll_idle(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.progress.evictable.poll_writer(cx) {
            return evicted();
        }
        let Some(left) = self.turn_left(cx) else { return Poll::Pending };
        let bytes = &bytes[..bytes.len().min(left)];
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch_write(cx, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.progress.evictable.poll_writer(cx) {
            return evicted();
        }
        let Some(left) = self.turn_left(cx) else { return Poll::Pending };
        let mut part = [io::IoSlice::new(&[]); PIECES_MAX];
        let mut count = 0;
        let mut room = left;
        // Writing nothing would look like the end, so empty pieces are passed over.
        for piece in pieces.iter().filter(|piece| !piece.is_empty()).take(PIECES_MAX) {
            let bytes = &piece[..piece.len().min(room)];
            room -= bytes.len();
            part[count] = io::IoSlice::new(bytes);
            count += 1;
            if room == 0 {
                break;
            }
        }
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, &part[..count]);
        self.watch_write(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Called when the writer's buffer is empty, which may be in the middle of a response.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.taken = None;
        self.turn = 0;
        if !self.progress.upgraded.load(Relaxed)
            && let Err(error) = self.progress.flushed()
        {
            tracing::error!(%error, "a connection is closed because a response was truncated; this is a bug, please report it");
            return Poll::Ready(Err(io::Error::other(error)));
        }
        let is_response_owed = self.progress.is_response_owed();
        self.half_close.flushed(cx, is_response_owed);
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    const IDLE: Duration = Duration::from_secs(100);
    const SLOW: Duration = Duration::from_secs(10);

    /// Bytes of the least answer that is large.
    const LARGE: usize = 64 * 1024;

    async fn pair() -> (TcpStream, Connection, Arc<Progress>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (served, _) = listener.accept().await.unwrap();
        let progress = Arc::<Progress>::default();
        let times = (IDLE, SLOW);
        let served = Connection::new(served, Bytes::new(), Arc::clone(&progress), times, None);
        (client, served, progress)
    }

    #[test]
    fn a_large_answer_asks_for_another_seat_and_many_small_ones_for_the_old_one() {
        let progress = Progress::default();
        let rooms = |answers: u32, bytes| {
            let rooms = (0..answers).map(|_| {
                progress.answer(bytes);
                progress.room()
            });
            rooms.collect::<Vec<_>>()
        };
        assert_eq!(rooms(3, LARGE - 1), [Room::Quick; 3]);
        assert_eq!(rooms(1, LARGE), [Room::Bulk]);
        assert!(rooms(SMALL_LEAST - 1, 10).iter().all(|room| *room == Room::Bulk));
        assert_eq!(rooms(1, 10), [Room::Quick]);
    }

    #[tokio::test]
    async fn a_connection_is_between_requests_once_its_response_is_flushed() {
        let (_client, mut served, progress) = pair().await;
        assert!(progress.is_between_requests());
        let open = progress.open(false);
        assert!(!progress.is_between_requests());
        // The buffer of 16 pieces is full and is flushed; the body has more.
        served.write_all(b"half").await.unwrap();
        served.flush().await.unwrap();
        assert!(!progress.is_between_requests(), "hyper still holds the body");
        drop(open);
        assert!(!progress.is_between_requests(), "hyper holds the last pieces");
        served.flush().await.unwrap();
        assert!(!progress.is_between_requests(), "it was answered before its body was read");
        progress.body_read();
        assert!(progress.is_between_requests());
        drop(progress.open(true));
        assert!(!progress.is_between_requests(), "the head is not flushed");
        served.flush().await.unwrap();
        assert!(progress.is_between_requests(), "it has no body");
        served.write_all(b"an error of hyper's own").await.unwrap();
        assert!(!progress.is_between_requests());
        served.flush().await.unwrap();
        assert!(progress.is_between_requests());
        progress.upgrade();
        assert!(!progress.is_between_requests());
    }

    #[tokio::test]
    async fn a_response_that_is_cut_short_closes_the_connection() {
        let (_client, mut served, progress) = pair().await;
        for (handed_over, written, complete) in [(4, 4, true), (4, 9, true), (4, 3, false)] {
            let open = progress.open(true);
            open.handed_over(handed_over);
            served.write_all(&vec![0; written]).await.unwrap();
            served.flush().await.unwrap();
            open.handed_over(1);
            served.write_all(&[0]).await.unwrap();
            drop(open);
            assert_eq!(served.flush().await.is_ok(), complete, "{handed_over} {written}");
        }
    }

    #[tokio::test]
    async fn what_was_read_already_comes_first() {
        let (mut client, served, progress) = pair().await;
        client.write_all(b"rest").await.unwrap();
        let (stream, read, _) = served.into_parts().unwrap();
        assert!(read.is_empty());
        let stream = TcpStream::from_std(stream).unwrap();
        let start = Bytes::from_static(b"start, ");
        let times = (IDLE, SLOW);
        let mut served = Connection::new(stream, start, Arc::clone(&progress), times, None);
        let mut part = [0; 2];
        served.read_exact(&mut part).await.unwrap();
        // Moved again before all of it was taken.
        let (stream, read, _) = served.into_parts().unwrap();
        let stream = TcpStream::from_std(stream).unwrap();
        let mut served = Connection::new(stream, read, progress, times, None);
        let mut read = [0; 9];
        served.read_exact(&mut read).await.unwrap();
        assert_eq!((&part, &read), (b"st", b"art, rest"));
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_that_make_no_request_do_not_keep_a_connection() {
        let (mut client, mut served, progress) = pair().await;
        let began = Instant::now();
        let trickle = async {
            loop {
                if client.write_all(b"x").await.is_err() {
                    return;
                }
                sleep(Duration::from_secs(30)).await;
            }
        };
        let read = async {
            loop {
                if let Err(error) = served.read_u8().await {
                    return error.kind();
                }
            }
        };
        progress.body_read();
        tokio::select! {
            () = trickle => panic!("the client does not end"),
            error = read => assert_eq!(error, io::ErrorKind::TimedOut),
        }
        assert!(began.elapsed() >= IDLE && began.elapsed() < 2 * IDLE);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_an_answer_or_takes_it_slowly_is_not_idle() {
        let (mut client, mut served, progress) = pair().await;
        let open = progress.open(true);
        let mut byte = [0];
        let waited = tokio::time::timeout(5 * IDLE, served.read(&mut byte)).await;
        assert!(waited.is_err(), "a call may take its time");
        drop(open);
        for _ in 0..5 {
            served.write_all(b"x").await.unwrap();
            client.read_exact(&mut byte).await.unwrap();
            let waited = tokio::time::timeout(IDLE * 3 / 4, served.read(&mut byte)).await;
            assert!(waited.is_err(), "it takes its answer");
        }
        let error = served.read(&mut byte).await.expect_err("and now nothing");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_websocket_is_closed_for_silence_by_its_pings_only() {
        let (_client, mut served, progress) = pair().await;
        progress.upgrade();
        let waited = tokio::time::timeout(5 * IDLE, served.read_u8()).await;
        assert!(waited.is_err(), "it waits for the client");
    }

    /// The idlest connection of a client is closed when another client needs one.
    #[tokio::test]
    async fn a_websocket_from_which_something_arrives_is_not_idle() {
        let (mut client, mut served, progress) = pair().await;
        progress.upgrade();
        while progress.evictable.idle() < Duration::from_millis(5) {
            std::thread::yield_now();
        }
        let began = std::time::Instant::now();
        client.write_all(b"x").await.unwrap();
        served.read_u8().await.unwrap();
        let idle = progress.evictable.idle();
        // It is counted in whole milliseconds.
        assert!(idle <= began.elapsed() + Duration::from_millis(1), "{idle:?}");
    }

    #[tokio::test]
    async fn a_large_answer_is_written_in_turns_and_whole() {
        let (mut client, mut served, _) = pair().await;
        let much: Vec<u8> = (0..5 * WRITE_TURN + 17).map(|at| at as u8).collect();
        let writing = async {
            // As hyper does it: several pieces at once, the rest again.
            let (first, rest) = much.split_at(WRITE_TURN / 3);
            let (mut at, whole) = (0, [first, rest]);
            while at < much.len() {
                let from_first = whole[0].get(at..).unwrap_or_default();
                let from_rest = &whole[1][at.saturating_sub(first.len())..];
                let pieces = [io::IoSlice::new(from_first), io::IoSlice::new(from_rest)];
                let written = served.write_vectored(&pieces).await.unwrap();
                assert!(written > 0 && written <= WRITE_TURN);
                at += written;
            }
            served.shutdown().await.unwrap();
        };
        let mut read = Vec::new();
        let (_, taken) = tokio::join!(writing, client.read_to_end(&mut read));
        taken.unwrap();
        assert!(read == much);
    }

    /// One thread, as if the others had large answers too.
    #[tokio::test]
    async fn a_request_is_seen_between_the_turns_of_a_large_answer() {
        const TURNS: usize = 4;
        let (_reader, mut large, _) = pair().await;
        let (asking, mut asked, _) = pair().await;
        let written = Arc::<AtomicUsize>::default();
        let before = Arc::clone(&written);
        let served = tokio::spawn(async move {
            asked.read_u8().await.unwrap();
            before.load(Relaxed)
        });
        asking.writable().await.unwrap();
        let writing = tokio::spawn(async move {
            // Arrives now, and was not polled since.
            assert_eq!(asking.try_write(b"x").unwrap(), 1);
            let turn = vec![0; WRITE_TURN];
            for _ in 0..TURNS {
                large.write_all(&turn).await.unwrap();
                written.fetch_add(1, Relaxed);
            }
            (asking, large)
        });
        assert!(served.await.unwrap() < TURNS, "the answer was written to its end first");
        writing.abort();
    }

    /// One thread, with one client that sends much at once and one that sends a byte.
    #[tokio::test]
    async fn a_small_request_is_read_between_the_turns_of_a_large_body() {
        const TURNS: usize = 8;
        let (mut sender, mut large, _) = pair().await;
        let (asking, mut asked, _) = pair().await;
        // The kernel holds all of it before the first read.
        sender.write_all(&vec![7; TURNS * READ_TURN]).await.unwrap();
        let read = Arc::<AtomicUsize>::default();
        let before = Arc::clone(&read);
        let served = tokio::spawn(async move {
            asked.read_u8().await.unwrap();
            before.load(Relaxed)
        });
        asking.writable().await.unwrap();
        let reading = tokio::spawn(async move {
            assert_eq!(asking.try_write(b"x").unwrap(), 1);
            // A buffer for all of it, as hyper has while it reads a body.
            let mut body = vec![0; TURNS * READ_TURN];
            let mut at = 0;
            while at < body.len() {
                let count = large.read(&mut body[at..]).await.unwrap();
                assert!((1..=READ_TURN).contains(&count), "{count} bytes in one turn");
                at += count;
                read.store(at, Relaxed);
            }
            (asking, body)
        });
        assert!(served.await.unwrap() < TURNS * READ_TURN, "the body was read to its end first");
        let (_asking, body) = reading.await.unwrap();
        assert!(body.iter().all(|byte| *byte == 7));
    }

    #[tokio::test(start_paused = true)]
    async fn one_who_takes_nothing_is_given_up() {
        let (_client, mut served, _) = pair().await;
        let began = Instant::now();
        let much = vec![0; 64 << 20];
        let error = served.write_all(&much).await.expect_err("the peer does not read");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= SLOW && began.elapsed() < 2 * SLOW);
    }
}
