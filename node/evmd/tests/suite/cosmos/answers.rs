//! Mined and simulated Cosmos transactions return the same responses and errors for their messages as the SDK.

use super::served::Served;
use crate::common::signed::{address_of, any, coins, send, signed, slower_market};
use alloy_primitives::hex;
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use prost::Message;
use prost_types::Any;
use proto::cosmos::{
    bank::v1beta1::MsgSend,
    base::{abci::v1beta1::TxMsgData, v1beta1::Coin},
    gov::v1::{
        MsgDeposit, MsgDepositResponse, MsgSubmitProposalResponse, MsgVote, MsgVoteResponse,
    },
};
use serde_json::{Value, json};

/// The hex encoding of `TxMsgData` with the response to one `MsgSend`.
const SENT: &str =
    "12260A242F636F736D6F732E62616E6B2E763162657461312E4D736753656E64526573706F6E7365";
/// More than the balance of any account.
const TOO_MUCH: &str = "999999999999999999999999999999";

/// Returns a transfer from account 0 to account 1.
fn sending() -> Any {
    send(0, &address_of(1), 7)
}

/// Returns a transfer of more than the balance.
fn overdrawing() -> Any {
    let amount = vec![Coin { denom: "atest".to_owned(), amount: TOO_MUCH.to_owned() }];
    any(&MsgSend { from_address: address_of(0), to_address: address_of(1), amount })
}

/// Returns a vote on the first proposal.
fn voting() -> Any {
    any(&MsgVote { proposal_id: 1, voter: address_of(0), option: 1, ..MsgVote::default() })
}

