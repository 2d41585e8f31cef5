//! Implements `block_search`, which returns a page of the blocks with certain heights and events.

use super::{Answer, Node, arguments::Arguments, blocks, error::Error, run_blocking, shape, txs};
use crate::query::BlockPage;
use serde_json::json;
use server::interrupt::Caller;
use std::{sync::Arc, time::Duration};

/// Maximum time for a search and for reading the blocks that it found.
const SEARCH_TIME: Duration = Duration::from_secs(5);

/// Runs a search. As in CometBFT, the newest block comes first unless `order_by` is `asc`.
pub(super) async fn search(node: Arc<Node>, given: Arguments) -> Answer {
    let query = given.text("query")?.ok_or(Error::Missing("query"))?;
    let newest_first = txs::is_descending(&given, true)?;
    let page = txs::page(&given)?;
    let page = BlockPage { number: page.number, size: page.size, newest_first };
    let permit = node.queries.search_permit().await?;
    let (_caller, interrupt) = Caller::waiting();
    run_blocking(move || {
        let _permit = permit;
        let (at, deadline) = (node.newest()?, interrupt.within(SEARCH_TIME));
        let found = at.blocks_by_events(&query, page, &deadline)?;
        let mut found_blocks = Vec::new();
        for number in found.numbers {
            if deadline.passed() {
                return Err(Error::TooLong(SEARCH_TIME.as_secs()));
            }
            found_blocks.push(blocks::block_json(&at, number)?);
        }
        Ok(json!({ "blocks": found_blocks, "total_count": shape::long(found.total) }))
    })
    .await
}
