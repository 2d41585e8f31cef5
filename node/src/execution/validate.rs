//! A header against what its block did.

use alloy_consensus::Header;
use alloy_primitives::B256;

use super::{Executed, receipts_root};
use crate::chain::{HeaderError, Violation};

/// Compares a header with the execution of its block and the state root computed from its changes.
///
/// # Errors
/// The first value that differs: block number, field, expected (what the execution gives) and
/// found (what the header says).
pub fn validate_executed(
    header: &Header,
    executed: &Executed,
    state_root: B256,
) -> Result<(), HeaderError> {
    check(header, executed, state_root)
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
    if let Some(found) = header.requests_hash {
        Violation::hash("requestsHash", executed.requests.requests_hash(), found)?;
    }
    Violation::hash("stateRoot", state_root, header.state_root)
}
