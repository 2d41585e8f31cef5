//! Validates a header against its parent, for every fork.
//!
//! This needs neither state nor execution. Proof-of-work seals are not verified: the difficulty is checked, but
//! the mix hash and nonce of a mined block are not.

use alloy_consensus::{EMPTY_OMMER_ROOT_HASH, Header, constants::EMPTY_WITHDRAWALS};
use alloy_eips::{
    eip1559::{BaseFeeParams, DEFAULT_ELASTICITY_MULTIPLIER, INITIAL_BASE_FEE},
    eip4844::DATA_GAS_PER_BLOB,
    eip7685::EMPTY_REQUESTS_HASH,
    eip7840::BlobParams,
};
use alloy_primitives::{Address, B256, Bytes, U256};

use super::{
    ChainSpec, Fork, HeaderError, Rules, Violation, derived_fields, difficulty::expected_difficulty,
};

/// Maximum size of the extra data, in bytes (Yellow Paper, 4.4.4).
const MAX_EXTRA_DATA_BYTES: usize = 32;
/// Minimum gas limit of a block.
const MIN_GAS_LIMIT: u64 = 5_000;
/// Maximum gas limit of a block, 2^63 - 1.
const MAX_GAS_LIMIT: u64 = i64::MAX as u64;
/// A gas limit differs from its parent's by less than parent / 1024.
const GAS_LIMIT_BOUND_DIVISOR: u64 = 1024;
/// Extra data of the first [`DAO_EXTRA_BLOCKS`] blocks of the DAO fork, on a chain that supports the fork.
const DAO_EXTRA_DATA: &[u8] = b"dao-hard-fork";
const DAO_EXTRA_BLOCKS: u64 = 10;

/// The parent of the block under validation.
#[derive(Clone, Copy, Debug)]
pub struct Parent<'a> {
    /// Its header.
    pub header: &'a Header,
    /// Its hash, to avoid computing it again.
    pub hash: B256,
    /// Total difficulty: the sum of the difficulties from genesis to this block, both included.
    pub total_difficulty: U256,
}

/// Checks every rule that a header must satisfy before its block is executed.
///
/// # Errors
/// Returns the first violated rule, with block number, field, expected and found value.
pub fn validate_header(
    spec: &ChainSpec,
    parent: &Parent<'_>,
    header: &Header,
) -> Result<(), HeaderError> {
    check(spec, parent, header)
        .map_err(|violation| HeaderError { number: header.number, violation })
}

/// Does the same as [`validate_header`], without the block number in the error.
pub(super) fn check(
    spec: &ChainSpec,
    parent: &Parent<'_>,
    header: &Header,
) -> Result<(), Violation> {
    Violation::number("number", parent.header.number.saturating_add(1), header.number)?;
    Violation::hash("parentHash", parent.hash, header.parent_hash)?;
    let merged = is_merged(spec, parent);
    let fork = spec.fork(header.number, header.timestamp, merged);
    check_time_and_extra(spec, parent.header, header)?;
    derived_fields::check(spec, parent.header, header)?;
    if merged {
        Violation::wide_number("difficulty", U256::ZERO, header.difficulty)?;
        Violation::number("nonce", 0, u64::from(header.nonce))?;
        Violation::hash("sha3Uncles", EMPTY_OMMER_ROOT_HASH, header.ommers_hash)?;
    } else {
        let expected = expected_difficulty(spec, parent.header, header.timestamp);
        Violation::wide_number("difficulty", expected, header.difficulty)?;
    }
    check_gas(fork, parent.header, header)?;
    let found = header.base_fee_per_gas;
    Violation::present("baseFeePerGas", fork >= Fork::London, found.is_some())?;
    // The base fee of a native chain is checked against the fee market.
    if let Some(found) = found.filter(|_| spec.rules == Rules::Ethereum) {
        Violation::number("baseFeePerGas", next_base_fee(parent.header), found)?;
    }
    check_later_fields(fork, header)?;
    match spec.blob_params(header.timestamp).filter(|_| fork >= Fork::Cancun) {
        Some(params) => check_blob_gas(&params, fork, parent.header, header),
        None => Ok(()),
    }
}

