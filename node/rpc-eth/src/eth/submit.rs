//! Submits transactions. On a chain that mines at once, the call returns when the transaction is in a block, as in
//! anvil, so that its receipt is available.

use super::wide_raw;
use crate::method::Call;
use alloy_consensus::Transaction as _;
use alloy_primitives::{B256, Bytes};
use consensus::{Mining, MiningControl};
use mempool::Reject;
use pipeline::Found;
use rpc_types::error::Error;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Maximum wait for the block of a transaction. A block takes some milliseconds.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// Submits a transaction. Prices that no transaction type can represent lead to the error about the sender's funds.
pub(super) async fn submit(call: &Call, raw: Bytes) -> Result<B256, Error> {
    let submitted = call.context.pool.submit(raw.clone()).await;
    let hash = submitted.map_err(|reject| match *reject {
        Reject::Malformed(_) => wide_raw::refusal(call, &raw).unwrap_or_else(|| reject.into()),
        _ => reject.into(),
    })?;
    if call.context.mining.as_ref().map(MiningControl::get) == Some(Mining::Instant) {
        wait_until_mined(call, hash).await?;
    }
    Ok(hash)
}

/// Waits until a transaction is in a durable block, unless the next block cannot include it.
async fn wait_until_mined(call: &Call, hash: B256) -> Result<(), Error> {
    let mut heads = call.context.published.heads();
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        let view = call.context.published.load();
        if view.tx_location(hash)?.is_some() {
            return Ok(());
        }
        if let Found::Pooled(tx) = call.context.pool.transaction(hash).await? {
            let base_fee = u128::from(view.head.next_base_fee);
            let senders = call.context.pool.content(Some(tx.sender)).await?;
            let is_queued =
                senders.iter().any(|sender| sender.queued.iter().any(|tx| tx.hash == hash));
            if is_queued || tx.tx.max_fee_per_gas() < base_fee {
                return Ok(());
            }
        }
        if !matches!(timeout_at(deadline, heads.changed()).await, Ok(Ok(()))) {
            return Ok(());
        }
    }
}
