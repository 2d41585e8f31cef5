//! `eth_getLogs`: reads the receipts of the blocks that the index returns for a filter. The search is limited by
//! results, bytes and time, but not by blocks. If it reaches a limit, the error suggests a range that fits.

use crate::{
    log_query::{Filter, LogQuery},
    method::{Answer, Call},
};
use alloy_primitives::U64;
use rpc_types::{
    error::{Error, SuggestedRange},
    object::{LogObject, LogPosition},
    text::{Json, WriteJson},
};
use server::interrupt::Deadline;
use state::{UndoneBlock, View, stored};
use std::time::Duration;
use storage::ChainReader;

/// Maximum number of blocks in one index lookup, which limits the number of candidates for a frequent topic.
const WINDOW_BLOCKS: u64 = 1 << 16;
/// Maximum distance between the first and the last block of an inline search. The inline limits suffice to poll some
/// blocks or to find a rare event. Other searches are queued.
const MAX_INLINE_BLOCKS: u64 = 1 << 14;
/// Maximum number of blocks whose receipts are read inline.
const MAX_INLINE_CANDIDATES: usize = 64;
const MAX_INLINE_LOGS: usize = 256;
const MAX_INLINE_RESULT_BYTES: usize = 256 * 1024;
/// Maximum bytes of receipts that are decoded inline. A single block may have megabytes.
const MAX_INLINE_RECEIPTS_BYTES: usize = 256 * 1024;
/// Maximum number of addresses and topics that are looked up inline.
const MAX_INLINE_KEYS: usize = 64;
const MAX_INLINE_TIME: Duration = Duration::from_micros(500);
/// The limits of a search.
struct SearchLimits {
    logs: usize,
    bytes: usize,
    deadline: Deadline,
    time: Duration,
    /// Maximum number of blocks whose receipts are read in one window.
    blocks: usize,
    /// Maximum bytes of the receipts that are read.
    receipts: usize,
    /// Whether the logs of a single block may exceed `logs`, because there is no smaller range.
    whole_block: bool,
}

impl SearchLimits {
    /// Returns the limits that the settings contain.
    fn from_settings(call: &Call) -> Self {
        let limits = &call.services.limits;
        let time = limits.logs_timeout;
        let deadline = call.interrupt.within(time);
        // This leaves space for the rest of the response.
        let bytes = limits.max_response_bytes - limits.max_response_bytes / 16;
        let (logs, blocks, receipts) = (limits.max_logs, usize::MAX, usize::MAX);
        Self { logs, bytes, deadline, time, blocks, receipts, whole_block: true }
    }

    /// Returns the limits of an inline search.
    fn inline(call: &Call) -> Self {
        let deadline = call.interrupt.within(MAX_INLINE_TIME);
        let Self { logs, bytes, .. } = Self::from_settings(call);
        let (logs, bytes) = (logs.min(MAX_INLINE_LOGS), bytes.min(MAX_INLINE_RESULT_BYTES));
        let (blocks, receipts, time) =
            (MAX_INLINE_CANDIDATES, MAX_INLINE_RECEIPTS_BYTES, MAX_INLINE_TIME);
        Self { logs, bytes, deadline, time, blocks, receipts, whole_block: false }
    }
}

/// Returns the logs of a query, or `None` if the search would take too long.
pub(super) fn logs_inline(call: &Call) -> Result<Option<Json>, Error> {
    let query: LogQuery = call.arguments()?.nullable()?;
    let (first, last) = query.range(&call.view)?;
    if last - first > MAX_INLINE_BLOCKS {
        return Ok(None);
    }
    find_inline(call, &query.filter, first, last)
}

pub(super) fn logs(call: &Call) -> Answer {
    let query: LogQuery = call.arguments()?.nullable()?;
    find(call, &query)
}

/// Returns the logs of a query as JSON text.
pub(super) fn find(call: &Call, query: &LogQuery) -> Answer {
    let (first, last) = query.range(&call.view)?;
    match search(&call.view, &query.filter, first, last, &SearchLimits::from_settings(call))? {
        SearchResult::All(answer) => Ok(answer),
        SearchResult::LimitReached { message, limit, fits } => {
            let suggested = fits.map(|(last, _)| suggested_range(first, last));
            Err(Error::limit(message, limit, suggested))
        }
    }
}

