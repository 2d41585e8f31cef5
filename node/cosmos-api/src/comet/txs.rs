//! Implements the methods that return transactions: mined ones by hash and by events, and pending ones.

use super::{Answer, Node, arguments::Arguments, error::Error, run_blocking, shape};
use crate::query::proto::cosmos::tx::v1beta1::{GetTxsEventRequest, OrderBy};
use alloy_primitives::hex;
use serde_json::json;
use server::interrupt::Caller;
use std::sync::Arc;

/// Default number of items per page (as in CometBFT).
const DEFAULT_PAGE_ITEMS: u64 = 30;
/// Maximum number of items per page (as in CometBFT).
const MAX_PAGE_ITEMS: u64 = 100;

/// The requested part of a list.
pub(super) struct Page {
    /// Starts at 1.
    pub(super) number: u64,
    /// Maximum number of items.
    pub(super) size: u64,
}

/// Reads the requested page. As in CometBFT, a size above the maximum is reduced to the maximum.
pub(super) fn page(given: &Arguments) -> Result<Page, Error> {
    let number = given.number("page")?.unwrap_or(1);
    let positive = u64::try_from(number).ok().filter(|number| *number > 0);
    let found =
        || Error::Parameter { name: "page", found: number.to_string(), wanted: "1 or more" };
    Ok(Page { number: positive.ok_or_else(found)?, size: size(given, "per_page")? })
}

/// Returns whether the newest item comes first.
pub(super) fn is_descending(given: &Arguments, default: bool) -> Result<bool, Error> {
    match given.text("order_by")?.as_deref() {
        None | Some("") => Ok(default),
        Some("asc") => Ok(false),
        Some("desc") => Ok(true),
        Some(other) => {
            let (name, found) = ("order_by", other.chars().take(10).collect());
            Err(Error::Parameter { name, found, wanted: "asc, desc or empty" })
        }
    }
}

fn size(given: &Arguments, name: &'static str) -> Result<u64, Error> {
    let requested = given.number(name)?.and_then(|size| u64::try_from(size).ok());
    let positive = requested.filter(|size| *size > 0);
    Ok(positive.map_or(DEFAULT_PAGE_ITEMS, |size| size.min(MAX_PAGE_ITEMS)))
}

/// Returns a mined transaction. A proof is never returned.
pub(super) fn tx(node: &Node, given: &Arguments) -> Answer {
    given.flag("prove")?;
    let hash = given.bytes("hash")?.ok_or(Error::Missing("hash"))?;
    Ok(shape::tx(&node.newest()?.mined_tx_response(&hex::encode(hash))?))
}

/// Returns a page of the mined transactions with certain events.
pub(super) async fn search(node: Arc<Node>, given: Arguments) -> Answer {
    given.flag("prove")?;
    let query = given.text("query")?.ok_or(Error::Missing("query"))?;
    let order = if is_descending(&given, false)? { OrderBy::Desc } else { OrderBy::Asc };
    let page = page(&given)?;
    let request = GetTxsEventRequest {
        query,
        order_by: order.into(),
        page: page.number,
        limit: page.size,
        ..GetTxsEventRequest::default()
    };
    let permit = node.queries.search_permit().await?;
    let (_caller, interrupt) = Caller::waiting();
    run_blocking(move || {
        let _permit = permit;
        let found = node.newest()?.txs_by_events(request, &interrupt)?;
        let txs: Vec<_> = found.txs.iter().map(shape::tx).collect();
        Ok(json!({ "txs": txs, "total_count": shape::long(found.total) }))
    })
    .await
}

/// Returns the number of transactions in the pool, including those behind a nonce gap.
pub(super) async fn num_unconfirmed(node: Arc<Node>) -> Answer {
    let pool = &node.queries.pool;
    let pool_error = |reject: mempool::Reject| Error::Pool(reject.log());
    let (pending, queued) = pool.counts().await.map_err(pool_error)?;
    let total = shape::long(pending.saturating_add(queued));
    let bytes = shape::long(pool.level().await.map_err(pool_error)?.bytes);
    Ok(json!({ "n_txs": total, "total": total, "total_bytes": bytes, "txs": null }))
}

/// Returns executable transactions, in no particular order of their senders.
pub(super) async fn unconfirmed(node: Arc<Node>, given: Arguments) -> Answer {
    let max_txs = usize::try_from(size(&given, "limit")?).unwrap_or(usize::MAX);
    // The pool iterates over all of its transactions, so the number of concurrent calls is limited.
    let _permit = node.queries.search_permit().await?;
    let pool = &node.queries.pool;
    let pool_error = |reject: mempool::Reject| Error::Pool(reject.log());
    let level = pool.level().await.map_err(pool_error)?;
    let (executable, queued) = pool.counts().await.map_err(pool_error)?;
    let senders = pool.content(None).await.map_err(pool_error)?;
    run_blocking(move || {
        let at = node.newest()?;
        let pending = senders.iter().flat_map(|txs| &txs.pending).take(max_txs);
        let txs: Vec<_> = pending.map(|tx| shape::base64(&at.sdk_tx_bytes(tx))).collect();
        Ok(json!({
            "n_txs": shape::long(txs.len()),
            "total": shape::long(executable.saturating_add(queued)),
            "total_bytes": shape::long(level.bytes),
            "txs": txs,
        }))
    })
    .await
}
