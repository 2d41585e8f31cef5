//! Transactions that clients send, on the way that REST and gRPC send theirs.

use super::{Answer, Node, apart, arguments::Arguments, error::Error, shape};
use crate::query::{Code, ShownTx, proto::cosmos::base::abci::v1beta1::TxResponse};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;

/// Longest wait for a block with a transaction (CometBFT's `timeout_broadcast_tx_commit`).
const COMMIT_WAIT: Duration = Duration::from_secs(10);
/// Most that wait for a block at once: a quarter of the places of requests, so that transactions which no
/// block takes cannot hold up everything else.
pub(super) const COMMITS_MAX: usize = 16;

/// Submits a transaction; a refusal of the pool is an answer.
async fn submit(node: &Node, given: &Arguments) -> Result<TxResponse, Error> {
    let bytes = given.bytes("tx")?.ok_or(Error::Missing("tx"))?;
    Ok(node.queries.broadcast_tx(bytes).await?.tx_response.unwrap_or_default())
}

/// Answers what the pool says.
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

/// Answers what the pool says and, if it took the transaction, what became of it in its block.
pub(super) async fn commit(node: Arc<Node>, given: Arguments) -> Answer {
    let _place = node.commits.try_acquire().map_err(|_| Error::Busy(COMMITS_MAX))?;
    let heads = node.queries.published.heads();
    let checked = submit(&node, &given).await?;
    let hash = shape::hash(&checked.txhash);
    let mined = if checked.code == 0 {
        let waited = tokio::time::timeout(COMMIT_WAIT, mined(&node, &hash, heads)).await;
        let late = |_| Error::NotMined { hash: hash.clone(), seconds: COMMIT_WAIT.as_secs() };
        waited.map_err(late)??.response
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

/// Waits for a transaction's block.
async fn mined(
    node: &Arc<Node>,
    hash: &str,
    mut heads: watch::Receiver<u64>,
) -> Result<ShownTx, Error> {
    loop {
        heads.mark_unchanged();
        let (looking, hash) = (Arc::clone(node), hash.to_owned());
        match apart(move || Ok(looking.newest()?.shown_tx(&hash)?)).await {
            Err(Error::Query(error)) if error.code == Code::NotFound => {}
            found => return found,
        }
        heads.changed().await.map_err(|_| Error::Pool("the node is stopping".to_owned()))?;
    }
}
