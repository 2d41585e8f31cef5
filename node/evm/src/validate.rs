//! Compares the header of an imported block with its execution, and completes the header of a produced one.

use alloy_consensus::{Header, proofs};
use alloy_primitives::B256;
use storage::trie::ordered_root;

use super::{Executed, receipts_root};
use chain::{Body, HeaderError, Violation};

/// Compares a header with the execution of its block and the state root computed from its changes.
///
/// # Errors
/// The first value that differs: block number, field, expected value (from the execution) and found value
/// (from the header).
pub fn validate_executed(
    header: &Header,
    executed: &Executed,
    state_root: B256,
) -> Result<(), HeaderError> {
    let requests =
        |found| Violation::hash("requestsHash", executed.requests.requests_hash(), found);
    check(header, executed, state_root)
        .and_then(|()| header.requests_hash.map_or(Ok(()), requests))
        .map_err(|violation| HeaderError { number: header.number, violation })
}

/// Does the same as [`validate_executed`] for a block that was received with its results and not executed. Does not
/// compare the requests to the consensus layer, which are not known.
///
/// # Errors
/// As [`validate_executed`].
pub fn validate_received(
    header: &Header,
    received: &Executed,
    state_root: B256,
) -> Result<(), HeaderError> {
    check(header, received, state_root)
        .map_err(|violation| HeaderError { number: header.number, violation })
}

fn check(header: &Header, executed: &Executed, state_root: B256) -> Result<(), Violation> {
    Violation::number("gasUsed", executed.gas_used, header.gas_used)?;
    if let Some(found) = header.blob_gas_used {
        Violation::number("blobGasUsed", executed.blob_gas_used, found)?;
    }
    let (root, bloom) = receipts_root(&executed.receipts);
    Violation::hash("receiptsRoot", root, header.receipts_root)?;
    if bloom != header.logs_bloom {
        return Err(Violation::Bloom);
    }
    Violation::hash("stateRoot", state_root, header.state_root)
}

/// Completes the header of a produced block: gas, roots, bloom and requests.
pub fn complete_header(
    header: &mut Header,
    executed: &Executed,
    state_root: B256,
    body: &Body<'_>,
) {
    header.gas_used = executed.gas_used;
    header.blob_gas_used = header.blob_gas_used.map(|_| executed.blob_gas_used);
    (header.receipts_root, header.logs_bloom) = receipts_root(&executed.receipts);
    header.requests_hash = header.requests_hash.map(|_| executed.requests.requests_hash());
    header.state_root = state_root;
    header.transactions_root = ordered_root(body.transactions);
    header.ommers_hash = proofs::calculate_ommers_root(body.ommers);
    header.withdrawals_root = body.withdrawals.map(|list| proofs::calculate_withdrawals_root(list));
}
