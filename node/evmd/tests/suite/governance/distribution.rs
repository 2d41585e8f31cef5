//! Tests that a vote can change the recipient of the fees.

use super::{
    SERIAL,
    chain::{Chain, GOV, rest_at},
};
use serde_json::{Value, json};

/// A change of the recipient of the fees.
fn change(recipient: &Value) -> Value {
    json!({
        "@type": "/evmd.distribution.v1.MsgUpdateParams",
        "authority": GOV,
        "params": { "fee_recipient": recipient },
    })
}

/// The account that genesis names as `coinbase`.
const COINBASE: &str = "0x00000000000000000000000000000000000000be";

/// An account that receives a transfer.
const RECIPIENT: &str = "0x00000000000000000000000000000000000000ee";

impl Chain {
    /// The recipient of the fees at a height; 0 is the newest height.
    fn recipient(&self, height: u64) -> Value {
        let response =
            rest_at(self.endpoints.rest, &format!("/evmd/distribution/v1/params|{height}"));
        response["params"]["fee_recipient"].clone()
    }

    /// The balance of [`COINBASE`], in wei.
    fn earned(&self) -> u128 {
        let balances = self.get(&format!("bank balances {COINBASE}"));
        balances["balances"][0]["amount"].as_str().map_or(0, |amount| amount.parse().unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn recipient_of_the_fees_changes_by_a_vote() {
    let _serial = SERIAL.lock().await;
    let mut chain = Chain::with_genesis(|genesis| genesis["coinbase"] = json!(COINBASE));
    chain.start();
    let (old, new) = (json!("FEE_RECIPIENT_FEE_COLLECTOR"), json!("FEE_RECIPIENT_PROPOSER"));
    let (code, reason) = chain.forced(&chain.proposal_of("wrong.json", &change(&json!(7))));
    assert_eq!(code, Some(1));
    assert!(reason.contains("fee_recipient"), "{reason}");

    let file = chain.proposal_of("recipient.json", &change(&new));
    let submitted = chain.mined(&["gov", "submit-proposal", &file, "--from", "val"]);
    assert_eq!(submitted["code"], 0, "{submitted}");
    let voted = chain.mined(&["gov", "vote", "1", "yes", "--from", "val"]);
    assert_eq!(voted["code"], 0, "{voted}");
    let ended = chain.decided(1);
    assert_eq!(ended["status"], "PROPOSAL_STATUS_PASSED", "{ended}");
    let voted = voted["height"].as_str().unwrap().parse().unwrap();
    let deciding = chain.deciding(&ended, voted);
    assert_eq!((chain.recipient(deciding - 1), chain.recipient(deciding)), (old, new.clone()));
    assert_eq!(chain.earned(), 0, "earlier fees stay in fee_collector");
    let sent = chain.mined(&["bank", "send", "val", RECIPIENT, "1atest", "--gas", "200000"]);
    assert_eq!(sent["code"], 0, "{sent}");
    let earned = chain.earned();
    assert!(earned > 0, "the fee of one transaction");

    chain.kill();
    chain.start();
    assert_eq!((chain.recipient(0), chain.earned()), (new, earned));
}
