//! `eth_getLogs`: the blocks that the index names for a filter, bounded in rows, bytes and time,
//! never in blocks. When a bound is met the error names a range that fits.

use crate::{
    log_query::{Filter, LogQuery},
    method::{Answer, Call},
};
use alloy_primitives::U64;
use rpc_types::{
    error::{Error, Suggested},
    object::{LogObject, LogPlace},
    text::{Json, Put},
};
use server::interrupt::Deadline;
use state::View;
use state::stored;
use std::time::Duration;
use storage::ChainReader;

/// Blocks looked up in the index at once: keeps the candidates of a common topic in bounds.
const WINDOW_BLOCKS: u64 = 1 << 16;
/// What is searched where the socket is served: a poll of some blocks, or a rare event. More waits
/// for its turn in the line.
const RANGE_AT_ONCE: u64 = 1 << 14;
const CANDIDATES_AT_ONCE: usize = 64;
const LOGS_AT_ONCE: usize = 256;
const BYTES_AT_ONCE: usize = 256 * 1024;
/// Bytes of receipts that are decoded there; a single block may have megabytes.
const RECEIPTS_AT_ONCE: usize = 256 * 1024;
/// Addresses and topics that are looked up there.
const KEYS_AT_ONCE: usize = 64;
const TIME_AT_ONCE: Duration = Duration::from_micros(500);
/// How far a search goes.
struct Bounds {
    logs: usize,
    bytes: usize,
    deadline: Deadline,
    time: Duration,
    /// Most blocks whose receipts are looked through.
    blocks: usize,
    /// The maximum of bytes of their receipts.
    receipts: usize,
    /// The logs of a block come together even if they are more than `logs`: no range is smaller.
    whole_block: bool,
}

impl Bounds {
    /// As the settings say.
    fn whole(call: &Call) -> Self {
        let limits = &call.services.limits;
        let time = limits.logs_time;
        let deadline = call.interrupt.within(time);
        // With room for what is around the result in a response.
        let bytes = limits.bytes - limits.bytes / 16;
        let (logs, blocks, receipts) = (limits.logs, usize::MAX, usize::MAX);
        Self { logs, bytes, deadline, time, blocks, receipts, whole_block: true }
    }

    /// What may be spent where the socket is served.
    fn at_once(call: &Call) -> Self {
        let deadline = call.interrupt.within(TIME_AT_ONCE);
        let Self { logs, bytes, .. } = Self::whole(call);
        let (logs, bytes) = (logs.min(LOGS_AT_ONCE), bytes.min(BYTES_AT_ONCE));
        let (blocks, receipts, time) = (CANDIDATES_AT_ONCE, RECEIPTS_AT_ONCE, TIME_AT_ONCE);
        Self { logs, bytes, deadline, time, blocks, receipts, whole_block: false }
    }
}

/// The logs of a query, if they are soon found.
pub(super) fn logs_at_once(call: &Call) -> Result<Option<Json>, Error> {
    let query: LogQuery = call.arguments()?.nullable()?;
    let (first, last) = query.range(&call.view)?;
    if last - first > RANGE_AT_ONCE {
        return Ok(None);
    }
    find_at_once(call, &query.filter, first, last)
}

pub(super) fn logs(call: &Call) -> Answer {
    let query: LogQuery = call.arguments()?.nullable()?;
    find(call, &query)
}

/// The logs of a query as JSON text.
pub(super) fn find(call: &Call, query: &LogQuery) -> Answer {
    let (first, last) = query.range(&call.view)?;
    match search(&call.view, &query.filter, first, last, &Bounds::whole(call))? {
        Searched::All(answer) => Ok(answer),
        Searched::Past { message, limit, fits } => {
            let suggested = fits.map(|(last, _)| suggest(first, last));
            Err(Error::limit(message, limit, suggested))
        }
    }
}

/// The logs of the blocks `first` to `last` as far as they fit, and the last block of those: what a poll
/// takes, whose client cannot choose the range.
pub(super) fn find_first(
    call: &Call,
    filter: &Filter,
    first: u64,
    last: u64,
) -> Result<(Json, u64), Error> {
    match search(&call.view, filter, first, last, &Bounds::whole(call))? {
        Searched::All(answer) => Ok((answer, last)),
        Searched::Past { fits: Some((last, answer)), .. } => Ok((answer, last)),
        Searched::Past { message, limit, fits: None } => Err(Error::limit(message, limit, None)),
    }
}

