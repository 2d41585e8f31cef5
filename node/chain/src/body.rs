//! Checks a body against its header: the three roots that need no execution, and the block's size.

use alloy_consensus::{Header, proofs};
use alloy_eips::eip4895::Withdrawals;
use alloy_primitives::Bytes;
use storage::trie::ordered_root;

use super::{ChainSpec, Fork, HeaderError, Violation};

/// Maximum RLP size of a block since Osaka, in bytes (EIP-7934): 10 MiB minus a margin of 2 MiB for the consensus
/// layer.
pub const MAX_BLOCK_BYTES: usize = 8 * 1024 * 1024;

/// The parts of a block that its header commits to.
#[derive(Clone, Copy, Debug)]
pub struct Body<'a> {
    /// EIP-2718 bytes of each transaction.
    pub transactions: &'a [Bytes],
    /// Headers of the ommers.
    pub ommers: &'a [Header],
    /// Withdrawals; absent before Shanghai.
    pub withdrawals: Option<&'a Withdrawals>,
    /// Size of the whole block in RLP, in bytes.
    pub rlp_bytes: usize,
}

/// Checks that `header` commits to `body`.
///
/// # Errors
/// Returns the first root or size that differs, with the block number, the expected value and the found value.
pub fn validate_body(
    spec: &ChainSpec,
    header: &Header,
    body: &Body<'_>,
) -> Result<(), HeaderError> {
    check(spec, header, body).map_err(|violation| HeaderError { number: header.number, violation })
}

fn check(spec: &ChainSpec, header: &Header, body: &Body<'_>) -> Result<(), Violation> {
    let fork = spec.fork_of(header);
    if fork >= Fork::Osaka {
        Violation::range("size", 0, MAX_BLOCK_BYTES as u64, body.rlp_bytes as u64)?;
    }
    Violation::present("withdrawals", fork >= Fork::Shanghai, body.withdrawals.is_some())?;
    check_roots(header, body)
}

/// Returns whether the roots in `header` match `body`, so that a block with this header can have this body.
/// Takes as long as hashing all transactions.
pub fn commits_to(header: &Header, body: &Body<'_>) -> bool {
    let has_withdrawals = header.withdrawals_root.is_some();
    body.withdrawals.is_some() == has_withdrawals && check_roots(header, body).is_ok()
}

fn check_roots(header: &Header, body: &Body<'_>) -> Result<(), Violation> {
    Violation::hash("transactionsRoot", ordered_root(body.transactions), header.transactions_root)?;
    let ommers = proofs::calculate_ommers_root(body.ommers);
    Violation::hash("sha3Uncles", ommers, header.ommers_hash)?;
    match (body.withdrawals, header.withdrawals_root) {
        (Some(withdrawals), Some(found)) => {
            let root = proofs::calculate_withdrawals_root(withdrawals);
            Violation::hash("withdrawalsRoot", root, found)
        }
        _ => Ok(()),
    }
}