/// Returns the logs of the blocks `first` to `last` as far as they fit into a response, and the number of the last
/// block that fits. Polls use this, because a client that polls a filter cannot choose the range.
pub(super) fn find_first(
    call: &Call,
    filter: &Filter,
    first: u64,
    last: u64,
) -> Result<(Json, u64), Error> {
    match search(&call.view, filter, first, last, &SearchLimits::from_settings(call))? {
        SearchResult::All(answer) => Ok((answer, last)),
        SearchResult::LimitReached { fits: Some((last, answer)), .. } => Ok((answer, last)),
        SearchResult::LimitReached { message, limit, fits: None } => {
            Err(Error::limit(message, limit, None))
        }
    }
}

/// Returns all logs, or `None` if the search would take too long.
pub(super) fn find_inline(
    call: &Call,
    filter: &Filter,
    first: u64,
    last: u64,
) -> Result<Option<Json>, Error> {
    if filter.keys() > MAX_INLINE_KEYS {
        return Ok(None);
    }
    match search(&call.view, filter, first, last, &SearchLimits::inline(call))? {
        SearchResult::All(answer) => Ok(Some(answer)),
        SearchResult::LimitReached { .. } => Ok(None),
    }
}

/// Returns the matching logs of one block, each as JSON text.
pub fn block_logs(view: &View, filter: &Filter, number: u64) -> Result<Vec<Json>, Error> {
    let mut logs = Vec::new();
    let blocks = view.blocks()?;
    // If the bloom is empty, this saves an index lookup for each of up to a thousand addresses.
    let (_, header) = stored::header(&blocks, number)?;
    if header.logs_bloom.is_zero() || candidates(view, filter, number, number)?.is_empty() {
        return Ok(logs);
    }
    each_log(&blocks, filter, number, |log| logs.push(Json::write(log)))?;
    Ok(logs)
}

/// Returns the matching logs of an undone block, each as JSON text with `removed`.
pub fn removed_logs(block: &UndoneBlock, filter: &Filter) -> Vec<Json> {
    let mut removed = Vec::new();
    let mut log_index = 0;
    for (transaction_index, (receipt, hash)) in
        block.receipts.iter().zip(&block.tx_hashes).enumerate()
    {
        for log in &receipt.logs {
            if filter.matches(log) {
                let position = LogPosition {
                    block_number: block.number,
                    block_hash: block.hash,
                    block_timestamp: block.timestamp,
                    transaction_hash: *hash,
                    transaction_index,
                    log_index,
                };
                removed.push(Json::write(&LogObject::new(log, position).into_removed()));
            }
            log_index += 1;
        }
    }
    removed
}

/// The result of a search.
enum SearchResult {
    All(Json),
    /// The search reached a limit. `fits` contains the last block that fits and the logs up to it.
    LimitReached {
        message: String,
        limit: u64,
        fits: Option<(u64, Json)>,
    },
}

fn search(
    view: &View,
    filter: &Filter,
    first: u64,
    last: u64,
    limits: &SearchLimits,
) -> Result<SearchResult, Error> {
    let blocks = view.blocks()?;
    let mut found = FoundLogs { text: b"[".to_vec(), logs: 0 };
    let (mut start, mut receipts) = (first, 0_usize);
    let limit_reached =
        |(message, limit), fits| Ok(SearchResult::LimitReached { message, limit, fits });
    while start <= last {
        let end = last.min(start.saturating_add(WINDOW_BLOCKS - 1));
        let candidates = candidates(view, filter, start, end)?;
        if candidates.len() > limits.blocks {
            return limit_reached(found.too_slow(limits), None);
        }
        for number in candidates {
            receipts = receipts.saturating_add(blocks.receipts_bytes(number)?);
            if receipts > limits.receipts {
                return limit_reached(found.too_slow(limits), None);
            }
            let before = (found.logs, found.text.len());
            each_log(&blocks, filter, number, |log| found.add(log))?;
            if let Some(limit) = found.exceeded(limits, before.0) {
                found.text.truncate(before.1);
                let fits = number.checked_sub(1).filter(|last| *last >= first);
                return limit_reached(limit, fits.map(|last| (last, found.finish())));
            }
        }
        if end < last && limits.deadline.passed() {
            return limit_reached(found.too_slow(limits), Some((end, found.finish())));
        }
        start = end.saturating_add(1);
    }
    Ok(SearchResult::All(found.finish()))
}

