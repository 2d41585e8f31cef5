//! A connection goes from thread to thread, and its client does not notice.

use crate::client::{Node, PATIENCE};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// Calls of a batch whose answer is large: each has a block's bloom filter.
const CALLS: u64 = 150;
/// Small answers after which a connection is where it was at the beginning.
const SMALL: u64 = 70;

/// A node with one thread for each kind of connection.
async fn node() -> Node {
    Node::native_with(|config| {
        config.json_rpc.threads = 2;
        config.json_rpc.max_batch = CALLS as u32;
    })
    .await
}

fn call(id: u64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn request(body: &Value) -> Vec<u8> {
    let body = body.to_string();
    let head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// The next answer, whole.
async fn answer(stream: &mut TcpStream) -> Value {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).await.unwrap();
    serde_json::from_slice(&body).unwrap()
}

/// With each request comes the beginning of the next one, which is read on the thread that is left.
#[tokio::test(flavor = "multi_thread")]
async fn requests_begun_before_a_move_are_answered_after_it() {
    const BEGUN: usize = 30;
    let node = node().await;
    let block = |id| call(id, "eth_getBlockByNumber", json!(["0x0", false]));
    let mut requests = Vec::new();
    for _ in 0..2 {
        requests.push(Value::from_iter((0..CALLS).map(block)));
        requests.extend((0..SMALL).map(|id| call(id, "eth_chainId", json!([]))));
    }
    let raw: Vec<_> = requests.iter().map(request).collect();
    let mut stream = TcpStream::connect(node.rpc.address).await.unwrap();
    let mut written = 0;
    for (index, asked) in requests.iter().enumerate() {
        let mut bytes = raw[index][written..].to_vec();
        let next = raw.get(index + 1).map_or(&[][..], |next| &next[..BEGUN]);
        bytes.extend_from_slice(next);
        written = next.len();
        stream.write_all(&bytes).await.unwrap();
        let answered = timeout(PATIENCE, answer(&mut stream)).await.unwrap();
        match asked.as_array() {
            Some(calls) => {
                let ids: Vec<_> =
                    answered.as_array().unwrap().iter().map(|one| &one["id"]).collect();
                assert!(ids.iter().copied().eq(calls.iter().map(|one| &one["id"])), "{ids:?}");
                assert!(answered.to_string().len() > 64 * 1024);
            }
            None => assert_eq!(
                (&answered["id"], &answered["result"]),
                (&asked["id"], &json!("0x40000"))
            ),
        }
    }
    node.stop().await;
}

/// Nothing is waited for in between: the moves are wherever the server has nothing to do.
#[tokio::test(flavor = "multi_thread")]
async fn requests_in_a_row_are_answered_in_their_order() {
    let node = node().await;
    let block = |id| call(id, "eth_getBlockByNumber", json!(["0x0", false]));
    let stream = TcpStream::connect(node.rpc.address).await.unwrap();
    let (mut from, mut to) = stream.into_split();
    let writing = tokio::spawn(async move {
        for id in 0..3 * SMALL {
            let body = match id % SMALL {
                0 => Value::from_iter((0..CALLS).map(block)),
                _ => call(id, "eth_chainId", json!([])),
            };
            to.write_all(&request(&body)).await.unwrap();
        }
        to
    });
    let mut text = Vec::new();
    let last = format!("\"id\":{},", 3 * SMALL - 1);
    let read = async {
        while !text.windows(last.len()).rev().take(4096).any(|part| part == last.as_bytes()) {
            from.read_buf(&mut text).await.unwrap();
        }
    };
    timeout(PATIENCE, read).await.unwrap();
    drop(writing.await.unwrap());
    let text = String::from_utf8(text).unwrap();
    assert!(text.len() > 3 * 64 * 1024, "{}", text.len());
    let mut small: Vec<_> = text.split(",\"result\":\"0x40000\"").collect();
    small.pop();
    let ids = small.iter().map(|before| before.rsplit(':').next().unwrap().parse::<u64>().unwrap());
    assert!(ids.eq((0..3 * SMALL).filter(|id| id % SMALL > 0)));
    assert_eq!(text.matches("HTTP/1.1 200").count() as u64, 3 * SMALL);
    node.stop().await;
}