/// Returns whether the child of `parent` has no proof of work.
fn is_merged(spec: &ChainSpec, parent: &Parent<'_>) -> bool {
    let parent_is_merged = parent.header.number > 0 && parent.header.difficulty.is_zero();
    parent_is_merged || spec.merged_after(parent.total_difficulty)
}

fn check_time_and_extra(
    spec: &ChainSpec,
    parent: &Header,
    header: &Header,
) -> Result<(), Violation> {
    let min = parent.timestamp.saturating_add(spec.rules.timestamp_step());
    Violation::range("timestamp", min, u64::MAX, header.timestamp)?;
    let bytes = header.extra_data.len() as u64;
    Violation::range("extraData", 0, MAX_EXTRA_DATA_BYTES as u64, bytes)?;
    if let Some((fork, supported)) = spec.dao_fork()
        && (fork..fork.saturating_add(DAO_EXTRA_BLOCKS)).contains(&header.number)
    {
        let marked = header.extra_data.as_ref() == DAO_EXTRA_DATA;
        Violation::present("extraData `dao-hard-fork`", supported, marked)?;
    }
    Ok(())
}

fn check_gas(fork: Fork, parent: &Header, header: &Header) -> Result<(), Violation> {
    Violation::range("gasLimit", MIN_GAS_LIMIT, MAX_GAS_LIMIT, header.gas_limit)?;
    // In the first block of EIP-1559, the parent's gas limit counts twice, so that the gas target stays the same.
    let transition = fork >= Fork::London && parent.base_fee_per_gas.is_none();
    let elasticity = if transition { DEFAULT_ELASTICITY_MULTIPLIER } else { 1 };
    let base = parent.gas_limit.saturating_mul(elasticity);
    let max_change = (base / GAS_LIMIT_BOUND_DIVISOR).saturating_sub(1);
    let (min, max) = (base.saturating_sub(max_change), base.saturating_add(max_change));
    Violation::range("gasLimit", min, max, header.gas_limit)?;
    if base < GAS_LIMIT_BOUND_DIVISOR {
        return Err(Violation::Range {
            field: "gasLimit",
            min: GAS_LIMIT_BOUND_DIVISOR,
            max: MAX_GAS_LIMIT,
            found: base,
        });
    }
    Violation::range("gasUsed", 0, header.gas_limit, header.gas_used)
}

fn check_later_fields(fork: Fork, header: &Header) -> Result<(), Violation> {
    let (shanghai, cancun) = (fork >= Fork::Shanghai, fork >= Fork::Cancun);
    Violation::present("withdrawalsRoot", shanghai, header.withdrawals_root.is_some())?;
    Violation::present("blobGasUsed", cancun, header.blob_gas_used.is_some())?;
    Violation::present("excessBlobGas", cancun, header.excess_blob_gas.is_some())?;
    let beacon_root = header.parent_beacon_block_root.is_some();
    Violation::present("parentBeaconBlockRoot", cancun, beacon_root)?;
    Violation::present("requestsHash", fork >= Fork::Prague, header.requests_hash.is_some())?;
    Violation::present("blockAccessListHash", false, header.block_access_list_hash.is_some())?;
    Violation::present("slotNumber", false, header.slot_number.is_some())
}

fn check_blob_gas(
    params: &BlobParams,
    fork: Fork,
    parent: &Header,
    header: &Header,
) -> Result<(), Violation> {
    let used = header.blob_gas_used.unwrap_or_default();
    let whole = used - used % DATA_GAS_PER_BLOB;
    Violation::number("blobGasUsed", whole, used)?;
    Violation::range("blobGasUsed", 0, params.max_blob_count * DATA_GAS_PER_BLOB, used)?;
    let expected = next_excess_blob_gas(params, fork, parent);
    Violation::number("excessBlobGas", expected, header.excess_blob_gas.unwrap_or_default())
}

