//! `eth_getLogs`: a scan of the blocks in range, helped by their blooms, bounded in blocks, rows,
//! bytes and time. When a bound is met the error names a range that fits.

use crate::{
    account::parse_address,
    chain::ChainSpec,
    rpc::{
        block_id::BlockTag,
        error::{Error, Suggested},
        method::{Answer, Call},
        object::{LogObject, LogPlace},
        params::{Param, hash, object},
        stored::{self, StoredBlock},
    },
};
use alloy_primitives::{Address, B256, Bloom, BloomInput, Log, U64, keccak256};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{
    borrow::Cow,
    time::{Duration, Instant},
};
use storage::ChainReader;

/// Most blocks of one query: what a scan reads within its time on an ordinary chain.
const BLOCKS_MAX: u64 = 10_000;
/// Most logs of one answer, as providers have it.
const LOGS_MAX: usize = 10_000;
/// Most bytes of one answer: half of what a response may have by default.
const BYTES_MAX: usize = 32 * 1024 * 1024;
/// Longest a scan may take.
const TIME_MAX: Duration = Duration::from_secs(5);
/// Most topics of a log, and so of a filter.
const TOPICS_MAX: usize = 4;
/// Most addresses, or alternatives for one topic, of a filter, as geth.
const ALTERNATIVES_MAX: usize = 1000;

/// What to look for, and where.
struct LogQuery {
    place: Place,
    filter: Filter,
}

enum Place {
    Block(B256),
    Range(BlockTag, BlockTag),
}

/// Empty lists match everything.
#[derive(Debug, Default)]
struct Filter {
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
        let object: Object<'_> = object(json)?;
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
        let address = |text: &str| {
            parse_address(text, &spec.bech32_prefix).map_err(|error| error.to_string())
        };
        let addresses = object.address.map_or(Ok(Vec::new()), |raw| one_or_many(raw, address))?;
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

/// A string or a list of strings; a list with a `null` in it matches everything, as geth has it.
fn one_or_many<T>(
    raw: &RawValue,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    let malformed = |_| "neither a string nor a list of strings".to_owned();
    let json = raw.get();
    let texts: Vec<Option<Text<'_>>> = if json.starts_with('[') {
        serde_json::from_str(json).map_err(malformed)?
    } else {
        vec![serde_json::from_str(json).map_err(malformed)?]
    };
    if texts.len() > ALTERNATIVES_MAX {
        return Err("exceed max addresses or topics per search position".to_owned());
    }
    let texts: Option<Vec<_>> = texts.into_iter().collect();
    texts.unwrap_or_default().iter().map(|text| read(&text.0)).collect()
}

impl Filter {
    fn matches(&self, log: &Log) -> bool {
        let topics = log.topics();
        let any = |wanted: &Vec<B256>, found| wanted.is_empty() || wanted.contains(found);
        (self.addresses.is_empty() || self.addresses.contains(&log.address))
            && self.topics.len() <= topics.len()
            && self.topics.iter().zip(topics).all(|(wanted, found)| any(wanted, found))
    }

