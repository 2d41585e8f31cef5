//! `eth_getLogs`: the blocks that the index names for a filter, bounded in rows, bytes and time,
//! never in blocks. When a bound is met the error names a range that fits.

use crate::method::{Answer, Call};
use alloy_primitives::{Address, B256, Log, U64};
use chain::ChainSpec;
use rpc_types::{
    block_id::BlockTag,
    error::{Error, Suggested},
    fields,
    object::{LogObject, LogPlace},
    params::{Param, addresses, hash, one_or_many},
    text::{Json, Put},
};
use serde::Deserialize;
use serde_json::value::RawValue;
use server::interrupt::Deadline;
use state::View;
use state::stored;
use std::time::Duration;
use storage::{ChainReader, PostingKey};

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
/// Most topics of a log, and so of a filter.
const TOPICS_MAX: usize = 4;
/// Maximum number of addresses, and of topics at one position, of an installed filter: geth's.
const MAX_FILTER_ITEMS: usize = 1000;

/// What to look for, and where.
#[derive(Clone, Debug)]
pub struct LogQuery {
    place: Place,
    /// Addresses and topics.
    pub filter: Filter,
}

#[derive(Clone, Debug)]
enum Place {
    Block(B256),
    Range(BlockTag, BlockTag),
}

/// Empty lists match everything.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    addresses: Vec<Address>,
    topics: Vec<Vec<B256>>,
}

/// The object as given.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Object<'a> {
    #[serde(borrow)]
    from_block: Option<&'a RawValue>,
    #[serde(borrow)]
    to_block: Option<&'a RawValue>,
    #[serde(borrow)]
    block_hash: Option<&'a RawValue>,
    #[serde(borrow)]
    address: Option<&'a RawValue>,
    #[serde(borrow)]
    topics: Option<Vec<Option<&'a RawValue>>>,
}

impl Param for LogQuery {
    fn read(json: &str, spec: &ChainSpec) -> Result<Self, String> {
        let object: Object<'_> = fields::read(json)?;
        let tag = |raw: Option<&RawValue>| {
            raw.map_or(Ok(BlockTag::Latest), |raw| BlockTag::read(raw.get(), spec))
        };
        let place = match object.block_hash {
            None => Place::Range(tag(object.from_block)?, tag(object.to_block)?),
            Some(_) if object.from_block.is_some() || object.to_block.is_some() => {
                return Err("cannot specify both BlockHash and FromBlock/ToBlock, choose one or \
                            the other"
                    .to_owned());
            }
            Some(raw) => Place::Block(B256::read(raw.get(), spec)?),
        };
        let addresses = object.address.map_or(Ok(Vec::new()), |raw| addresses(raw, spec))?;
        let topics = object.topics.unwrap_or_default();
        if topics.len() > TOPICS_MAX {
            return Err("exceed max topics".to_owned());
        }
        let topics = topics.into_iter();
        let topics = topics.map(|raw| raw.map_or(Ok(Vec::new()), |raw| one_or_many(raw, hash)));
        let topics = topics.collect::<Result<_, _>>()?;
        Ok(Self { place, filter: Filter { addresses, topics } })
    }
}

impl Default for LogQuery {
    /// All logs of the newest block.
    fn default() -> Self {
        let place = Place::Range(BlockTag::Latest, BlockTag::Latest);
        Self { place, filter: Filter::default() }
    }
}

impl LogQuery {
    /// Refuses what no installed filter can give: a range that ends before it begins, and logs of
    /// blocks that are not made.
    pub fn check(&self) -> Result<(), Error> {
        let Filter { addresses, topics } = &self.filter;
        let lists = topics.iter().map(Vec::len).chain([addresses.len()]);
        if lists.max() > Some(MAX_FILTER_ITEMS) {
            let message = format!(
                "too many addresses or topics in a filter: at most {MAX_FILTER_ITEMS} addresses, and as many \
                 topics at each position"
            );
            return Err(Error::limit(message, MAX_FILTER_ITEMS as u64, None));
        }
        match self.place {
            Place::Range(BlockTag::Pending, _) | Place::Range(_, BlockTag::Pending) => {
                Err(no_pending_logs())
            }
            Place::Range(BlockTag::Number(first), BlockTag::Number(last)) if first > last => {
                Err(no_range())
            }
            Place::Range(BlockTag::Number(1..), BlockTag::Earliest) => Err(no_range()),
            Place::Range(..) | Place::Block(_) => Ok(()),
        }
    }

    /// Bytes of memory that the query takes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.filter.memory_bytes()
    }

    /// First and last block of the query as far as it gives numbers; an installed filter that says
    /// `latest` goes on with the chain.
    pub fn bounds(&self, view: &View) -> (u64, u64) {
        let number = |tag: BlockTag, open: u64| match tag {
            BlockTag::Number(_) | BlockTag::Earliest => tag.number(view),
            BlockTag::Latest | BlockTag::Pending => open,
        };
        match self.place {
            Place::Range(first, last) => (number(first, 0), number(last, u64::MAX)),
            // One block, which is not a new one.
            Place::Block(_) => (1, 0),
        }
    }
}

