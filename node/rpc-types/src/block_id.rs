//! Parses block identifiers: tags, numbers, hashes, and the objects of EIP-1898.

use crate::{
    error::Error,
    fields,
    params::{Param, hash, quantity, string},
};
use alloy_primitives::B256;
use chain::ChainSpec;
use serde::Deserialize;
use state::View;
use std::borrow::Cow;

/// Maximum block number in a request, as in geth, which parses it as an `int64`.
const MAX_NUMBER: u64 = i64::MAX as u64;

/// A block by tag or number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockTag {
    /// The first block.
    Earliest,
    /// The head. `safe` and `finalized` mean the same, because blocks are final immediately.
    Latest,
    /// The block that would follow the head, built from the best transactions in the pool.
    Pending,
    /// A number.
    Number(u64),
}

/// A block by tag, number or hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockId {
    /// A tag or number.
    Tag(BlockTag),
    /// A hash. `requireCanonical` of EIP-1898 has no effect, because every stored block is canonical.
    Hash(B256),
}

impl BlockTag {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "latest" | "safe" | "finalized" => Ok(Self::Latest),
            "pending" => Ok(Self::Pending),
            "earliest" => Ok(Self::Earliest),
            number => match quantity(number)? {
                number if number > MAX_NUMBER => Err("block number larger than int64".to_owned()),
                number => Ok(Self::Number(number)),
            },
        }
    }

    /// Returns the number of the block in this view. A number may be above the head. `pending` is the head of the view,
    /// because the head of a view with a pending block is that block.
    pub fn number(self, view: &View) -> u64 {
        match self {
            Self::Earliest => 0,
            Self::Latest | Self::Pending => view.number(),
            Self::Number(number) => number,
        }
    }
}

impl BlockId {
    /// The head.
    pub const LATEST: Self = Self::Tag(BlockTag::Latest);
    /// The next block, as this node would produce it now.
    pub const PENDING: Self = Self::Tag(BlockTag::Pending);

    /// Returns whether this is the pending block.
    pub fn is_pending(self) -> bool {
        self == Self::PENDING
    }

    /// Returns the number of the block in this view, or `None` if the view does not contain it.
    pub fn find(self, view: &View) -> Result<Option<u64>, Error> {
        match self {
            Self::Tag(tag) => Ok(Some(tag.number(view)).filter(|number| *number <= view.number())),
            Self::Hash(hash) => Ok(view.block_number(hash)?),
        }
    }

    /// Does the same as [`Self::find`], but returns geth's error if the view does not contain the block.
    pub fn require(self, view: &View) -> Result<u64, Error> {
        let by_hash = matches!(self, Self::Hash(_));
        self.find(view)?.ok_or_else(|| Error::header_not_found(by_hash))
    }
}

impl Param for BlockTag {
    fn read(json: &str, _: &ChainSpec) -> Result<Self, String> {
        Self::parse(&string(json)?)
    }
}

/// The object of EIP-1898.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Object<'a> {
    #[serde(borrow)]
    block_number: Option<Cow<'a, str>>,
    #[serde(borrow)]
    block_hash: Option<Cow<'a, str>>,
}

/// Length of a hash as text with `0x`, which distinguishes it from a number.
const HASH_CHARS: usize = 66;

impl Param for BlockId {
    fn read(json: &str, _: &ChainSpec) -> Result<Self, String> {
        if !json.starts_with('{') {
            let text = string(json)?;
            return match text.len() {
                HASH_CHARS => hash(&text).map(Self::Hash),
                _ => BlockTag::parse(&text).map(Self::Tag),
            };
        }
        let object: Object<'_> = fields::read(json)?;
        match (object.block_number, object.block_hash) {
            (Some(number), None) => BlockTag::parse(&number).map(Self::Tag),
            (None, Some(text)) => hash(&text).map(Self::Hash),
            (Some(_), Some(_)) => {
                Err("cannot specify both BlockHash and BlockNumber, choose one or the other"
                    .to_owned())
            }
            (None, None) => Err("a block object needs blockNumber or blockHash".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chain::Genesis;

    fn read(json: &str) -> Result<BlockId, String> {
        BlockId::read(json, &Genesis::native_dev(0).spec)
    }

    #[test]
    fn tags_numbers_and_hashes_are_parsed() {
        let hash = format!("{:#x}", B256::repeat_byte(7));
        let number = Ok(BlockId::Tag(BlockTag::Number(31)));
        assert_eq!(read("\"safe\""), Ok(BlockId::LATEST));
        assert_eq!(read("\"0x1f\""), number);
        assert_eq!(read("{\"blockNumber\":\"0x1f\"}"), number);
        assert_eq!(read(&format!("\"{hash}\"")), Ok(BlockId::Hash(B256::repeat_byte(7))));
        let object = format!("{{\"blockHash\":\"{hash}\",\"requireCanonical\":true}}");
        assert_eq!(read(&object), Ok(BlockId::Hash(B256::repeat_byte(7))));
    }

    #[test]
    fn invalid_block_ids_are_rejected() {
        let texts = ["31", "\"31\"", "\"newest\"", "\"0x8000000000000000\"", "{}", "[]", "true"];
        for json in texts {
            assert!(read(json).is_err(), "{json}");
        }
    }
}