    /// A log may match in a block with this bloom.
    fn may_match(&self, bloom: &Bloom) -> bool {
        let has = |bytes: &[u8]| bloom.contains_input(BloomInput::Raw(bytes));
        let address = || self.addresses.iter().any(|address| has(address.as_slice()));
        let topic = |wanted: &Vec<B256>| wanted.iter().any(|topic| has(topic.as_slice()));
        (self.addresses.is_empty() || address())
            && self.topics.iter().all(|wanted| wanted.is_empty() || topic(wanted))
    }
}

pub(super) fn logs(call: &Call) -> Answer {
    let query: LogQuery = call.arguments()?.required()?;
    let (first, last) = range(call, &query.place)?;
    let blocks = call.view.blocks()?;
    let deadline = Instant::now() + TIME_MAX;
    let mut found = Found { text: b"[".to_vec(), logs: 0 };
    for row in blocks.headers_range(first..=last)? {
        let (number, block_hash, header) = row?;
        let header = stored::decode_header(&header)?;
        if query.filter.may_match(&header.logs_bloom) {
            let place = LogPlace {
                block_number: number,
                block_hash,
                block_timestamp: header.timestamp,
                transaction_hash: B256::ZERO,
                transaction_index: 0,
                log_index: 0,
            };
            found.add_block(&blocks, &query.filter, place)?;
        }
        let past = if found.logs > LOGS_MAX {
            Some((format!("query returned more than {LOGS_MAX} results"), LOGS_MAX as u64))
        } else if found.text.len() > BYTES_MAX {
            Some((format!("query returned more than {BYTES_MAX} bytes"), BYTES_MAX as u64))
        } else if number < last && Instant::now() > deadline {
            let seconds = TIME_MAX.as_secs();
            Some((format!("query took more than {seconds} seconds"), seconds))
        } else {
            None
        };
        if let Some((message, limit)) = past {
            let fits = number.checked_sub(1).filter(|last| *last >= first);
            return Err(Error::limit(message, limit, fits.map(|last| suggest(first, last))));
        }
    }
    found.text.push(b']');
    let text = String::from_utf8(found.text).map_err(Error::internal)?;
    RawValue::from_string(text).map_err(Error::internal)
}

fn suggest(first: u64, last: u64) -> Suggested {
    Suggested { from_block: U64::from(first), to_block: U64::from(last) }
}

/// First and last block of the query, both in the view.
fn range(call: &Call, place: &Place) -> Result<(u64, u64), Error> {
    let (first, last) = match place {
        Place::Block(hash) => {
            let number = call.view.block_number(*hash)?;
            return number.map_or_else(|| Err(Error::server("unknown block")), |n| Ok((n, n)));
        }
        Place::Range(BlockTag::Pending, _) | Place::Range(_, BlockTag::Pending) => {
            return Err(Error::invalid_params("pending logs are not supported"));
        }
        Place::Range(first, last) => (first.number(&call.view), last.number(&call.view)),
    };
    if first > last {
        return Err(Error::invalid_params("invalid block range params"));
    }
    if last > call.view.number() {
        return Err(Error::invalid_params("block range extends beyond current head block"));
    }
    if last - first >= BLOCKS_MAX {
        let message = format!("exceed maximum block range: {BLOCKS_MAX}");
        let suggested = suggest(first, first + BLOCKS_MAX - 1);
        return Err(Error::limit(message, BLOCKS_MAX, Some(suggested)));
    }
    Ok((first, last))
}

/// The answer so far.
struct Found {
    text: Vec<u8>,
    logs: usize,
}

impl Found {
    /// Adds the logs of one block that match; `place` is that of its first.
    fn add_block(
        &mut self,
        blocks: &ChainReader,
        filter: &Filter,
        mut place: LogPlace,
    ) -> Result<(), Error> {
        let receipts = stored::receipts(blocks, place.block_number)?;
        // Bodies are read only where something matches.
        let mut stored: Option<StoredBlock> = None;
        for (index, receipt) in receipts.iter().enumerate() {
            let mut tx_hash = None;
            for log in &receipt.logs {
                if filter.matches(log) {
                    let stored = match &mut stored {
                        Some(stored) => stored,
                        none => none.insert(StoredBlock::read(blocks, place.block_number)?),
                    };
                    let raw = stored.block.transactions.get(index);
                    let raw =
                        raw.ok_or_else(|| Error::internal("a receipt without transaction"))?;
                    place.transaction_hash = *tx_hash.get_or_insert_with(|| keccak256(raw));
                    place.transaction_index = index;
                    self.add(&LogObject::new(log, place))?;
                }
                place.log_index += 1;
            }
        }
        Ok(())
    }

    fn add(&mut self, log: &LogObject<'_>) -> Result<(), Error> {
        if self.logs > 0 {
            self.text.push(b',');
        }
        self.logs += 1;
        serde_json::to_writer(&mut self.text, log).map_err(Error::internal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::Genesis;

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
        let mut bloom = Bloom::ZERO;
        bloom.accrue_log(&log);
        for (topics, expected) in cases {
            let filter = query(&topics);
            assert_eq!(filter.matches(&log), expected, "{topics}");
            assert!(!expected || filter.may_match(&bloom), "{topics}");
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
