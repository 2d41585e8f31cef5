//! Tests connections with all layers over real sockets.

use super::{read_turns::READ_TURN_BYTES, write_turns::WRITE_TURN_BYTES, *};
use std::{
    io::{self, IoSlice},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    net::TcpListener,
    time::{Instant, sleep},
};

const IDLE: Duration = Duration::from_secs(100);
const SLOW: Duration = Duration::from_secs(10);
const TIMEOUTS: Timeouts = Timeouts { idle: IDLE, slow: SLOW };

/// A pipe with a buffer of known size, for the tests of single layers.
impl Socket for DuplexStream {
    fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(None)
    }
}

/// The sockets of a client and of its server.
pub(super) async fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (client, listener.accept().await.unwrap().0)
}

/// A client, its connection, and the state that the layers share.
struct Pair {
    client: TcpStream,
    served: Http1Socket,
    requests: Arc<Requests>,
    evictable: Arc<Evictable>,
}

async fn pair() -> Pair {
    let (client, served) = sockets().await;
    let (requests, evictable) = (Arc::default(), Arc::default());
    let served = http1(served, Bytes::new(), &requests, &evictable, TIMEOUTS);
    Pair { client, served, requests, evictable }
}

#[tokio::test]
async fn connection_is_between_requests_once_its_response_is_flushed() {
    let Pair { client: _client, mut served, requests, .. } = pair().await;
    assert!(requests.is_between_requests());
    let open = requests.open(false);
    assert!(!requests.is_between_requests());
    // The buffer of 16 pieces is full and is flushed; the body has more.
    served.write_all(b"half").await.unwrap();
    served.flush().await.unwrap();
    assert!(!requests.is_between_requests(), "hyper still holds the body");
    drop(open);
    assert!(!requests.is_between_requests(), "hyper holds the last pieces");
    served.flush().await.unwrap();
    assert!(!requests.is_between_requests(), "it was answered before its body was read");
    requests.body_read();
    assert!(requests.is_between_requests());
    drop(requests.open(true));
    assert!(!requests.is_between_requests(), "the head is not flushed");
    served.flush().await.unwrap();
    assert!(requests.is_between_requests(), "it has no body");
    served.write_all(b"an error of hyper's own").await.unwrap();
    assert!(!requests.is_between_requests());
    served.flush().await.unwrap();
    assert!(requests.is_between_requests());
    requests.upgrade();
    assert!(!requests.is_between_requests());
}

