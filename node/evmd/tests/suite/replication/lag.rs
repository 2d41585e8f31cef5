//! Tests the heights in requests and responses of clients that use several nodes, and how a replica reports its lag.

use super::{follow, head, http, producer_home, reach, replica_home, url};
use crate::{common::wait_for, development::PROGRAM};
use serde_json::{Value, json};
use std::{fs, net::SocketAddr, path::Path};
use testkit::{Endpoints, NodeProcess, exchange_with_head};
use tonic::{Code, Request, client::Grpc, transport::Channel};
use tonic_prost::ProstCodec;

use proto::cosmos::base::tendermint::v1beta1::{GetSyncingRequest, GetSyncingResponse};

/// Returns the servers that report heights, and a request for each, in which `{}` stands for an optional header line.
fn requests(endpoints: &Endpoints) -> [(&'static str, SocketAddr, String); 4] {
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber"}"#;
    let post = format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n\
         Content-Length: {}\r\n{{}}\r\n{body}",
        body.len()
    );
    let get = |path: &str| {
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{{}}\r\n")
    };
    [
        ("JSON-RPC", endpoints.json_rpc, post),
        ("REST", endpoints.rest, get("/cosmos/base/tendermint/v1beta1/syncing")),
        ("CometBFT", endpoints.comet, get("/status")),
        ("pages", endpoints.pages, get("/block/0")),
    ]
}

/// Sends a request with an optional header line. Returns the status, the reported height, and the body.
async fn send(address: SocketAddr, request: &str, line: &str) -> (u16, Option<u64>, String) {
    let request = request.replace("{}", line);
    let (status, head, body) = exchange_with_head(address, request.as_bytes()).await;
    let height = head.lines().find_map(|line| line.strip_prefix("x-evmd-height: "));
    (status, height.map(|height| height.parse().unwrap()), body)
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_several_nodes_never_see_an_older_head() {
    let folder = tempfile::tempdir().unwrap();
    let home = producer_home(folder.path());
    let producer = super::produce(&home);
    let replica = follow(&replica_home(&home, "replica"), &url(&producer), &[]);
    let followed = replica.endpoints();
    for ((name, ahead, first), (_, behind, second)) in
        requests(&producer.endpoints()).into_iter().zip(requests(&followed))
    {
        // The replica does not always have the newest block of the producer yet.
        for _ in 0..5 {
            let (status, height, _) = send(ahead, &first, "").await;
            assert_eq!(status, 200, "{name}");
            let line = format!("X-Evmd-Min-Height: {}\r\n", height.unwrap());
            let (status, reached, body) = send(behind, &second, &line).await;
            assert_eq!(status, 200, "{name}: {body}");
            assert!(reached >= height, "{name}: {reached:?} after {height:?}");
        }
        let (status, height, body) = send(behind, &second, "X-Evmd-Min-Height: 99999999\r\n").await;
        assert_eq!(status, 503, "{name}: {body}");
        let text = format!("the newest is {}", height.unwrap());
        assert!(
            body.contains("block 99999999") && body.contains("the newest is "),
            "{text}: {body}"
        );
        let (status, _, body) = send(behind, &second, "X-Evmd-Min-Height: latest\r\n").await;
        assert_eq!(status, 400, "{name}: {body}");
        assert!(body.contains("one decimal number"), "{name}: {body}");
    }
    // The WebSocket handshake has the same headers.
    let upgrade = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n{}\r\n";
    let line = "X-Evmd-Min-Height: 99999999\r\n";
    let (status, height, body) = send(followed.json_rpc, upgrade, line).await;
    assert!(status == 503 && height.is_some(), "{body}");
    // gRPC has the same headers.
    let before = head(&producer.endpoints()).await;
    let response = syncing(&followed, Some(before)).await.unwrap();
    assert!(response.1 >= before, "{response:?}");
    let error = syncing(&followed, Some(99_999_999)).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable, "{error}");
}

