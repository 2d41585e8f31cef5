//! Reads pages of proposals and deposits while the lists change: no item is repeated or skipped.

use super::served::Served;
use crate::common::signed::{address_of, any, coins, signed};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use prost_types::Any;
use proto::cosmos::gov::v1::{MsgDeposit, MsgSubmitProposal};
use serde_json::Value;

fn proposal(from: usize) -> Any {
    any(&MsgSubmitProposal {
        proposer: address_of(from),
        title: "t".to_owned(),
        summary: "s".to_owned(),
        ..MsgSubmitProposal::default()
    })
}

fn deposit(from: usize, proposal_id: u64, amount: u64) -> Any {
    any(&MsgDeposit { proposal_id, depositor: address_of(from), amount: coins(amount) })
}

async fn mined(served: &Served, from: usize, sequence: u64, messages: Vec<Any>) {
    let response = served.mined(&signed(from, sequence, messages)).await;
    assert_eq!(response["code"], 0, "{response}");
}

/// Returns the items of a list, and the key of the next page, escaped for use in a query.
fn page(response: &Value, list: &str, field: &str) -> (Vec<String>, String) {
    let shown = |item: &Value| item[field].as_str().unwrap().to_owned();
    let items = response[list].as_array().unwrap().iter().map(shown).collect();
    let key = response["pagination"]["next_key"].as_str().unwrap_or_default();
    (items, key.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D"))
}

#[tokio::test(flavor = "multi_thread")]
async fn proposal_pages_continue_at_their_key() {
    let served = Served::start().await;
    mined(&served, 1, 0, (0..3).map(|_| proposal(1)).collect()).await;
    mined(&served, 1, 1, (0..2).map(|_| proposal(1)).collect()).await;
    for version in ["v1", "v1beta1"] {
        let field = if version == "v1" { "id" } else { "proposal_id" };
        let path = format!("/cosmos/gov/{version}/proposals?pagination.limit=2");
        let response = served.get(&format!("{path}&pagination.reverse=true")).await;
        assert_eq!(response["pagination"]["next_key"], BASE64.encode(3_u64.to_be_bytes()));
        assert_eq!(page(&response, "proposals", field).0, ["5", "4"]);
    }
    let path = "/cosmos/gov/v1/proposals?pagination.limit=2";
    let newest = served.get(&format!("{path}&pagination.reverse=true")).await;
    let (_, key) = page(&newest, "proposals", "id");
    let waiting = served.get(&format!("{path}&proposal_status=1")).await;
    let (first, waiting_key) = page(&waiting, "proposals", "id");
    assert_eq!(first, ["1", "2"]);
    // Before the next pages are read, one item is added to the first list, and one is removed from the second.
    mined(&served, 1, 2, vec![proposal(1), deposit(1, 1, 10_000_000)]).await;
    let next = served.get(&format!("{path}&pagination.reverse=true&pagination.key={key}")).await;
    assert_eq!(page(&next, "proposals", "id").0, ["3", "2"]);
    let next = served.get(&format!("{path}&proposal_status=1&pagination.key={waiting_key}")).await;
    assert_eq!(page(&next, "proposals", "id").0, ["3", "4"]);
    let (status, _) = served.ask(&format!("{path}&pagination.key=AAM%3D")).await;
    assert_eq!(status, 400, "the key belongs to another list");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deposit_pages_continue_at_their_key() {
    let served = Served::start().await;
    mined(&served, 0, 0, vec![proposal(0), deposit(0, 1, 7)]).await;
    for from in 1..5 {
        mined(&served, from, 0, vec![deposit(from, 1, 7)]).await;
    }
    let path = "/cosmos/gov/v1/proposals/1/deposits?pagination.limit=2";
    let (mut all, mut key) = page(&served.get(path).await, "deposits", "depositor");
    // New items are added before and after the key.
    for from in 5..10 {
        mined(&served, from, 0, vec![deposit(from, 1, 7)]).await;
    }
    while !key.is_empty() {
        let response = served.get(&format!("{path}&pagination.key={key}")).await;
        let (more, next) = page(&response, "deposits", "depositor");
        all.extend(more);
        key = next;
    }
    let mut distinct = all.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), all.len(), "{all:?}");
    assert!((0..5).all(|from| all.contains(&address_of(from))), "{all:?}");
    served.stop().await;
}
