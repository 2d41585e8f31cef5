//! Tests that large responses over HTTP and WebSocket arrive complete, even if the client reads slowly.

use crate::client::{MAX_WAIT, Node, exchange};
use std::net::SocketAddr;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::timeout,
};

/// Maximum number of calls in a batch of these tests.
const MAX_BATCH: usize = 200;
/// Receive buffer of a client that reads slowly, in bytes. It is close to the kernel's minimum.
const TINY_BUFFER: u32 = 2048;
/// Numbers of responses in a batch: small ones, some around 16, at which hyper's buffer is full, and large ones.
const COUNTS: [usize; 9] = [1, 2, 8, 9, 16, 17, 33, 64, 200];
/// Numbers of bytes that a call returns. A result whose hex text has 16 KiB or more is a separate piece.
const SIZES: [usize; 5] = [500, 8_150, 8_200, 16_500, 50_000];

async fn node(threads: usize) -> Node {
    Node::native_with(|config| {
        config.json_rpc.threads = threads;
        config.json_rpc.max_batch = MAX_BATCH as u32;
    })
    .await
}

/// Returns an `eth_call` of code that returns this many zero bytes.
fn call(id: usize, bytes: usize) -> String {
    // PUSH3 bytes, PUSH0, RETURN.
    let code = format!("0x62{bytes:06x}5ff3");
    let to = "0x00000000000000000000000000000000000c0de0";
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"eth_call","params":[{{"to":"{to}"}},"latest",{{"{to}":{{"code":"{code}"}}}}]}}"#
    )
}

fn response(id: usize, bytes: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"0x{}"}}"#, "00".repeat(bytes))
}

/// Returns a batch of calls that each return the number of bytes in `sizes`, and the expected response.
fn batch(sizes: &[usize]) -> (String, String) {
    let list = |item: fn(usize, usize) -> String| {
        let items: Vec<_> = sizes.iter().enumerate().map(|(id, bytes)| item(id, *bytes)).collect();
        format!("[{}]", items.join(","))
    };
    (list(call), list(response))
}

fn request(body: &str) -> Vec<u8> {
    let head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Opens a connection, whose receive buffer is tiny if `slow`.
async fn connect(address: SocketAddr, slow: bool) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    if slow {
        socket.set_recv_buffer_size(TINY_BUFFER).unwrap();
    }
    socket.connect(address).await.unwrap()
}

/// Reads the next response and compares its body.
async fn expect(stream: &mut (impl AsyncRead + Unpin), expected: &str, what: &str) {
    let read = async {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        assert!(head.starts_with("http/1.1 200"), "{what}: {head}");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        stream.read_exact(&mut body).await.unwrap();
        body
    };
    let body = timeout(MAX_WAIT, read).await.unwrap_or_else(|_| panic!("{what}: cut short"));
    assert!(body == expected.as_bytes(), "{what}: {} of {} bytes", body.len(), expected.len());
}

/// Sends a small call with its own id to check that responses still match requests.
async fn expect_small(stream: &mut TcpStream, id: usize, what: &str) {
    stream.write_all(&request(&call(id, 1))).await.unwrap();
    expect(stream, &response(id, 1), what).await;
}

/// Sends a batch of equal calls for each count and size, on a new connection and on a shared one.
async fn batches_arrive(threads: usize) {
    let node = node(threads).await;
    let mut shared = connect(node.json_rpc, false).await;
    for (index, count) in COUNTS.into_iter().enumerate() {
        for bytes in SIZES {
            let (request_body, expected) = batch(&vec![bytes; count]);
            let request_body = request(&request_body);
            let what = format!("{count} results of {bytes} bytes, {threads} threads");
            let mut new = connect(node.json_rpc, index % 2 == 1).await;
            for stream in [&mut new, &mut shared] {
                stream.write_all(&request_body).await.unwrap();
                expect(stream, &expected, &what).await;
                expect_small(stream, 1_000_000 + bytes, &what).await;
            }
        }
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_over_http_arrive_complete_with_one_thread() {
    batches_arrive(1).await;
}

/// With two threads, the connection moves to the thread for large responses.
#[tokio::test(flavor = "multi_thread")]
async fn batches_over_http_arrive_complete_with_two_threads() {
    batches_arrive(2).await;
}

/// Each batch has small, medium and large results, in an order with period 7, which does not divide 16.
#[tokio::test(flavor = "multi_thread")]
async fn pipelined_batches_are_answered_in_order_to_slow_readers() {
    const BATCHES: usize = 6;
    let node = node(2).await;
    let sizes = |first: usize| {
        let sizes =
            (0..40).map(|at| [1, 9_000, 40_000, 17_000, 300, 8_192, 25_000][(first + at) % 7]);
        sizes.collect::<Vec<_>>()
    };
    for slow in [false, true] {
        let stream = connect(node.json_rpc, slow).await;
        let (mut from, mut to) = stream.into_split();
        let (requests, expected): (Vec<_>, Vec<_>) = (0..BATCHES)
            .map(|first| batch(&sizes(first)))
            .map(|(request_body, expected)| (request(&request_body), expected))
            .unzip();
        let writing =
            tokio::spawn(async move { to.write_all(&requests.concat()).await.map(|()| to) });
        for (index, expected) in expected.iter().enumerate() {
            expect(&mut from, expected, &format!("batch {index}, slow: {slow}")).await;
        }
        drop(writing.await.unwrap().unwrap());
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_over_websocket_arrive_complete() {
    let node = node(2).await;
    for address in [node.json_rpc, node.web_socket] {
        let mut socket = node.websocket(address).await;
        for count in COUNTS {
            for bytes in SIZES {
                let (request_body, expected) = batch(&vec![bytes; count]);
                socket.send(&request_body).await;
                let received = timeout(MAX_WAIT, socket.receive_text()).await.unwrap();
                assert!(received == expected, "{count} results of {bytes} bytes");
            }
        }
    }
    node.stop().await;
}

/// The OpenAPI document has more than 100 KB.
#[tokio::test(flavor = "multi_thread")]
async fn documents_over_rest_arrive_complete() {
    const TIMES: usize = 20;
    let node = node(2).await;
    let get = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let (_, whole) = exchange(
        node.rest,
        b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    )
    .await;
    assert!(whole.len() > 100_000 && whole.ends_with('}'), "{}", whole.len());
    for slow in [false, true] {
        let mut stream = connect(node.rest, slow).await;
        stream.write_all(&get.repeat(TIMES)).await.unwrap();
        for time in 0..TIMES {
            expect(&mut stream, &whole, &format!("response {time}, slow: {slow}")).await;
        }
    }
    node.stop().await;
}
