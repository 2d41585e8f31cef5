//! Opens and closes subscriptions in batches.

use crate::client::{MAX_WAIT, Node, Socket};
use serde_json::{Value, json};
use tokio::time::timeout;

/// Number of consecutive batches.
const ROUNDS: usize = 30;

fn call(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params })
}

async fn next(socket: &mut Socket) -> Value {
    timeout(MAX_WAIT, socket.receive()).await.unwrap()
}

/// Sends a batch and returns its response, which notifications of other subscriptions may precede.
async fn batch(socket: &mut Socket, calls: Value, known: &[Value]) -> Vec<Value> {
    socket.send(&calls.to_string()).await;
    loop {
        let message = next(socket).await;
        match message.as_array() {
            Some(responses) => return responses.clone(),
            None => assert!(known.contains(&message["params"]["subscription"]), "{message}"),
        }
    }
}

/// Blocks are produced every 5 ms, so some notifications would precede the response if the order were not enforced.
#[tokio::test(flavor = "multi_thread")]
async fn notifications_follow_the_response_of_the_batch() {
    let node = Node::native().await;
    for address in [node.json_rpc, node.web_socket] {
        let mut socket = node.websocket(address).await;
        let mut known = Vec::new();
        for _ in 0..ROUNDS {
            let calls = json!([
                call("a", "eth_subscribe", json!(["newHeads"])),
                call(-1.5, "eth_chainId", json!([])),
                call(2, "eth_subscribe", json!(["syncing"])),
                call(3, "eth_subscribe", json!(["none"])),
            ]);
            let responses = batch(&mut socket, calls, &known).await;
            let ids: Vec<_> = responses.iter().map(|response| response["id"].clone()).collect();
            assert_eq!(ids, [json!("a"), json!(-1.5), json!(2), json!(3)]);
            assert_eq!(responses[1]["result"], "0x40000");
            assert_eq!(responses[3]["error"]["code"], -32601, "{}", responses[3]);
            known.push(responses[0]["result"].clone());
            known.push(responses[2]["result"].clone());
            assert!(known.iter().all(|id| id.as_str().is_some_and(|id| id.len() == 34)));
            // Older subscriptions are closed, so that few are open. Notifications already sent still arrive.
            if let [.., first, second, _, _] = &known[..] {
                let calls = json!([
                    call(1, "eth_unsubscribe", json!([first])),
                    call(2, "eth_unsubscribe", json!([second])),
                    call(3, "eth_unsubscribe", json!([second])),
                ]);
                let responses = batch(&mut socket, calls, &known).await;
                assert_eq!(
                    (&responses[0]["result"], &responses[1]["result"]),
                    (&json!(true), &json!(true))
                );
                assert_eq!(responses[2]["error"]["message"], "subscription not found");
            }
        }
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_head_is_missed_after_the_batch() {
    let node = Node::native().await;
    let mut socket = node.websocket(node.web_socket).await;
    let calls = json!([
        call(1, "eth_subscribe", json!(["newHeads"])),
        call(2, "eth_blockNumber", json!([])),
    ]);
    let responses = batch(&mut socket, calls, &[]).await;
    let hex = |value: &Value| u64::from_str_radix(&value.as_str().unwrap()[2..], 16).unwrap();
    let before = hex(&responses[1]["result"]);
    let first = hex(&next(&mut socket).await["params"]["result"]["number"]);
    // The head that the batch reads may be older than that of the subscription, but not newer.
    assert!(first > before, "{first} {before}");
    for number in first + 1..first + 5 {
        let pushed = next(&mut socket).await;
        assert_eq!(pushed["params"]["subscription"], responses[0]["result"]);
        assert_eq!(hex(&pushed["params"]["result"]["number"]), number);
    }
    node.stop().await;
}

/// Without its id, the client could never close the subscription.
#[tokio::test(flavor = "multi_thread")]
async fn subscription_is_closed_if_its_id_does_not_fit_into_the_response() {
    const RESPONSE_BYTES: u32 = 2_000;
    let change = |config: &mut config::Config| {
        config.json_rpc.max_response_bytes = RESPONSE_BYTES;
        config.json_rpc.max_subscriptions = 1;
    };
    let node = Node::native_with(change).await;
    let mut socket = node.websocket(node.web_socket).await;
    let calls = json!([
        call("x".repeat(RESPONSE_BYTES as usize), "eth_chainId", json!([])),
        call(2, "eth_subscribe", json!(["newHeads"])),
    ]);
    let responses = batch(&mut socket, calls, &[]).await;
    assert_eq!(responses[1]["error"]["code"], -32003, "{}", responses[1]);
    // Until the permit of the closed subscription is released, the limit is exceeded.
    let opened = async {
        loop {
            let response = socket.response("eth_subscribe", json!(["syncing"])).await;
            if response.get("result").is_some() {
                return response["result"].clone();
            }
        }
    };
    let id = timeout(MAX_WAIT, opened).await.unwrap();
    assert_eq!(next(&mut socket).await["params"], json!({ "subscription": id, "result": false }));
    node.stop().await;
}

/// Notifications cannot follow a response over HTTP.
#[tokio::test(flavor = "multi_thread")]
async fn batch_over_http_cannot_subscribe() {
    let node = Node::native().await;
    let calls = json!([call(1, "eth_subscribe", json!(["newHeads"]))]);
    let responses = node.post(&calls.to_string()).await;
    assert_eq!(responses[0]["error"]["message"], "notifications not supported");
    node.stop().await;
}