/// Returns the blocks from `first` to `last` that may have matching logs, in ascending order.
fn candidates(view: &View, filter: &Filter, first: u64, last: u64) -> Result<Vec<u64>, Error> {
    let groups = filter.groups();
    if groups.is_empty() {
        return Ok((first..=last).collect());
    }
    let index = view.state.index().reader()?;
    // The newest blocks are not in the index yet, but in the layers.
    let flushed = index.flushed()?;
    let mut found: Option<Vec<u64>> = None;
    for group in &groups {
        let mut blocks = Vec::new();
        if let Some(flushed) = flushed.filter(|flushed| *flushed >= first) {
            for key in group {
                index.blocks_with(*key, first..=last.min(flushed), &mut blocks)?;
            }
        }
        for layer in view.state.layers() {
            let number = layer.number();
            if (first..=last).contains(&number) && flushed.is_none_or(|flushed| flushed < number) {
                let keys = layer.posting_keys().unwrap_or_default();
                if group.iter().any(|key| keys.binary_search(key).is_ok()) {
                    blocks.push(number);
                }
            }
        }
        blocks.sort_unstable();
        blocks.dedup();
        if let Some(before) = &found {
            blocks.retain(|block| before.binary_search(block).is_ok());
        }
        if blocks.is_empty() {
            return Ok(blocks);
        }
        found = Some(blocks);
    }
    Ok(found.unwrap_or_default())
}

pub(super) fn suggested_range(first: u64, last: u64) -> SuggestedRange {
    SuggestedRange { from_block: U64::from(first), to_block: U64::from(last) }
}

/// The logs that were found.
struct FoundLogs {
    text: Vec<u8>,
    logs: usize,
}

impl FoundLogs {
    /// Returns the error and the value of the limit that a block exceeded. `before` is the number of logs before it.
    fn exceeded(&self, limits: &SearchLimits, before: usize) -> Option<(String, u64)> {
        let (logs, bytes) = (limits.logs, limits.bytes);
        let one_block = before == 0 || self.logs == before;
        if self.logs > logs && !(limits.whole_block && one_block) {
            Some((format!("query returned more than {logs} results"), logs as u64))
        } else if self.text.len() > bytes {
            Some((format!("query returned more than {bytes} bytes"), bytes as u64))
        } else if limits.deadline.passed() {
            Some(self.too_slow(limits))
        } else {
            None
        }
    }

    fn finish(mut self) -> Json {
        self.text.push(b']');
        Json::from_text(self.text)
    }

    fn too_slow(&self, limits: &SearchLimits) -> (String, u64) {
        let ms = u64::try_from(limits.time.as_millis()).unwrap_or(u64::MAX);
        (format!("query took more than {:?}", limits.time), ms)
    }

    fn add(&mut self, log: &LogObject<'_>) {
        if self.logs > 0 {
            self.text.push(b',');
        }
        self.logs += 1;
        log.write_json(&mut self.text);
    }
}

/// Calls a function with each matching log of a block. If there are none, only the receipts are read.
fn each_log(
    blocks: &ChainReader,
    filter: &Filter,
    number: u64,
    mut take: impl FnMut(&LogObject<'_>),
) -> Result<(), Error> {
    let receipts = stored::receipts(blocks, number)?;
    let matches = |at: &usize| receipts[*at].logs.iter().any(|log| filter.matches(log));
    let matching: Vec<usize> = (0..receipts.len()).filter(matches).collect();
    if matching.is_empty() {
        return Ok(());
    }
    let block = stored::block(blocks, number)?;
    let raw: Option<Vec<&[u8]>> =
        matching.iter().map(|at| block.transactions.get(*at).map(AsRef::as_ref)).collect();
    let raw = raw.ok_or_else(|| Error::internal("a receipt without transaction"))?;
    let mut transactions = matching.into_iter().zip(stored::tx_hashes(&raw)).peekable();
    let mut first_log = 0;
    for (at, receipt) in receipts.iter().enumerate() {
        if let Some((transaction_index, transaction_hash)) =
            transactions.next_if(|(matching, _)| *matching == at)
        {
            for (log_index, log) in (first_log..).zip(&receipt.logs) {
                if filter.matches(log) {
                    let position = LogPosition {
                        block_number: number,
                        block_hash: block.hash,
                        block_timestamp: block.header.timestamp,
                        transaction_hash,
                        transaction_index,
                        log_index,
                    };
                    take(&LogObject::new(log, position));
                }
            }
        }
        first_log += receipt.logs.len();
    }
    Ok(())
}
