//! Takes free resources: filters and subscriptions. If one client takes all of them, its own are evicted first.

use super::world::{MAX_SHARED, World};
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::timeout,
};

/// The attacker's address. The honest user's address is 127.0.0.1.
const ATTACKER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
/// Number of filters, and of subscriptions, that the attacker requests per step.
const ATTEMPTS: usize = 4;
/// Number of filters of the honest user: as few as a wallet has.
const HONEST_FILTERS: usize = 4;

/// The resources of an attacker and an honest user.
#[derive(Default)]
pub(super) struct Free {
    /// Connections of the attacker, each with a subscription. The attacker never reads from them.
    connections: Vec<TcpStream>,
    /// Filters of the honest user.
    filters: Vec<Value>,
    /// Number of requests of the honest user, and the number of these that were refused.
    pub(super) asked: u64,
    pub(super) refused: u64,
    /// Number of filters and subscriptions that the attacker received, and the number that it was refused.
    pub(super) taken: u64,
    pub(super) denied: u64,
}

impl Free {
    /// Performs one step: the attacker takes as much as possible, then the honest user sends requests.
    pub(super) async fn act(&mut self, world: &World) {
        let (http, socket) = (world.node.json_rpc, world.node.web_socket);
        for _ in 0..ATTEMPTS {
            self.count(post_from(ATTACKER, http, "eth_newBlockFilter", json!([])).await.is_some());
            let subscribed = subscribe_from(ATTACKER, socket).await;
            self.count(subscribed.is_some());
            self.connections.extend(subscribed);
        }
        // The node has closed the old connections. The attacker keeps no more than it can use.
        let excess = self.connections.len().saturating_sub(2 * MAX_SHARED);
        self.connections.drain(..excess);
        let honest = IpAddr::V4(Ipv4Addr::LOCALHOST);
        if self.filters.len() < HONEST_FILTERS {
            let filter = post_from(honest, http, "eth_newBlockFilter", json!([])).await;
            self.count_honest(filter.is_some());
            self.filters.extend(filter);
        }
        for filter in self.filters.clone() {
            let changes = post_from(honest, http, "eth_getFilterChanges", json!([filter])).await;
            self.count_honest(changes.is_some());
        }
        self.count_honest(subscribe_from(honest, socket).await.is_some());
    }

    fn count(&mut self, taken: bool) {
        if taken { self.taken += 1 } else { self.denied += 1 }
    }

    fn count_honest(&mut self, succeeded: bool) {
        self.asked += 1;
        self.refused += u64::from(!succeeded);
    }
}

async fn connect_from(source: IpAddr, to: SocketAddr) -> Option<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(source, 0)).unwrap();
    socket.connect(to).await.ok()
}

/// Returns the result of a call over HTTP, or `None` if it was refused.
async fn post_from(source: IpAddr, to: SocketAddr, method: &str, params: Value) -> Option<Value> {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let request = format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let talk = async {
        let mut stream = connect_from(source, to).await?;
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await.ok()?;
        let response: Value = serde_json::from_str(text.split_once("\r\n\r\n")?.1).ok()?;
        response.get("result").cloned()
    };
    timeout(crate::client::MAX_WAIT, talk).await.expect("a response or the end of the connection")
}

/// Opens a connection that subscribes to new blocks. Returns `None` if it was refused.
async fn subscribe_from(source: IpAddr, to: SocketAddr) -> Option<TcpStream> {
    let talk = async {
        let mut stream = connect_from(source, to).await?;
        let upgrade = "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\
                       Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                       Sec-WebSocket-Version: 13\r\n\r\n";
        stream.write_all(upgrade.as_bytes()).await.ok()?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.ok()?);
        }
        let call = br#"{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}"#;
        // The call is sent as a final text frame with a mask of zeros (RFC 6455).
        let frame = [&[0x81, 0x80 | call.len() as u8, 0, 0, 0, 0], &call[..]].concat();
        stream.write_all(&frame).await.ok()?;
        // The response is the first message because events are only sent after it.
        let mut length = [0; 2];
        stream.read_exact(&mut length).await.ok()?;
        let mut message = vec![0; usize::from(length[1])];
        stream.read_exact(&mut message).await.ok()?;
        let response: Value = serde_json::from_slice(&message).ok()?;
        response.get("result").is_some().then_some(stream)
    };
    timeout(crate::client::MAX_WAIT, talk).await.expect("a response or the end of the connection")
}
