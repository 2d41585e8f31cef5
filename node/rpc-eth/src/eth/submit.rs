//! Submits transactions. If the node produces a block for each transaction, the call returns when the transaction is in
//! a block, as in anvil, so that its receipt is available.

use super::wide_raw;
use crate::method::Call;
use alloy_consensus::Transaction as _;
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Address, B256, Bytes};
use consensus::{Mining, MiningControl};
use mempool::Reject;
use pipeline::{Develop, DevelopError, Found, MAX_TX_BYTES};
use rpc_types::error::Error;
use state::View;
use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::time::{Instant, timeout_at};
use transactions::{RecoveredTx, Transaction};

/// Maximum wait for the block of a transaction. A block takes some milliseconds.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Delay before the first check whether the next block can include the transaction. Most transactions are in a block by
/// then, and each check costs time in the ante stage.
const FIRST_CHECK: Duration = Duration::from_millis(100);
/// Interval between later checks.
const CHECK_PERIOD: Duration = Duration::from_millis(200);

/// Submits a transaction. If its prices exceed 128 bits, the error is about the sender's funds, as in geth.
pub(super) async fn submit(call: &Call, raw: Bytes) -> Result<B256, Error> {
    let head = call.context.published.load().number();
    let submitted = call.context.pool.submit(raw.clone()).await;
    let hash = submitted.map_err(|reject| match *reject {
        Reject::Malformed(_) => wide_raw::refusal(call, &raw).unwrap_or_else(|| reject.into()),
        _ => reject.into(),
    })?;
    wait_if_mined_at_once(call, hash, head).await?;
    Ok(hash)
}

/// Submits a transaction that its sender has not signed.
pub(super) async fn submit_impersonated(
    call: &Call,
    tx: Transaction,
    sender: Address,
) -> Result<B256, Error> {
    let raw = Bytes::from(tx.encoded_2718());
    // For other submissions, this check comes before the recovery of the sender.
    if raw.len() > MAX_TX_BYTES {
        return Err(Reject::Oversized { size: raw.len(), limit: MAX_TX_BYTES }.into());
    }
    let tx = RecoveredTx {
        raw,
        hash: *tx.tx_hash(),
        tx,
        sender,
        high_s: false,
        authorities: OnceLock::new(),
        cosmos: None,
    };
    let (hash, head) = (tx.hash, call.context.published.load().number());
    let submitted = call.context.pool.develop(Develop::Submit(Arc::new(tx))).await;
    submitted.map_err(|error| match error {
        DevelopError::Refused(reject) => reject.into(),
        other => Error::server(other.to_string()),
    })?;
    wait_if_mined_at_once(call, hash, head).await?;
    Ok(hash)
}

/// Waits for the block of the transaction if the node mines at once. `head` is the head before the submission.
async fn wait_if_mined_at_once(call: &Call, hash: B256, head: u64) -> Result<(), Error> {
    match call.context.mining.as_ref().map(MiningControl::get) {
        Some(Mining::Instant) => wait_until_mined(call, hash, head).await,
        _ => Ok(()),
    }
}

/// Waits until a transaction is in a durable block, unless the next block cannot include it.
async fn wait_until_mined(call: &Call, hash: B256, head: u64) -> Result<(), Error> {
    let mut inclusion = call.context.inclusions.wait(hash);
    if has_tx_after(&call.context.published.load(), head, hash) {
        return Ok(());
    }
    let deadline = Instant::now() + MAX_WAIT;
    let mut check = Instant::now() + FIRST_CHECK;
    loop {
        if timeout_at(check.min(deadline), inclusion.published()).await.is_ok() {
            return Ok(());
        }
        if call.context.published.load().tx_location(hash)?.is_some() {
            return Ok(());
        }
        if Instant::now() >= deadline || !should_wait(call, hash).await? {
            return Ok(());
        }
        check = Instant::now() + CHECK_PERIOD;
    }
}

/// Returns whether a block after `head` in the layers of the view has the transaction.
fn has_tx_after(view: &View, head: u64, hash: B256) -> bool {
    let mut new = view.state.layers().iter().rev().take_while(|layer| layer.number() > head);
    new.any(|layer| layer.tx_index(hash).is_some())
}

/// Returns whether the next block can include the transaction, or the transaction has left the pool.
async fn should_wait(call: &Call, hash: B256) -> Result<bool, Error> {
    let pool = &call.context.pool;
    let Found::Pooled(tx) = pool.transaction(hash).await? else { return Ok(true) };
    let base_fee = pool.level().await?.base_fee;
    let senders = pool.content(Some(tx.sender)).await?;
    let is_queued = senders.iter().any(|sender| sender.queued.iter().any(|tx| tx.hash == hash));
    if !is_queued && tx.tx.max_fee_per_gas() >= base_fee {
        return Ok(true);
    }
    // The queries are not atomic. If a block included the transaction meanwhile, `base_fee` is for a later block.
    let is_pooled = matches!(pool.transaction(hash).await?, Found::Pooled(_));
    Ok(!is_pooled)
}