/// Simulates the messages with this sequence of account 0; returns status and response.
async fn simulated(served: &Served, sequence: u64, messages: Vec<Any>) -> (u16, Value) {
    let body = json!({ "tx_bytes": BASE64.encode(signed(0, sequence, messages)) });
    served.post("/cosmos/tx/v1beta1/simulate", &body.to_string()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_to_messages_equal_those_of_the_sdk() {
    let served = Served::start().await;
    let sent = served.mined(&signed(0, 0, vec![sending(), sending()])).await;
    assert_eq!(sent["data"], json!([SENT, SENT].concat()), "{sent}");
    let hash = BASE64.encode(hex::decode(sent["txhash"].as_str().unwrap()).unwrap());
    let found = served.comet("tx", json!({ "hash": hash })).await;
    let bytes = BASE64.encode(hex::decode([SENT, SENT].concat()).unwrap());
    assert_eq!(found["tx_result"]["data"], json!(bytes));
    // Each message has its own response. The response to a proposal contains its id.
    let proposal = any(&slower_market("1000000000000000000000000000"));
    let depositor = address_of(0);
    let deposit = any(&MsgDeposit { proposal_id: 1, depositor, amount: coins(1) });
    let opened = served.mined(&signed(0, 1, vec![proposal, deposit, voting()])).await;
    assert_eq!(opened["code"], 0, "{opened}");
    let data = hex::decode(opened["data"].as_str().unwrap()).unwrap();
    let responses = TxMsgData::decode(data.as_slice()).unwrap().msg_responses;
    let expected = [
        any(&MsgSubmitProposalResponse { proposal_id: 1 }),
        any(&MsgDepositResponse {}),
        any(&MsgVoteResponse {}),
    ];
    assert_eq!(responses, expected);
    // A simulation also returns the responses.
    let proposal = any(&slower_market("1000000000000000000000000000"));
    let (status, response) = simulated(&served, 2, vec![sending(), proposal]).await;
    assert_eq!(status, 200, "{response}");
    let responses = json!([
        { "@type": "/cosmos.bank.v1beta1.MsgSendResponse" },
        { "@type": "/cosmos.gov.v1.MsgSubmitProposalResponse", "proposal_id": "2" },
    ]);
    assert_eq!(response["result"]["msg_responses"], responses);
    let (_, response) = simulated(&served, 2, vec![sending()]).await;
    assert_eq!(response["result"]["data"], json!(BASE64.encode(hex::decode(SENT).unwrap())));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_messages_equal_those_of_the_sdk() {
    const PREFIX: &str = "failed to execute message; message index: 1: ";
    let served = Served::start().await;
    let failed = served.mined(&signed(0, 0, vec![sending(), voting()])).await;
    assert_eq!((&failed["code"], &failed["codespace"]), (&json!(3), &json!("gov")));
    assert_eq!(failed["data"], "");
    assert_eq!(failed["raw_log"], json!(format!("{PREFIX}1: inactive proposal")));
    // A simulation returns the error of a message and the gas used. The pool would refuse this transaction.
    let (status, response) = simulated(&served, 1, vec![sending(), overdrawing()]).await;
    assert_eq!((status, &response["code"]), (500, &json!(2)), "{response}");
    let message = response["message"].as_str().unwrap();
    let beginning = format!("rpc error: code = Unknown desc = {PREFIX}spendable balance ");
    let reason = format!("atest is smaller than {TOO_MUCH}atest: insufficient funds");
    assert!(message.starts_with(&beginning), "{message}");
    assert!(message.contains(&format!("{reason} with gas used: '")), "{message}");
    // A simulation with a used sequence also fails. A simulation with a sequence above the next one succeeds.
    let (status, response) = simulated(&served, 0, vec![sending()]).await;
    assert_eq!((status, &response["code"]), (500, &json!(2)), "{response}");
    let expected = "rpc error: code = Unknown desc = account sequence mismatch, expected 1, got 0: \
                 incorrect account sequence with gas used: '";
    assert!(response["message"].as_str().unwrap().starts_with(expected), "{response}");
    let (status, response) = simulated(&served, 5, vec![sending()]).await;
    assert_eq!(status, 200, "{response}");
    // A simulation of bytes that are not a transaction uses no gas.
    let body = json!({ "tx_bytes": BASE64.encode([0x0a_u8]) }).to_string();
    let (status, response) = served.post("/cosmos/tx/v1beta1/simulate", &body).await;
    let message = response["message"].as_str().unwrap();
    assert!(status == 500 && message.ends_with("tx parse error with gas used: '0'"), "{response}");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn governance_parameters_are_returned_by_kind() {
    const PATH: &str = "/cosmos/gov/v1/params";
    let served = Served::start().await;
    let all = served.get(PATH).await;
    let params = &all["params"];
    for name in ["min_initial_deposit_ratio", "proposal_cancel_ratio", "min_deposit_ratio"] {
        assert_eq!(params[name], "0.000000000000000000", "{name}");
    }
    assert_eq!(params["proposal_cancel_dest"], "");
    let kinds: [(&str, &str, &[&str]); 3] = [
        ("voting", "voting_params", &["voting_period"]),
        ("deposit", "deposit_params", &["min_deposit", "max_deposit_period"]),
        ("tallying", "tally_params", &["quorum", "threshold", "veto_threshold"]),
    ];
    for (kind, field, names) in kinds {
        assert_eq!(all[field], Value::Null);
        let response = served.get(&format!("{PATH}/{kind}")).await;
        assert_eq!(&response["params"], params);
        let others = kinds.iter().filter(|(_, other, _)| *other != field);
        others.for_each(|(_, other, _)| assert_eq!(response[*other], Value::Null, "{kind}"));
        assert_eq!(response[field].as_object().unwrap().len(), names.len());
        for name in names {
            assert_eq!(response[field][*name], params[*name], "{name}");
        }
    }
    let (status, response) = served.ask(&format!("{PATH}/burning")).await;
    let reason = "rpc error: code = InvalidArgument desc = burning is not a valid parameter type";
    assert_eq!((status, &response["code"], &response["message"]), (400, &json!(3), &json!(reason)));
    served.stop().await;
}
