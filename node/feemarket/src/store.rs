//! Encodes the state of the market and of the other modules, and the commitment to it in block headers.
//!
//! Module state is a map from keys to values. A key is the module's key space, `/`, and a byte:
//!
//! | Key | Value |
//! |---|---|
//! | `feemarket/` 0x00 | [`Params`](super::Params) as protobuf, including the base fee |
//! | `feemarket/` 0x01 | gas of the last block, 8 bytes, big-endian |
//! | `evm/` 0x03 | parameters of the EVM as protobuf, see `chain::module_row` |
//! | `distribution/` 0x00 | who receives the fees, if the genesis or governance set it, see `chain::module_row` |
//! | `gov/` 0x00 | the commitment to the state of governance, and the block that changed it last |
//! | `rules/` 0x00 | in the first block of a rules version from 1 on: the version, see `chain::module_row` |
//! | `rules/` 0x01 | in the same block: the hash of the genesis configuration |
//! | `block/` 0x00 | from rules version 2 on: the hash of the senders of the block, see `chain::module_row` |
//! | `block/` 0x01 | from rules version 2 on: the hash of the events of the block |
//!
//! A **row** is the whole map after a block: the RLP list of `[key, value]` lists in strictly
//! ascending order of keys. A native block's `extraData` is the Keccak-256 of that row, so the header is
//! sufficient to verify a row.
//!
//! A [`Record`] is stored with a block: its row, and the block's events.

use super::{
    event::Event,
    formula::TokenDecimals,
    genesis::Genesis,
    market::{Market, MarketError},
    params::{Params, ParamsError},
};
use alloy_primitives::{B256, Bytes, keccak256};
use alloy_rlp::{Decodable, RlpDecodable, RlpEncodable};
use serde::Serialize;
use std::collections::BTreeMap;
use thiserror::Error;

/// Key space of this module.
pub const KEY_SPACE: &str = "feemarket";
/// Key of the parameters.
pub const PARAMS_KEY: u8 = 0x00;
/// Key of the last block's gas.
pub const BLOCK_GAS_KEY: u8 = 0x01;

/// Module state: every key with its value, in order.
pub type Pairs = BTreeMap<Bytes, Bytes>;

