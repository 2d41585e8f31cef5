//! Reads and creates parts of the module row: the parameters of the EVM and of the distribution of fees, the rules
//! versions, the contents of the block, and the row of genesis. [`feemarket::store`] defines the format of a row.

use super::{
    DistributionParams, EvmParams, EvmParamsError, Native, RulesVersion, UnknownFeeRecipient,
};
use alloy_primitives::{Address, B256, Bytes, keccak256};
use feemarket::store::{self, Pairs, Record, StoredEvent};
use prost::Message;
use proto::evmd::distribution::v1 as proto;

/// Key space of the EVM module.
const EVM_KEY_SPACE: &str = "evm";
/// Key of its parameters in that space, as in cosmos/evm.
const EVM_PARAMS_KEY: u8 = 0x03;
/// Key space of the distribution of fees.
const DISTRIBUTION_KEY_SPACE: &str = "distribution";
/// Key of its parameters in that space.
const DISTRIBUTION_PARAMS_KEY: u8 = 0x00;
/// Key space of the rules versions.
const RULES_KEY_SPACE: &str = "rules";
/// Key of the rules version that starts with the block.
const RULES_VERSION_KEY: u8 = 0x00;
/// Key of the hash of the genesis configuration.
const RULES_CONFIG_KEY: u8 = 0x01;
/// Key space of what a replica cannot derive from a block without executing it.
const BLOCK_KEY_SPACE: &str = "block";
/// Key of the hash of the senders.
pub const SENDERS_KEY: u8 = 0x00;
/// Key of the hash of the events.
const EVENTS_KEY: u8 = 0x01;

/// Why the parameters of the EVM cannot be read from a row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvmRowError {
    /// The parameters are invalid.
    #[error("module row: {0}")]
    Params(#[from] EvmParamsError),
    /// A key in the EVM's space is unknown.
    #[error("module row: unknown key {0} in the space of the EVM")]
    UnknownKey(Bytes),
}

