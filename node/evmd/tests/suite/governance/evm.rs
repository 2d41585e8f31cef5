//! Tests that EVM parameters change by a vote and take effect, and that `evmd rollback` restores those of the height.

use super::{
    SERIAL,
    chain::{Chain, GOV, evmd, succeeded},
};
use crate::common::{CHAIN_ID, FEE_CAP, sign};
use alloy_consensus::TxEip1559;
use alloy_primitives::{Bytes, TxKind, hex};
use serde_json::{Value, json};

/// A change that forbids all accounts to create contracts.
fn restricted(extra_eips: &Value) -> Value {
    json!({
        "@type": "/cosmos.evm.vm.v1.MsgUpdateParams",
        "authority": GOV,
        "params": {
            "evm_denom": "atest",
            "extra_eips": extra_eips,
            "allow_unprotected_txs": false,
            "evm_channels": [],
            "access_control": {
                "create": { "access_type": "ACCESS_TYPE_RESTRICTED", "access_control_list": [] },
                "call": { "access_type": "ACCESS_TYPE_PERMISSIONLESS", "access_control_list": [] },
            },
            "active_static_precompiles": [],
        },
    })
}

/// A transaction of development account 1 that creates an empty contract, in hex.
fn creation(nonce: u64) -> String {
    hex::encode_prefixed(sign(
        1,
        TxEip1559 {
            chain_id: CHAIN_ID,
            nonce,
            gas_limit: 100_000,
            max_fee_per_gas: FEE_CAP,
            to: TxKind::Create,
            input: Bytes::from_static(&[0]),
            ..TxEip1559::default()
        },
    ))
}

impl Chain {
    /// The access type of contract creation at a height; 0 is the newest height.
    fn create_access(&self, height: u64) -> Value {
        let response = self.get(&format!("evm params --height {height}"));
        response["params"]["access_control"]["create"]["access_type"].clone()
    }

    fn roll_back(&self, height: u64) {
        let mut command = evmd();
        command
            .args(["rollback", "--new-term", "--height", &height.to_string(), "--home"])
            .arg(self.home());
        succeeded(&command.output().unwrap(), "rollback");
    }

    /// Sends a creation; returns codespace and code of the pool's response.
    fn create(&self, nonce: u64) -> (Value, Value) {
        let mut command = evmd();
        command.args(["tx", "evm", "raw", &creation(nonce), "-o", "json", "--node"]);
        let output = command.arg(format!("http://{}", self.endpoints.rest)).output().unwrap();
        let response: Value = serde_json::from_slice(&output.stdout).unwrap();
        (response["codespace"].clone(), response["code"].clone())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_of_the_evm_change_and_are_rolled_back() {
    let _serial = SERIAL.lock().await;
    let mut chain = Chain::new();
    chain.start();
    let (open, closed) = (json!("ACCESS_TYPE_PERMISSIONLESS"), json!("ACCESS_TYPE_RESTRICTED"));

    // A proposal with features that this node does not support is refused.
    let (code, reason) = chain.forced(&chain.proposal_of("wrong.json", &restricted(&json!(["1"]))));
    assert_eq!(code, Some(1));
    assert!(reason.contains("extra_eips must be empty") && reason.contains("(gov 12)"), "{reason}");

    assert_eq!(chain.create(0), (json!(""), json!(0)));
    let file = chain.proposal_of("restricted.json", &restricted(&json!([])));
    let submitted = chain.mined(&["gov", "submit-proposal", &file, "--from", "val"]);
    assert_eq!(submitted["code"], 0, "{submitted}");
    let voted = chain.mined(&["gov", "vote", "1", "yes", "--from", "val"]);
    assert_eq!(voted["code"], 0, "{voted}");
    let height = |response: &Value| response["height"].as_str().unwrap().parse::<u64>().unwrap();
    let (submitted, voted) = (height(&submitted), height(&voted));
    assert_eq!(chain.create_access(0), open);
    let ended = chain.decided(1);
    assert_eq!(ended["status"], "PROPOSAL_STATUS_PASSED", "{ended}");
    let deciding = chain.deciding(&ended, voted);
    assert_eq!(
        (chain.create_access(deciding - 1), chain.create_access(deciding)),
        (open.clone(), closed.clone())
    );
    assert_eq!(chain.create(1), (json!("evm"), json!(5)), "no account may create contracts");

    // Before the decision, the parameters are the old ones and the vote is open.
    chain.kill();
    chain.roll_back(deciding - 1);
    chain.start_with(&["--no-produce", "--mempool.accept-without-production"]);
    assert_eq!((chain.height(), chain.create_access(0)), (deciding - 1, open.clone()));
    let again = chain.get("gov proposal 1")["proposal"].take();
    assert_eq!(again["status"], "PROPOSAL_STATUS_VOTING_PERIOD");
    assert_eq!(chain.get("gov tally 1")["tally"]["yes_count"], "1");
    let gov = format!("bank balances {GOV}");
    assert_eq!(chain.get(&gov)["balances"][0]["amount"], "10000000");
    assert_eq!(chain.create(1), (json!(""), json!(0)));

    // The vote is decided in the same way again.
    chain.kill();
    chain.start();
    let again = chain.decided(1);
    assert_eq!(again["status"], "PROPOSAL_STATUS_PASSED", "{again}");
    assert_eq!(chain.create_access(0), closed);

    // Before the submission there is no proposal.
    chain.kill();
    chain.roll_back(submitted - 1);
    chain.start_with(&["--no-produce"]);
    assert_eq!((chain.height(), chain.create_access(0)), (submitted - 1, open));
    assert!(!chain.query("gov proposal 1").0);
    assert_eq!(chain.get("gov proposals")["proposals"], json!([]));
    assert_eq!(chain.get(&gov)["balances"], json!([]));
}