/// Why a row is not a module state, or contains no valid market.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RowError {
    /// The bytes are not an RLP list of pairs.
    #[error("module row: {0}")]
    Rlp(#[from] alloy_rlp::Error),
    /// A key is out of order or occurs twice, so this is not the canonical encoding of a map.
    #[error("module row: key {0} does not follow the one before it")]
    Order(Bytes),
    /// An unknown key in the key space of the fee market.
    #[error("module row: unknown key {0} in the space of the fee market")]
    UnknownKey(Bytes),
    /// The block gas does not have 8 bytes.
    #[error("module row: block gas is {0} bytes, not 8")]
    BlockGas(usize),
    /// The parameters of the market are invalid.
    #[error("module row: {0}")]
    Market(#[from] MarketError),
}

#[derive(RlpEncodable, RlpDecodable)]
struct Pair {
    key: Bytes,
    value: Bytes,
}

/// Returns a key of the fee market.
pub fn key(byte: u8) -> Bytes {
    [KEY_SPACE.as_bytes(), b"/", &[byte]].concat().into()
}

/// Returns the stored keys and values of a market.
pub fn pairs(market: &Market) -> Pairs {
    let block_gas = market.block_gas().to_be_bytes();
    Pairs::from([
        (key(PARAMS_KEY), market.params().to_proto().into()),
        (key(BLOCK_GAS_KEY), Bytes::copy_from_slice(&block_gas)),
    ])
}

/// Returns the market that these pairs contain. Missing parameters are the default ones, and missing gas is zero.
/// Keys of other modules are ignored.
///
/// # Errors
/// [`RowError`].
pub fn market(pairs: &Pairs, decimals: TokenDecimals) -> Result<Market, RowError> {
    let mut genesis = Genesis::default();
    let prefix = [KEY_SPACE.as_bytes(), b"/"].concat();
    for (key, value) in pairs {
        match key.strip_prefix(prefix.as_slice()) {
            None => {}
            Some([PARAMS_KEY]) => genesis.params = read_params(value)?,
            Some([BLOCK_GAS_KEY]) => genesis.block_gas = read_block_gas(value)?,
            Some(_) => return Err(RowError::UnknownKey(key.clone())),
        }
    }
    Ok(Market::new(genesis, decimals)?)
}

fn read_params(value: &[u8]) -> Result<Params, RowError> {
    Params::from_proto(value).map_err(|error: ParamsError| MarketError::from(error).into())
}

fn read_block_gas(value: &[u8]) -> Result<u64, RowError> {
    value.try_into().map(u64::from_be_bytes).map_err(|_| RowError::BlockGas(value.len()))
}

/// Encodes a map as a row.
pub fn encode(pairs: &Pairs) -> Bytes {
    let pair = |(key, value): (&Bytes, &Bytes)| Pair { key: key.clone(), value: value.clone() };
    alloy_rlp::encode(pairs.iter().map(pair).collect::<Vec<_>>()).into()
}

/// Decodes a row.
///
/// # Errors
/// [`RowError`] for bytes that [`encode`] does not write.
pub fn decode(mut row: &[u8]) -> Result<Pairs, RowError> {
    let list = Vec::<Pair>::decode(&mut row)?;
    if !row.is_empty() {
        return Err(alloy_rlp::Error::UnexpectedLength.into());
    }
    let mut pairs = Pairs::new();
    for Pair { key, value } in list {
        if pairs.last_key_value().is_some_and(|(last, _)| *last >= key) {
            return Err(RowError::Order(key));
        }
        pairs.insert(key, value);
    }
    Ok(pairs)
}

/// Returns the `extraData` of a block with this row.
pub fn root(row: &[u8]) -> B256 {
    keccak256(row)
}

/// The record that is stored with a native block.
#[derive(Clone, Debug, Default, PartialEq, Eq, RlpEncodable, RlpDecodable)]
#[rlp(trailing)]
pub struct Record {
    /// Module state after the block, see [`encode`].
    pub row: Bytes,
    /// Events of the block, in order.
    pub events: Vec<StoredEvent>,
    /// The whole state of governance, only in records of older programs; see `modules::gov::store`.
    pub gov: Option<Bytes>,
}

/// An event of any module, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq, RlpEncodable, RlpDecodable, Serialize)]
pub struct StoredEvent {
    /// Event type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Attributes, in order.
    pub attributes: Vec<Attribute>,
}

/// An attribute of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq, RlpEncodable, RlpDecodable, Serialize)]
pub struct Attribute {
    /// Name.
    pub key: String,
    /// Value.
    pub value: String,
}

impl StoredEvent {
    /// Creates an event with these attributes.
    pub fn new(kind: &str, attributes: &[(&str, String)]) -> Self {
        let attribute = |(key, value): &(&str, String)| Attribute {
            key: (*key).to_owned(),
            value: value.clone(),
        };
        let attributes = attributes.iter().map(attribute).collect();
        Self { kind: kind.to_owned(), attributes }
    }
}

impl From<Event> for StoredEvent {
    fn from(event: Event) -> Self {
        let attribute = |(key, value): (&str, _)| Attribute { key: key.to_owned(), value };
        let attributes = event.attributes().into_iter().map(attribute).collect();
        Self { kind: event.kind().to_owned(), attributes }
    }
}

impl Record {
    /// Encodes the record as RLP.
    pub fn to_bytes(&self) -> Bytes {
        alloy_rlp::encode(self).into()
    }

    /// Decodes the result of [`Self::to_bytes`].
    ///
    /// # Errors
    /// [`RowError`] if the bytes are not a record.
    pub fn from_bytes(mut bytes: &[u8]) -> Result<Self, RowError> {
        let record = Self::decode(&mut bytes)?;
        if bytes.is_empty() { Ok(record) } else { Err(alloy_rlp::Error::UnexpectedLength.into()) }
    }

    /// Returns the `extraData` of the block.
    pub fn root(&self) -> B256 {
        root(&self.row)
    }
}
