//! Parses the criteria of a search for logs: addresses and topics, and the blocks to search.

use alloy_primitives::{Address, B256, Log};
use chain::ChainSpec;
use rpc_types::{
    block_id::BlockTag,
    error::Error,
    fields,
    params::{Param, addresses, hash, one_or_many},
};
use serde::Deserialize;
use serde_json::value::RawValue;
use state::View;
use storage::PostingKey;

/// Maximum number of topics of a log, and therefore of a filter.
const MAX_TOPICS: usize = 4;
/// Maximum number of addresses, and of topics at one position, of an installed filter, as in geth.
const MAX_FILTER_ITEMS: usize = 1000;

/// A search for logs: the parameter of `eth_getLogs` and `eth_newFilter`.
#[derive(Clone, Debug)]
pub struct LogQuery {
    blocks: BlockSelection,
    /// The addresses and topics.
    pub filter: Filter,
}

#[derive(Clone, Debug)]
enum BlockSelection {
    Block(B256),
    Range(BlockTag, BlockTag),
}

/// Addresses and topics. An empty list matches everything.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    addresses: Vec<Address>,
    topics: Vec<Vec<B256>>,
}

/// The parameter as JSON.
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
        let blocks = match object.block_hash {
            None => BlockSelection::Range(tag(object.from_block)?, tag(object.to_block)?),
            Some(_) if object.from_block.is_some() || object.to_block.is_some() => {
                return Err("cannot specify both BlockHash and FromBlock/ToBlock, choose one or \
                            the other"
                    .to_owned());
            }
            Some(raw) => BlockSelection::Block(B256::read(raw.get(), spec)?),
        };
        let addresses = object.address.map_or(Ok(Vec::new()), |raw| addresses(raw, spec))?;
        let topics = object.topics.unwrap_or_default();
        if topics.len() > MAX_TOPICS {
            return Err("exceed max topics".to_owned());
        }
        let topics = topics.into_iter();
        let topics = topics.map(|raw| raw.map_or(Ok(Vec::new()), |raw| one_or_many(raw, hash)));
        let topics = topics.collect::<Result<_, _>>()?;
        Ok(Self { blocks, filter: Filter { addresses, topics } })
    }
}

impl Default for LogQuery {
    /// Matches all logs of the newest block.
    fn default() -> Self {
        let blocks = BlockSelection::Range(BlockTag::Latest, BlockTag::Latest);
        Self { blocks, filter: Filter::default() }
    }
}

impl LogQuery {
    /// Refuses a query that cannot be installed as a filter: a range that ends before it begins, logs of the pending
    /// block, and long lists.
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
        match self.blocks {
            BlockSelection::Range(BlockTag::Pending, _)
            | BlockSelection::Range(_, BlockTag::Pending) => Err(no_pending_logs()),
            BlockSelection::Range(BlockTag::Number(first), BlockTag::Number(last))
                if first > last =>
            {
                Err(invalid_range())
            }
            BlockSelection::Range(BlockTag::Number(1..), BlockTag::Earliest) => {
                Err(invalid_range())
            }
            BlockSelection::Range(..) | BlockSelection::Block(_) => Ok(()),
        }
    }

    /// Returns the memory that the query uses.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.filter.memory_bytes()
    }

    /// Returns the first and last block of an installed filter. `latest` means no limit, because it follows the chain.
    pub fn bounds(&self, view: &View) -> (u64, u64) {
        let number = |tag: BlockTag, open: u64| match tag {
            BlockTag::Number(_) | BlockTag::Earliest => tag.number(view),
            BlockTag::Latest | BlockTag::Pending => open,
        };
        match self.blocks {
            BlockSelection::Range(first, last) => (number(first, 0), number(last, u64::MAX)),
            // A block hash selects one block, which is not new.
            BlockSelection::Block(_) => (1, 0),
        }
    }

    /// Returns the first and last block of the query, which must be in the view.
    pub fn range(&self, view: &View) -> Result<(u64, u64), Error> {
        let (first, last) = match &self.blocks {
            BlockSelection::Block(hash) => {
                let number = view.block_number(*hash)?;
                return number.map_or_else(|| Err(Error::server("unknown block")), |n| Ok((n, n)));
            }
            BlockSelection::Range(BlockTag::Pending, _)
            | BlockSelection::Range(_, BlockTag::Pending) => {
                return Err(no_pending_logs());
            }
            BlockSelection::Range(first, last) => (first.number(view), last.number(view)),
        };
        if first > last {
            return Err(invalid_range());
        }
        if last > view.number() {
            return Err(Error::invalid_params("block range extends beyond current head block"));
        }
        Ok((first, last))
    }
}

impl Filter {
    /// Returns the memory that the lists use.
    pub fn memory_bytes(&self) -> usize {
        let Self { addresses, topics } = self;
        let topics = topics.iter().map(|list| size_of_val(list.as_slice())).sum::<usize>();
        size_of_val(addresses.as_slice()) + topics
    }

    /// Returns whether a log has one of the addresses, and one of the topics at each position.
    pub fn matches(&self, log: &Log) -> bool {
        let topics = log.topics();
        let any = |accepted: &Vec<B256>, topic| accepted.is_empty() || accepted.contains(topic);
        (self.addresses.is_empty() || self.addresses.contains(&log.address))
            && self.topics.len() <= topics.len()
            && self.topics.iter().zip(topics).all(|(accepted, topic)| any(accepted, topic))
    }

    /// Returns the number of addresses and topics.
    pub fn keys(&self) -> usize {
        self.addresses.len() + self.topics.iter().map(Vec::len).sum::<usize>()
    }

    /// Returns groups of index keys. A block with a matching log has at least one key of each group.
    pub fn groups(&self) -> Vec<Vec<PostingKey>> {
        let addresses =
            self.addresses.iter().map(|address| PostingKey::address(*address)).collect();
        let topics = self.topics.iter().enumerate();
        let topics = topics.map(|(position, accepted)| {
            accepted.iter().map(|topic| PostingKey::topic(position, topic)).collect()
        });
        let groups: Vec<Vec<PostingKey>> = topics.chain([addresses]).collect();
        groups.into_iter().filter(|group| !group.is_empty()).collect()
    }
}

fn invalid_range() -> Error {
    Error::invalid_params("invalid block range params")
}

fn no_pending_logs() -> Error {
    Error::invalid_params("pending logs are not supported")
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
    fn filters_match_as_in_geth() {
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
    fn invalid_filters_are_refused() {
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
