//! Requests from the execution layer to the consensus layer (EIP-7685), collected at a block's end.

use std::error::Error;

use alloy_eips::{
    eip6110::DEPOSIT_REQUEST_TYPE,
    eip7002::{WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS, WITHDRAWAL_REQUEST_TYPE},
    eip7251::{CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS, CONSOLIDATION_REQUEST_TYPE},
    eip7685::Requests,
};
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, b256};
use storage::{StateRead, StoredReceipt};

use super::{
    ExecutionError, SystemFailure,
    block::{fatal, succeeded},
    machine::Machine,
};

/// First topic of `DepositEvent(bytes,bytes,bytes,bytes,bytes)`.
const DEPOSIT_EVENT: B256 =
    b256!("649bbc62d0e31342afea4e5cd82d4049e7e1ee912fc0889aa790803be39038c5");
/// Bytes of data of a well-formed deposit event.
const DEPOSIT_DATA_BYTES: usize = 576;
/// Where each field's length word stands in the data, and the length it must give: public key,
/// withdrawal credentials, amount, signature, index.
const DEPOSIT_FIELDS: [(usize, usize); 5] = [(160, 48), (256, 32), (320, 8), (384, 96), (512, 8)];

/// Collects deposits from the logs, then asks the two system contracts.
pub(super) fn collect<S, I>(
    machine: &mut Machine<'_, S, I>,
    number: u64,
    deposit_contract: Address,
    receipts: &[StoredReceipt],
) -> Result<Requests, ExecutionError>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    let mut requests = Requests::default();
    let deposits = deposits(number, deposit_contract, receipts)?;
    if !deposits.is_empty() {
        requests.push_request_with_type(DEPOSIT_REQUEST_TYPE, deposits);
    }
    for (contract, kind) in [
        (WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS, WITHDRAWAL_REQUEST_TYPE),
        (CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS, CONSOLIDATION_REQUEST_TYPE),
    ] {
        let answer = ask(machine, number, contract)?;
        if !answer.is_empty() {
            requests.push_request_with_type(kind, answer);
        }
    }
    Ok(requests)
}

fn ask<S, I>(
    machine: &mut Machine<'_, S, I>,
    number: u64,
    contract: Address,
) -> Result<Bytes, ExecutionError>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    let fail = |reason| ExecutionError::SystemContract { number, contract, reason };
    let account = machine
        .overlay_mut()
        .account(contract)
        .map_err(|source| ExecutionError::State { number, source })?;
    if account.is_none_or(|account| account.code_hash == KECCAK256_EMPTY) {
        return Err(fail(SystemFailure::Empty));
    }
    let result =
        machine.system_call(contract, Bytes::new()).map_err(|error| fatal(number, error))?;
    succeeded(result).ok_or_else(|| fail(SystemFailure::Failed))
}

/// EIP-6110: the fields of every deposit event, one after another, in the order of the logs.
fn deposits(
    number: u64,
    contract: Address,
    receipts: &[StoredReceipt],
) -> Result<Vec<u8>, ExecutionError> {
    let mut out = Vec::new();
    for (index, receipt) in receipts.iter().enumerate() {
        for log in &receipt.logs {
            if log.address != contract || log.topics().first() != Some(&DEPOSIT_EVENT) {
                continue;
            }
            append_deposit(&log.data.data, &mut out)
                .ok_or(ExecutionError::DepositLayout { number, index })?;
        }
    }
    Ok(out)
}

/// Copies the five fields when the ABI encoding is exactly the one the contract produces.
fn append_deposit(data: &[u8], out: &mut Vec<u8>) -> Option<()> {
    if data.len() != DEPOSIT_DATA_BYTES {
        return None;
    }
    for (field, (offset, length)) in DEPOSIT_FIELDS.into_iter().enumerate() {
        if word(data, field * 32)? != offset || word(data, offset)? != length {
            return None;
        }
    }
    for (offset, length) in DEPOSIT_FIELDS {
        out.extend_from_slice(data.get(offset + 32..offset + 32 + length)?);
    }
    Some(())
}

/// The 32-byte big-endian number at `at`, when it is small.
fn word(data: &[u8], at: usize) -> Option<usize> {
    let (high, low) = data.get(at..at + 32)?.split_at(30);
    (high.iter().all(|byte| *byte == 0)).then(|| usize::from(low[0]) << 8 | usize::from(low[1]))
}
