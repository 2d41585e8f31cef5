//! Submits transactions, with the same function as REST and gRPC.

use super::{Answer, Node, arguments::Arguments, error::Error, run_blocking, shape};
use crate::query::{Code, MinedTxResponse, proto::cosmos::base::abci::v1beta1::TxResponse};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;

/// Maximum wait until a transaction is in a block (CometBFT's `timeout_broadcast_tx_commit`).
const COMMIT_WAIT: Duration = Duration::from_secs(10);
/// Maximum number of calls that wait for a block at once: a quarter of the default `comet.max-concurrent`, so that
/// transactions which no block includes cannot block all other requests.
pub(super) const MAX_WAITING_COMMITS: usize = 16;

/// The SDK's codes for transactions that CometBFT's mempool refuses itself.
const TX_IN_MEMPOOL: u32 = 19;
const MEMPOOL_FULL: u32 = 20;
const TX_TOO_LARGE: u32 = 21;

/// Submits a transaction. Failing the pool's checks is reported in the response, and is not an error.
async fn submit(node: &Node, given: &Arguments) -> Result<TxResponse, Error> {
    let bytes = given.bytes("tx")?.ok_or(Error::Missing("tx"))?;
    let answer = node.queries.broadcast_tx(bytes).await?.tx_response.unwrap_or_default();
    match mempool_error(&answer) {
        Some(text) => Err(Error::Pool(text)),
        None => Ok(answer),
    }
}

/// Returns the error that CometBFT's mempool reports for a transaction that it refuses without checks. The SDK's
/// clients derive the codes from these texts.
fn mempool_error(answer: &TxResponse) -> Option<String> {
    if answer.codespace != "sdk" {
        return None;
    }
    match answer.code {
        TX_IN_MEMPOOL => Some("tx already exists in cache".to_owned()),
        MEMPOOL_FULL => Some(format!("mempool is full: {}", answer.raw_log)),
        TX_TOO_LARGE => Some(format!("Tx too large: {}", answer.raw_log)),
        _ => None,
    }
}

/// Returns the result of the pool's checks.
pub(super) async fn sync(node: Arc<Node>, given: Arguments) -> Answer {
    let checked = submit(&node, &given).await?;
    Ok(json!({
        "code": checked.code,
        "data": "",
        "log": checked.raw_log,
        "codespace": checked.codespace,
        "hash": shape::hash(&checked.txhash),
    }))
}

/// Returns the result of the pool's checks and, if the pool accepted the transaction, its result in the block.
pub(super) async fn commit(node: Arc<Node>, given: Arguments) -> Answer {
    let _permit = node.commits.try_acquire().map_err(|_| Error::Busy(MAX_WAITING_COMMITS))?;
    let heads = node.queries.published.heads();
    let checked = submit(&node, &given).await?;
    let hash = shape::hash(&checked.txhash);
    let mined = if checked.code == 0 {
        let waited = tokio::time::timeout(COMMIT_WAIT, mined(&node, &hash, heads)).await;
        let timed_out = |_| Error::NotMined { hash: hash.clone(), seconds: COMMIT_WAIT.as_secs() };
        waited.map_err(timed_out)??.response
    } else {
        TxResponse::default()
    };
    Ok(json!({
        "check_tx": shape::tx_result(&checked),
        "tx_result": shape::tx_result(&mined),
        "hash": hash,
        "height": shape::long(mined.height),
    }))
}

/// Waits until a transaction is mined.
async fn mined(
    node: &Arc<Node>,
    hash: &str,
    mut heads: watch::Receiver<u64>,
) -> Result<MinedTxResponse, Error> {
    loop {
        heads.mark_unchanged();
        let (searched, hash) = (Arc::clone(node), hash.to_owned());
        match run_blocking(move || Ok(searched.newest()?.mined_tx_response(&hash)?)).await {
            Err(Error::Query(error)) if error.code == Code::NotFound => {}
            found => return found,
        }
        heads.changed().await.map_err(|_| Error::Pool("the node is stopping".to_owned()))?;
    }
}