/// Why the parameters of the distribution of fees cannot be read from a row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DistributionRowError {
    /// The value is not the protobuf message `Params`.
    #[error("module row: parameters of the distribution of fees: {0}")]
    Decode(#[from] prost::DecodeError),
    /// The parameters are invalid.
    #[error("module row: {0}")]
    Params(#[from] UnknownFeeRecipient),
}

/// Returns the pair that stores the parameters of the EVM.
pub fn evm_pair(params: &EvmParams) -> (Bytes, Bytes) {
    (evm_key(EVM_PARAMS_KEY), params.to_proto().into())
}

/// Returns the parameters of the EVM in a row, or those of genesis if the row has none. Skips keys of other
/// spaces.
///
/// # Errors
/// Returns [`EvmRowError`].
pub fn evm_params(pairs: &Pairs, native: &Native) -> Result<EvmParams, EvmRowError> {
    let mut params = native.evm.clone();
    let prefix = [EVM_KEY_SPACE.as_bytes(), b"/"].concat();
    for (key, value) in pairs {
        match key.strip_prefix(prefix.as_slice()) {
            None => {}
            Some([EVM_PARAMS_KEY]) => params = EvmParams::from_proto(value)?,
            Some(_) => return Err(EvmRowError::UnknownKey(key.clone())),
        }
    }
    Ok(params)
}

/// Returns the pair that stores the parameters of the distribution of fees. Rows have this pair from block 0 on if the
/// genesis states the parameters, and otherwise from the block in which governance first sets them.
pub fn distribution_pair(params: DistributionParams) -> (Bytes, Bytes) {
    let value = proto::Params::from(params).encode_to_vec();
    (key(DISTRIBUTION_KEY_SPACE, DISTRIBUTION_PARAMS_KEY), value.into())
}

/// Returns the parameters of the distribution of fees in a row, or those of genesis if the row has none.
///
/// # Errors
/// Returns [`DistributionRowError`].
pub fn distribution_params(
    pairs: &Pairs,
    native: &Native,
) -> Result<Option<DistributionParams>, DistributionRowError> {
    match pairs.get(&key(DISTRIBUTION_KEY_SPACE, DISTRIBUTION_PARAMS_KEY)) {
        Some(value) => Ok(Some(proto::Params::decode(value.as_ref())?.try_into()?)),
        None => Ok(native.distribution),
    }
}

/// Returns the additional pairs in the first block of a rules version from 1 on: the version, and the hash of
/// the genesis configuration. A home with a different schedule rejects the block. Other blocks have no such pairs.
pub fn version_pairs(native: &Native, height: u64) -> Vec<(Bytes, Bytes)> {
    let starting = native.rules.starting_at(height);
    let Some(version) = starting.filter(|version| *version > RulesVersion::V0) else {
        return Vec::new();
    };
    let number = Bytes::copy_from_slice(&version.number().to_be_bytes());
    vec![
        (key(RULES_KEY_SPACE, RULES_VERSION_KEY), number),
        (key(RULES_KEY_SPACE, RULES_CONFIG_KEY), native.config_hash.0.into()),
    ]
}

/// Returns the additional pairs in every block of rules version 2 and later: the Keccak-256 of the concatenated
/// addresses of the senders, and the Keccak-256 of the RLP list of the modules' events. The cost grows with the
/// number of transactions: 20 bytes of each are hashed.
pub fn content_pairs(
    native: &Native,
    height: u64,
    senders: impl Iterator<Item = Address>,
    events: &[StoredEvent],
) -> Vec<(Bytes, Bytes)> {
    if native.rules.version(height) < RulesVersion::V2 {
        return Vec::new();
    }
    let mut bytes = Vec::with_capacity(senders.size_hint().0 * Address::len_bytes());
    senders.for_each(|sender| bytes.extend_from_slice(sender.as_slice()));
    let mut list = Vec::new();
    alloy_rlp::encode_list::<_, StoredEvent>(events, &mut list);
    let (senders, events) = (keccak256(&bytes), keccak256(&list));
    vec![
        (key(BLOCK_KEY_SPACE, SENDERS_KEY), senders.0.into()),
        (key(BLOCK_KEY_SPACE, EVENTS_KEY), events.0.into()),
    ]
}

/// Returns the commitment in the header of block 0. Governance has no pair before the first proposal.
pub fn genesis_root(native: &Native) -> B256 {
    let mut pairs = store::pairs(&native.market);
    pairs.extend([evm_pair(&native.evm)]);
    pairs.extend(native.distribution.map(distribution_pair));
    pairs.extend(version_pairs(native, 0));
    pairs.extend(content_pairs(native, 0, std::iter::empty(), &[]));
    Record { row: store::encode(&pairs), events: Vec::new(), gov: None }.root()
}

fn evm_key(byte: u8) -> Bytes {
    key(EVM_KEY_SPACE, byte)
}

fn key(space: &str, byte: u8) -> Bytes {
    [space.as_bytes(), b"/", &[byte]].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Genesis;
    use alloy_primitives::b256;

    #[test]
    fn a_block_commits_to_senders_and_events_from_version_2_on() {
        let genesis = Genesis::native_dev(0);
        let native = genesis.spec.native().unwrap();
        let senders = || [Address::repeat_byte(1), Address::repeat_byte(2)].into_iter();
        let event = StoredEvent { kind: "a".to_owned(), attributes: Vec::new() };
        let pairs = content_pairs(native, 5, senders(), std::slice::from_ref(&event));
        assert_eq!(pairs[0].0, Bytes::from_static(b"block/\x00"));
        assert_eq!(pairs[0].1.as_ref(), keccak256([[1; 20], [2; 20]].concat()).as_slice());
        assert_eq!(pairs[1].0, Bytes::from_static(b"block/\x01"));
        // [["a", []]]
        assert_eq!(pairs[1].1.as_ref(), keccak256([0xc3, 0xc2, b'a', 0xc0]).as_slice());
        let of = |senders: Vec<Address>, events: &[StoredEvent]| {
            content_pairs(native, 5, senders.into_iter(), events)
        };
        let reversed = senders().rev().collect();
        assert_ne!(of(reversed, std::slice::from_ref(&event))[0], pairs[0]);
        assert_ne!(of(Vec::new(), &[event.clone(), event])[1], pairs[1]);
        let empty = b256!("c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470");
        assert_eq!(of(Vec::new(), &[])[0].1.as_ref(), empty.as_slice());
        let mut old = native.clone();
        old.rules = crate::RulesSchedule::starting_with(RulesVersion::V1);
        assert_eq!(content_pairs(&old, 5, senders(), &[]), Vec::new());
    }

    #[test]
    fn damaged_parameters_are_refused_by_name() {
        let genesis = Genesis::native_dev(0);
        let read = |key: u8, value: &[u8]| {
            let pairs = Pairs::from([(evm_key(key), Bytes::copy_from_slice(value))]);
            evm_params(&pairs, genesis.spec.native().unwrap()).unwrap_err().to_string()
        };
        assert!(read(EVM_PARAMS_KEY, b"\xff").contains("EVM parameters: "));
        assert!(read(4, b"").contains("unknown key 0x65766d2f04"));
        // `extra_eips: [1]`; an access type of 3; a list entry that is not an address.
        assert!(read(EVM_PARAMS_KEY, b"\x20\x01").contains("extra_eips must be empty"));
        assert!(read(EVM_PARAMS_KEY, b"\x42\x04\x0a\x02\x08\x03").contains("access type 3"));
        let address = b"\x42\x05\x12\x03\x12\x01x";
        assert!(read(EVM_PARAMS_KEY, address).contains("invalid whitelist address: x"));
    }
}