/// Returns the result of `GetSyncing`, and the reported height.
async fn syncing(
    endpoints: &Endpoints,
    min_height: Option<u64>,
) -> Result<(bool, u64), tonic::Status> {
    let channel = Channel::from_shared(format!("http://{}", endpoints.grpc)).unwrap();
    let mut grpc = Grpc::new(channel.connect().await.unwrap());
    grpc.ready().await.unwrap();
    let mut request = Request::new(GetSyncingRequest {});
    if let Some(height) = min_height {
        request.metadata_mut().insert("x-evmd-min-height", height.into());
    }
    let codec = ProstCodec::<GetSyncingRequest, GetSyncingResponse>::default();
    let path = "/cosmos.base.tendermint.v1beta1.Service/GetSyncing".parse().unwrap();
    let response = grpc.unary(request, path, codec).await?;
    let height =
        response.metadata().get("x-evmd-height").unwrap().to_str().unwrap().parse().unwrap();
    Ok((response.into_inner().syncing, height))
}

/// Returns what a node reports about its lag: whether it is behind, on every interface, and the status of `/ready`.
async fn reported(endpoints: &Endpoints) -> Value {
    let (ready, body) = endpoints.get("/ready").await;
    let body: Value = serde_json::from_str(&body).unwrap();
    json!({
        "eth_syncing": endpoints.call("eth_syncing", json!([])).await.is_object(),
        "REST": http(endpoints.rest, "/cosmos/base/tendermint/v1beta1/syncing").await["syncing"],
        "gRPC": syncing(endpoints, None).await.unwrap().0,
        "CometBFT": http(endpoints.comet, "/status").await["result"]["sync_info"]["catching_up"],
        "behind": body["behind"],
        "ready": ready,
    })
}

/// Returns what a node should report, depending on whether it is behind.
fn expected(behind: bool) -> Value {
    json!({
        "eth_syncing": behind, "REST": behind, "gRPC": behind, "CometBFT": behind, "behind": behind,
        "ready": if behind { 503 } else { 200 },
    })
}

async fn wait_until_reported(endpoints: &Endpoints, behind: bool) {
    let runtime = tokio::runtime::Handle::current();
    tokio::task::block_in_place(|| {
        wait_for("every interface reports it", || {
            let found = runtime.block_on(reported(endpoints));
            if found == expected(behind) { Ok(()) } else { Err(found.to_string()) }
        });
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_without_a_source_reports_that_it_is_behind() {
    let folder = tempfile::tempdir().unwrap();
    let home = producer_home(folder.path());
    let mut producer = super::produce(&home);
    let source = producer.endpoints().replication.unwrap().to_string();
    let replica_home = replica_home(&home, "replica");
    fs::write(replica_home.join("config.toml"), "[replication]\nmax-lag-ms = 1000\n").unwrap();
    let replica = follow(&replica_home, &url(&producer), &[]);
    let endpoints = replica.endpoints();
    reach(&replica, 2).await;
    wait_until_reported(&endpoints, false).await;
    assert_eq!(reported(&producer.endpoints()).await, expected(false));
    let mut socket = endpoints.websocket(endpoints.web_socket).await;
    socket.send(r#"{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["syncing"]}"#).await;
    socket.receive().await;
    let pushed = async |socket: &mut testkit::Socket| {
        tokio::time::timeout(testkit::MAX_WAIT, socket.receive()).await.unwrap()["params"]["result"]
            .take()
    };
    assert_eq!(pushed(&mut socket).await, json!(false));
    // The source stays silent on an open connection.
    producer.pause();
    wait_until_reported(&endpoints, true).await;
    assert_eq!(pushed(&mut socket).await["syncing"], json!(true));
    producer.resume();
    wait_until_reported(&endpoints, false).await;
    assert_eq!(pushed(&mut socket).await, json!(false));
    producer.kill();
    wait_until_reported(&endpoints, true).await;
    let lag = http(endpoints.metrics, "/health").await;
    assert!(lag["lagMs"].as_u64().unwrap() >= 1_000, "{lag}");
    let blocks = endpoints.call("eth_syncing", json!([])).await;
    assert_eq!(blocks["currentBlock"], endpoints.call("eth_blockNumber", json!([])).await);
    assert_eq!(pushed(&mut socket).await, json!({ "syncing": true, "status": blocks }));
    let options = ["--replication.address", &source, "--block-time", super::BLOCK_TIME];
    let _producer = NodeProcess::start(Path::new(PROGRAM), &home, &options);
    wait_until_reported(&endpoints, false).await;
    assert_eq!(pushed(&mut socket).await, json!(false));
}