/// All of it, if it is soon found.
pub(super) fn find_at_once(
    call: &Call,
    filter: &Filter,
    first: u64,
    last: u64,
) -> Result<Option<Json>, Error> {
    if filter.keys() > KEYS_AT_ONCE {
        return Ok(None);
    }
    match search(&call.view, filter, first, last, &Bounds::at_once(call))? {
        Searched::All(answer) => Ok(Some(answer)),
        Searched::Past { .. } => Ok(None),
    }
}

/// The logs of one block that match, each as JSON text.
pub fn block_logs(view: &View, filter: &Filter, number: u64) -> Result<Vec<Json>, Error> {
    let mut logs = Vec::new();
    if candidates(view, filter, number, number)?.is_empty() {
        return Ok(logs);
    }
    each_log(&view.blocks()?, filter, number, |log| logs.push(Json::put(log)))?;
    Ok(logs)
}

/// How a search ended.
enum Searched {
    All(Json),
    /// At a bound, with the last block that fits and the logs up to it.
    Past {
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
    bounds: &Bounds,
) -> Result<Searched, Error> {
    let blocks = view.blocks()?;
    let mut found = Found { text: b"[".to_vec(), logs: 0 };
    let (mut start, mut receipts) = (first, 0_usize);
    let past = |(message, limit), fits| Ok(Searched::Past { message, limit, fits });
    while start <= last {
        let end = last.min(start.saturating_add(WINDOW_BLOCKS - 1));
        let candidates = candidates(view, filter, start, end)?;
        if candidates.len() > bounds.blocks {
            return past(found.too_slow(bounds), None);
        }
        for number in candidates {
            receipts = receipts.saturating_add(blocks.receipts_bytes(number)?);
            if receipts > bounds.receipts {
                return past(found.too_slow(bounds), None);
            }
            let before = (found.logs, found.text.len());
            each_log(&blocks, filter, number, |log| found.add(log))?;
            if let Some(bound) = found.past(bounds, before.0) {
                found.text.truncate(before.1);
                let fits = number.checked_sub(1).filter(|last| *last >= first);
                return past(bound, fits.map(|last| (last, found.finish())));
            }
        }
        if end < last && bounds.deadline.passed() {
            return past(found.too_slow(bounds), Some((end, found.finish())));
        }
        start = end.saturating_add(1);
    }
    Ok(Searched::All(found.finish()))
}

/// The blocks from `first` to `last` that may have matching logs, ascending.
fn candidates(view: &View, filter: &Filter, first: u64, last: u64) -> Result<Vec<u64>, Error> {
    let groups = filter.groups();
    if groups.is_empty() {
        return Ok((first..=last).collect());
    }
    let index = view.state.index().reader()?;
    // What the index does not have yet is in the layers above it.
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

pub(super) fn suggest(first: u64, last: u64) -> Suggested {
    Suggested { from_block: U64::from(first), to_block: U64::from(last) }
}

/// The answer so far.
struct Found {
    text: Vec<u8>,
    logs: usize,
}

impl Found {
    /// Which limit is passed, if any, after a block, given the number of logs before it.
    fn past(&self, bounds: &Bounds, before: usize) -> Option<(String, u64)> {
        let (logs, bytes) = (bounds.logs, bounds.bytes);
        let one_block = before == 0 || self.logs == before;
        if self.logs > logs && !(bounds.whole_block && one_block) {
            Some((format!("query returned more than {logs} results"), logs as u64))
        } else if self.text.len() > bytes {
            Some((format!("query returned more than {bytes} bytes"), bytes as u64))
        } else if bounds.deadline.passed() {
            Some(self.too_slow(bounds))
        } else {
            None
        }
    }

    fn finish(mut self) -> Json {
        self.text.push(b']');
        Json::from_text(self.text)
    }

    fn too_slow(&self, bounds: &Bounds) -> (String, u64) {
        let ms = u64::try_from(bounds.time.as_millis()).unwrap_or(u64::MAX);
        (format!("query took more than {:?}", bounds.time), ms)
    }

    fn add(&mut self, log: &LogObject<'_>) {
        if self.logs > 0 {
            self.text.push(b',');
        }
        self.logs += 1;
        log.put(&mut self.text);
    }
}

/// Gives the logs of one block that match. Of a block without any, only receipts are read.
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
                    let place = LogPlace {
                        block_number: number,
                        block_hash: block.hash,
                        block_timestamp: block.header.timestamp,
                        transaction_hash,
                        transaction_index,
                        log_index,
                    };
                    take(&LogObject::new(log, place));
                }
            }
        }
        first_log += receipt.logs.len();
    }
    Ok(())
}
