//! Tests governance through the command line and a running node: a change of the fee market is proposed, voted on, and
//! takes effect on every interface at its block. It survives a kill (SIGKILL), and another node can import the chain.

mod chain;
mod distribution;
mod evm;

use crate::common::wait_until;
use chain::{Chain, evmd, post, rest_at, succeeded, text};
use serde_json::json;
use std::path::Path;

/// Each test of these modules holds this lock. Otherwise, between fork and exec, a child process of one test could hold
/// a descriptor of the lock file of a home folder that another test opens, and that test would find it locked.
static SERIAL: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[tokio::test(flavor = "multi_thread")]
async fn parameters_change_by_a_vote_over_the_command_line() {
    let _serial = SERIAL.lock().await;
    let mut chain = Chain::new();
    chain.start();

    // The command refuses parameters that could halt the chain.
    let refused = chain.tx(&[
        "gov",
        "submit-proposal",
        &chain.proposal(0),
        "--from",
        "val",
        "--gas",
        "300000",
    ]);
    assert_eq!(refused.status.code(), Some(1));
    let reason = text(&refused.stderr);
    assert!(reason.contains("base fee change denominator cannot be 0"), "{reason}");
    // A node also refuses them.
    let (code, reason) = chain.forced(&chain.proposal(0));
    assert_eq!(code, Some(1));
    assert!(reason.contains("base fee change denominator cannot be 0"), "{reason}");
    assert!(reason.contains("(gov 12)"), "{reason}");
    assert!(!chain.query("gov proposal 1").0, "nothing was proposed");

    let file = chain.proposal(16);
    let submitted = chain.mined(&["gov", "submit-proposal", &file, "--from", "val"]);
    assert_eq!(submitted["code"], 0, "{submitted}");
    let proposal = chain.get("gov proposal 1")["proposal"].take();
    assert_eq!(proposal["status"], "PROPOSAL_STATUS_VOTING_PERIOD");
    assert_eq!(proposal["total_deposit"][0]["amount"], "10000000");
    let params = &proposal["messages"][0]["params"];
    assert_eq!(params["min_gas_price"], "500000000.000000000000000000");
    let gov = "bank balances cosmos10d07y265gmmuvt4z0w9aw880jnsr700j6zn9kn";
    assert_eq!(chain.get(gov)["balances"][0]["amount"], "10000000");

    // An account that is not a validator cannot vote: its transaction is mined, but fails.
    let stranger = chain.mined(&["gov", "vote", "1", "no", "--from", "bob", "--gas", "200000"]);
    assert_eq!(
        (&stranger["codespace"], &stranger["code"]),
        (&json!("gov"), &json!(7)),
        "{stranger}"
    );
    let voted = chain.mined(&["gov", "vote", "1", "yes", "--from", "val"]);
    assert_eq!(voted["code"], 0, "{voted}");
    assert_eq!(chain.get("gov tally 1")["tally"]["yes_count"], "1");

    let ended = chain.decided(1);
    assert_eq!(ended["status"], "PROPOSAL_STATUS_PASSED", "{ended}");
    assert_eq!(chain.query(gov).1["balances"], json!([]), "the deposit is returned");

    // The change takes effect in the block after the one in which the voting period ended.
    let voted = voted["height"].as_str().unwrap().parse().unwrap();
    let deciding = chain.deciding(&ended, voted);
    wait_until("there are two more blocks", || chain.height() >= deciding + 2);
    let old = chain.block(deciding - 1).1;
    // The new rules lower the base fee by at most a sixteenth; the old ones lower it by an eighth after an empty block.
    // The previous block may contain the vote, so it may not be empty.
    let lowered = old - chain.block(deciding).1;
    assert!(lowered > old / 16 && lowered <= old / 8 + 1, "the deciding block has the old rules");
    assert_eq!(chain.block(deciding + 1).1, 2_000_000_000 - 2_000_000_000 / 16);
    let second = 2_000_000_000 / 16 * 15;
    assert_eq!(chain.block(deciding + 2).1, second - second / 16);

    // Every interface returns the new parameters. REST also returns the old ones at the previous block.
    let rest = |height: u64| {
        let url = format!("/cosmos/evm/feemarket/v1/params|{height}");
        rest_at(chain.endpoints.rest, &url)
    };
    assert_eq!(rest(deciding)["params"]["base_fee_change_denominator"], 16);
    assert_eq!(rest(deciding)["params"]["min_gas_price"], "500000000.000000000000000000");
    assert_eq!(rest(deciding - 1)["params"]["base_fee_change_denominator"], 8);
    let grpc = chain.grpc_params().await.params.unwrap();
    assert_eq!(grpc.base_fee_change_denominator, 16);
    assert_eq!(grpc.min_gas_price, "500000000000000000000000000");
    let cli = chain.get("feemarket params");
    assert_eq!(cli["params"]["base_fee_change_denominator"], 16);
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"evmd_feemarketParams","params":[]}"#;
    let rpc = post(chain.endpoints.json_rpc, body);
    assert!(rpc.to_string().contains("500000000.000000000000000000"), "{rpc}");

    // The change survives a kill of the process.
    chain.kill();
    chain.start();
    let again = chain.get("gov proposal 1")["proposal"].take();
    assert_eq!(again, ended);
    assert_eq!(chain.get("feemarket params")["params"]["base_fee_change_denominator"], 16);

    // Another node that executes the blocks has the same result.
    chain.kill();
    let file = chain.folder.path().join("chain.rlp");
    let other = chain.folder.path().join("other");
    chain.init(&other);
    let mut export = evmd();
    succeeded(
        &export.args(["export", "--home"]).arg(chain.home()).arg(&file).output().unwrap(),
        "export",
    );
    let mut import = evmd();
    succeeded(
        &import.args(["import", "--home"]).arg(&other).arg(&file).output().unwrap(),
        "import",
    );
    let head = |home: &Path| {
        let view = home::Home::open(home).unwrap().view().unwrap();
        (view.head.hash, view.head.modules)
    };
    assert_eq!(head(&other), head(&chain.home()));
}