/// The fields that a block producer chooses. All other fields of a header follow from the parent or the block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Seconds since the epoch: above the parent's timestamp, or on a native chain equal to it or above.
    pub timestamp: u64,
    /// Coinbase.
    pub beneficiary: Address,
    /// Gas limit, which differs from the parent's by less than 1/1024.
    pub gas_limit: u64,
    /// The value that PREVRANDAO returns.
    pub prev_randao: B256,
    /// Extra data, at most 32 bytes.
    pub extra_data: Bytes,
    /// The root that EIP-4788 makes available to contracts.
    pub parent_beacon_block_root: B256,
}

/// Returns the header of the block after `parent` as far as it is known before execution, which is enough for
/// `evm::BlockBuilder::start`. `evm::complete_header` adds the rest. On a native chain, the fee market replaces the
/// base fee, and the extra data is replaced by the root of the modules.
pub fn next_header(spec: &ChainSpec, parent: &Parent<'_>, attributes: &Attributes) -> Header {
    let (number, timestamp) = (parent.header.number + 1, attributes.timestamp);
    let merged = is_merged(spec, parent);
    let fork = spec.fork(number, timestamp, merged);
    let cancun = fork >= Fork::Cancun;
    let blob_params = spec.blob_params(timestamp).filter(|_| cancun);
    let difficulty =
        if merged { U256::ZERO } else { expected_difficulty(spec, parent.header, timestamp) };
    Header {
        parent_hash: parent.hash,
        number,
        timestamp,
        difficulty,
        beneficiary: attributes.beneficiary,
        gas_limit: attributes.gas_limit,
        mix_hash: attributes.prev_randao,
        extra_data: attributes.extra_data.clone(),
        base_fee_per_gas: (fork >= Fork::London).then(|| next_base_fee(parent.header)),
        withdrawals_root: (fork >= Fork::Shanghai).then_some(EMPTY_WITHDRAWALS),
        blob_gas_used: cancun.then_some(0),
        excess_blob_gas: blob_params
            .map(|params| next_excess_blob_gas(&params, fork, parent.header)),
        parent_beacon_block_root: cancun.then_some(attributes.parent_beacon_block_root),
        requests_hash: (fork >= Fork::Prague).then_some(EMPTY_REQUESTS_HASH),
        ..Default::default()
    }
}

/// Returns the base fee of the block after `parent`, in wei (EIP-1559), or the initial base fee if the parent
/// has none.
pub fn next_base_fee(parent: &Header) -> u64 {
    match parent.base_fee_per_gas {
        // A gas limit below the elasticity multiplier has a target of zero. No child of such a block is valid.
        Some(base_fee) if parent.gas_limit >= DEFAULT_ELASTICITY_MULTIPLIER => {
            BaseFeeParams::ethereum().next_block_base_fee(
                parent.gas_used,
                parent.gas_limit,
                base_fee,
            )
        }
        Some(base_fee) => base_fee,
        None => INITIAL_BASE_FEE,
    }
}

/// Returns the excess blob gas of the block after `parent` (EIP-4844, and EIP-7918 since Osaka), with the blob
/// limits and the fork of that block.
pub fn next_excess_blob_gas(params: &BlobParams, fork: Fork, parent: &Header) -> u64 {
    let excess = parent.excess_blob_gas.unwrap_or_default();
    let used = parent.blob_gas_used.unwrap_or_default();
    let target = params.target_blob_count * DATA_GAS_PER_BLOB;
    let sum = excess.saturating_add(used);
    if sum < target {
        return 0;
    }
    if fork >= Fork::Osaka {
        let reserve = U256::from(params.blob_base_cost)
            * U256::from(parent.base_fee_per_gas.unwrap_or_default());
        let blob_fee = U256::from(params.calc_blob_fee(excess));
        if reserve > U256::from(DATA_GAS_PER_BLOB) * blob_fee {
            let spare_blobs = u128::from(params.max_blob_count - params.target_blob_count);
            let scaled = u128::from(used) * spare_blobs / u128::from(params.max_blob_count);
            return excess.saturating_add(u64::try_from(scaled).unwrap_or(u64::MAX));
        }
    }
    sum - target
}