impl Filter {
    /// Bytes of memory that the lists take.
    pub fn memory_bytes(&self) -> usize {
        let Self { addresses, topics } = self;
        let topics = topics.iter().map(|list| size_of_val(list.as_slice())).sum::<usize>();
        size_of_val(addresses.as_slice()) + topics
    }

    /// Whether a log has the addresses and topics.
    pub fn matches(&self, log: &Log) -> bool {
        let topics = log.topics();
        let any = |wanted: &Vec<B256>, found| wanted.is_empty() || wanted.contains(found);
        (self.addresses.is_empty() || self.addresses.contains(&log.address))
            && self.topics.len() <= topics.len()
            && self.topics.iter().zip(topics).all(|(wanted, found)| any(wanted, found))
    }

    /// Addresses and topics that are looked up.
    fn keys(&self) -> usize {
        self.addresses.len() + self.topics.iter().map(Vec::len).sum::<usize>()
    }

    /// What a block with a matching log is looked up by: one of each group.
    fn groups(&self) -> Vec<Vec<PostingKey>> {
        let addresses =
            self.addresses.iter().map(|address| PostingKey::address(*address)).collect();
        let topics = self.topics.iter().enumerate();
        let topics = topics.map(|(position, wanted)| {
            wanted.iter().map(|topic| PostingKey::topic(position, topic)).collect()
        });
        let groups: Vec<Vec<PostingKey>> = topics.chain([addresses]).collect();
        groups.into_iter().filter(|group| !group.is_empty()).collect()
    }
}

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
    let (first, last) = range(&call.view, &query.place)?;
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
pub fn find(call: &Call, query: &LogQuery) -> Answer {
    let (first, last) = range(&call.view, &query.place)?;
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
pub fn find_first(
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
pub fn find_at_once(
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

fn no_range() -> Error {
    Error::invalid_params("invalid block range params")
}

fn no_pending_logs() -> Error {
    Error::invalid_params("pending logs are not supported")
}

/// First and last block of the query, both in the view.
fn range(view: &View, place: &Place) -> Result<(u64, u64), Error> {
    let (first, last) = match place {
        Place::Block(hash) => {
            let number = view.block_number(*hash)?;
            return number.map_or_else(|| Err(Error::server("unknown block")), |n| Ok((n, n)));
        }
        Place::Range(BlockTag::Pending, _) | Place::Range(_, BlockTag::Pending) => {
            return Err(no_pending_logs());
        }
        Place::Range(first, last) => (first.number(view), last.number(view)),
    };
    if first > last {
        return Err(no_range());
    }
    if last > view.number() {
        return Err(Error::invalid_params("block range extends beyond current head block"));
    }
    Ok((first, last))
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

#[cfg(test)]
mod tests {
    use super::*;
    use chain::Genesis;

    fn read(json: &str) -> Result<LogQuery, String> {
        LogQuery::read(json, &Genesis::native_dev(0).spec)
    }

    fn log(topics: &[u8]) -> Log {
        let topics = topics.iter().map(|byte| B256::repeat_byte(*byte)).collect();
        Log::new_unchecked(Address::repeat_byte(1), topics, Default::default())
    }

    #[test]
    fn filters_match_as_geths() {
        let (a, b) = (B256::repeat_byte(0xa), B256::repeat_byte(0xb));
        let query = |topics: &str| read(&format!("{{\"topics\":{topics}}}")).expect(topics).filter;
        let cases = [
            ("[]".to_owned(), true),
            (format!("[\"{a}\"]"), true),
            (format!("[null,\"{b}\"]"), true),
            (format!("[[],[\"{a}\",\"{b}\"]]"), true),
            (format!("[[null,\"{b}\"]]"), true),
            (format!("[\"{b}\"]"), false),
            (format!("[\"{a}\",\"{b}\",null]"), false),
        ];
        let log = log(&[0xa, 0xb]);
        for (topics, expected) in cases {
            let filter = query(&topics);
            assert_eq!(filter.matches(&log), expected, "{topics}");
        }
        let other = read("{\"address\":\"0x0202020202020202020202020202020202020202\"}");
        assert!(!other.expect("valid").filter.matches(&log));
    }

    #[test]
    fn bad_filters_are_refused() {
        let many = format!("{{\"address\":[{}]}}", ["\"0x00\""; 1001].join(","));
        let both = format!("{{\"blockHash\":\"{}\",\"toBlock\":\"0x1\"}}", B256::ZERO);
        let five = "{\"topics\":[null,null,null,null,null]}";
        let texts = [
            "[]",
            "1",
            "{\"fromBlock\":1}",
            "{\"address\":1}",
            "{\"topics\":\"0x\"}",
            five,
            &many,
            &both,
            "{\"topics\":[[[]]]}",
            "{\"blockHash\":\"0x12\"}",
        ];
        for json in texts {
            assert!(read(json).is_err(), "{json}");
        }
    }
}