#[tokio::test]
async fn truncated_response_closes_the_connection() {
    let Pair { client: _client, mut served, requests, .. } = pair().await;
    for (handed_over, written, complete) in [(4, 4, true), (4, 9, true), (4, 3, false)] {
        let open = requests.open(true);
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
async fn replayed_bytes_precede_those_of_the_socket() {
    let Pair { mut client, served, requests, evictable } = pair().await;
    client.write_all(b"rest").await.unwrap();
    let (stream, read) = dismantle(served);
    assert!(read.is_empty());
    let start = Bytes::from_static(b"start, ");
    let mut served = http1(stream, start, &requests, &evictable, TIMEOUTS);
    let mut part = [0; 2];
    served.read_exact(&mut part).await.unwrap();
    // The connection moves again before all bytes are read.
    let (stream, read) = dismantle(served);
    let mut served = http1(stream, read, &requests, &evictable, TIMEOUTS);
    let mut read = [0; 9];
    served.read_exact(&mut read).await.unwrap();
    assert_eq!((&part, &read), (b"st", b"art, rest"));
}

#[tokio::test(start_paused = true)]
async fn bytes_that_complete_no_request_do_not_keep_a_connection_open() {
    let Pair { mut client, mut served, requests, .. } = pair().await;
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
    requests.body_read();
    tokio::select! {
        () = trickle => panic!("the client does not end"),
        error = read => assert_eq!(error, io::ErrorKind::TimedOut),
    }
    assert!(began.elapsed() >= IDLE && began.elapsed() < 2 * IDLE);
}

#[tokio::test(start_paused = true)]
async fn client_that_waits_for_a_response_or_reads_it_slowly_is_not_idle() {
    let Pair { mut client, mut served, requests, .. } = pair().await;
    let open = requests.open(true);
    let mut byte = [0];
    let waited = tokio::time::timeout(5 * IDLE, served.read(&mut byte)).await;
    assert!(waited.is_err(), "the response is pending");
    drop(open);
    for _ in 0..5 {
        served.write_all(b"x").await.unwrap();
        client.read_exact(&mut byte).await.unwrap();
        let waited = tokio::time::timeout(IDLE * 3 / 4, served.read(&mut byte)).await;
        assert!(waited.is_err(), "it reads its response");
    }
    let error = served.read(&mut byte).await.expect_err("nothing is read any more");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn silent_websocket_is_not_closed_as_idle() {
    let Pair { client: _client, mut served, requests, .. } = pair().await;
    requests.upgrade();
    let waited = tokio::time::timeout(5 * IDLE, served.read_u8()).await;
    assert!(waited.is_err(), "a silent WebSocket stays open");
}

/// The idle time decides which connection is evicted when another client needs one.
#[tokio::test]
async fn websocket_that_sends_bytes_is_not_idle() {
    let Pair { mut client, mut served, requests, evictable } = pair().await;
    requests.upgrade();
    while evictable.idle() < Duration::from_millis(5) {
        std::thread::yield_now();
    }
    let began = std::time::Instant::now();
    client.write_all(b"x").await.unwrap();
    served.read_u8().await.unwrap();
    let idle = evictable.idle();
    // The idle time is counted in whole milliseconds.
    assert!(idle <= began.elapsed() + Duration::from_millis(1), "{idle:?}");
}

#[tokio::test]
async fn large_response_is_written_in_turns_and_completely() {
    let Pair { mut client, mut served, .. } = pair().await;
    let much: Vec<u8> = (0..5 * WRITE_TURN_BYTES + 17).map(|at| at as u8).collect();
    let writing = async {
        // Like hyper, this writes several pieces at once, and the rest in further writes.
        let (first, rest) = much.split_at(WRITE_TURN_BYTES / 3);
        let (mut at, whole) = (0, [first, rest]);
        while at < much.len() {
            let from_first = whole[0].get(at..).unwrap_or_default();
            let from_rest = &whole[1][at.saturating_sub(first.len())..];
            let pieces = [IoSlice::new(from_first), IoSlice::new(from_rest)];
            let written = served.write_vectored(&pieces).await.unwrap();
            assert!(written > 0 && written <= WRITE_TURN_BYTES);
            at += written;
        }
        served.shutdown().await.unwrap();
    };
    let mut read = Vec::new();
    let (_, taken) = tokio::join!(writing, client.read_to_end(&mut read));
    taken.unwrap();
    assert!(read == much);
}

/// One thread serves both clients.
#[tokio::test]
async fn request_is_seen_between_the_turns_of_a_large_response() {
    const TURNS: usize = 4;
    let (large, other) = (pair().await, pair().await);
    let (_reader, mut large) = (large.client, large.served);
    let (small_client, mut small_served) = (other.client, other.served);
    let written = Arc::<AtomicUsize>::default();
    let before = Arc::clone(&written);
    let served = tokio::spawn(async move {
        small_served.read_u8().await.unwrap();
        before.load(Relaxed)
    });
    small_client.writable().await.unwrap();
    let writing = tokio::spawn(async move {
        // The byte arrives now, but the runtime does not poll the sockets before this task yields.
        assert_eq!(small_client.try_write(b"x").unwrap(), 1);
        let turn = vec![0; WRITE_TURN_BYTES];
        for _ in 0..TURNS {
            large.write_all(&turn).await.unwrap();
            written.fetch_add(1, Relaxed);
        }
        (small_client, large)
    });
    assert!(served.await.unwrap() < TURNS, "the response was written to its end first");
    writing.abort();
}

/// One thread serves a client that sends much at once and one that sends a byte.
#[tokio::test]
async fn small_request_is_read_between_the_turns_of_a_large_body() {
    const TURNS: usize = 8;
    let (large, other) = (pair().await, pair().await);
    let (mut sender, mut large) = (large.client, large.served);
    let (small_client, mut small_served) = (other.client, other.served);
    // The kernel has buffered the whole body before the first read.
    sender.write_all(&vec![7; TURNS * READ_TURN_BYTES]).await.unwrap();
    let read = Arc::<AtomicUsize>::default();
    let before = Arc::clone(&read);
    let served = tokio::spawn(async move {
        small_served.read_u8().await.unwrap();
        before.load(Relaxed)
    });
    small_client.writable().await.unwrap();
    let reading = tokio::spawn(async move {
        assert_eq!(small_client.try_write(b"x").unwrap(), 1);
        // A buffer for the whole body, like that of hyper.
        let mut body = vec![0; TURNS * READ_TURN_BYTES];
        let mut at = 0;
        while at < body.len() {
            let count = large.read(&mut body[at..]).await.unwrap();
            assert!((1..=READ_TURN_BYTES).contains(&count), "{count} bytes in one turn");
            at += count;
            read.store(at, Relaxed);
        }
        (small_client, body)
    });
    assert!(served.await.unwrap() < TURNS * READ_TURN_BYTES, "the body was read to its end first");
    let (_small_client, body) = reading.await.unwrap();
    assert!(body.iter().all(|byte| *byte == 7));
}

#[tokio::test(start_paused = true)]
async fn client_that_reads_nothing_is_disconnected() {
    let Pair { client: _client, mut served, .. } = pair().await;
    let began = Instant::now();
    let much = vec![0; 64 << 20];
    let error = served.write_all(&much).await.expect_err("the peer does not read");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert!(began.elapsed() >= SLOW && began.elapsed() < 2 * SLOW);
}

/// Over HTTP/2 the socket shows no requests.
#[tokio::test(start_paused = true)]
async fn http2_connection_is_kept_open_only_by_traffic() {
    let (mut client, served) = sockets().await;
    let mut served = http2(served, &Arc::default(), TIMEOUTS);
    for _ in 0..5 {
        client.write_all(b"x").await.unwrap();
        served.read_u8().await.unwrap();
        assert!(tokio::time::timeout(IDLE * 3 / 4, served.read_u8()).await.is_err());
    }
    let error = served.read_u8().await.expect_err("nothing more arrives");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}
