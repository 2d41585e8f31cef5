//! Collects the requests from the execution layer to the consensus layer (EIP-7685) at the end of a block.

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
    machine::{Machine, fatal, success_output},
};

/// First topic of `DepositEvent(bytes,bytes,bytes,bytes,bytes)`.
const DEPOSIT_EVENT: B256 =
    b256!("649bbc62d0e31342afea4e5cd82d4049e7e1ee912fc0889aa790803be39038c5");
/// Size of the data of a well-formed deposit event, in bytes.
const DEPOSIT_DATA_BYTES: usize = 576;
/// The offset of each field's length word in the data, and the required length, both in bytes: public key,
/// withdrawal credentials, amount, signature, index.
const DEPOSIT_FIELDS: [(usize, usize); 5] = [(160, 48), (256, 32), (320, 8), (384, 96), (512, 8)];

/// Collects deposits from the logs, then calls the two system contracts.
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
        let output = call_contract(machine, number, contract)?;
        if !output.is_empty() {
            requests.push_request_with_type(kind, output);
        }
    }
    Ok(requests)
}

fn call_contract<S, I>(
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
    success_output(result).ok_or_else(|| fail(SystemFailure::Failed))
}

/// Returns the fields of every deposit event (EIP-6110), concatenated in the order of the logs.
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

/// Copies the five fields if the ABI encoding is exactly the one that the contract produces.
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

/// Returns the 32-byte big-endian number at `at`, if it is below 2^16.
fn word(data: &[u8], at: usize) -> Option<usize> {
    let (high, low) = data.get(at..at + 32)?.split_at(30);
    (high.iter().all(|byte| *byte == 0)).then(|| usize::from(low[0]) << 8 | usize::from(low[1]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::Log;
    use storage::ReceiptOutcome;

    const DEPOSIT_CONTRACT: Address = Address::repeat_byte(0xdc);
    /// Size of a deposit request in bytes: the five fields without the ABI encoding.
    const REQUEST_BYTES: usize = 48 + 32 + 8 + 96 + 8;

    /// Returns the data of a deposit event whose fields consist of one repeated byte.
    fn event_data(byte: u8) -> Vec<u8> {
        let mut data = vec![0; DEPOSIT_DATA_BYTES];
        let mut put_word = |at: usize, value: usize| {
            data[at + 24..at + 32].copy_from_slice(&(value as u64).to_be_bytes());
        };
        for (field, (offset, length)) in DEPOSIT_FIELDS.into_iter().enumerate() {
            put_word(field * 32, offset);
            put_word(offset, length);
        }
        for (offset, length) in DEPOSIT_FIELDS {
            data[offset + 32..offset + 32 + length].fill(byte);
        }
        data
    }

    fn receipt(logs: Vec<Log>) -> StoredReceipt {
        let outcome = ReceiptOutcome::Status(true);
        StoredReceipt { tx_type: 2, outcome, cumulative_gas_used: 21_000, logs }
    }

    fn event(address: Address, topic: B256, byte: u8) -> Log {
        Log::new_unchecked(address, vec![topic], event_data(byte).into())
    }

    #[test]
    fn only_deposit_events_of_the_deposit_contract_are_requests() {
        let other_topic = B256::repeat_byte(0x64);
        let receipts = [
            receipt(vec![
                event(Address::repeat_byte(0xdd), DEPOSIT_EVENT, 1),
                event(DEPOSIT_CONTRACT, DEPOSIT_EVENT, 2),
                event(DEPOSIT_CONTRACT, other_topic, 3),
            ]),
            receipt(vec![event(DEPOSIT_CONTRACT, DEPOSIT_EVENT, 4)]),
            receipt(vec![event(Address::ZERO, DEPOSIT_EVENT, 5)]),
        ];
        let expected = [[2; REQUEST_BYTES], [4; REQUEST_BYTES]].concat();
        assert_eq!(deposits(1, DEPOSIT_CONTRACT, &receipts).unwrap(), expected);
        // A malformed event of another contract does not make the block invalid.
        let malformed = |address| Log::new_unchecked(address, vec![DEPOSIT_EVENT], Bytes::new());
        let foreign = [receipt(vec![malformed(Address::ZERO)])];
        assert!(deposits(1, DEPOSIT_CONTRACT, &foreign).unwrap().is_empty());
        let own = [receipt(vec![malformed(DEPOSIT_CONTRACT)])];
        let error = deposits(1, DEPOSIT_CONTRACT, &own).unwrap_err();
        assert!(matches!(error, ExecutionError::DepositLayout { number: 1, index: 0 }));
    }

    #[test]
    fn every_byte_of_the_layout_of_a_deposit_event_is_checked() {
        let is_valid = |data: Vec<u8>| {
            let log = Log::new_unchecked(DEPOSIT_CONTRACT, vec![DEPOSIT_EVENT], data.into());
            deposits(1, DEPOSIT_CONTRACT, &[receipt(vec![log])]).is_ok()
        };
        assert!(is_valid(event_data(1)));
        let offsets = (0..DEPOSIT_FIELDS.len()).map(|field| field * 32);
        let lengths = DEPOSIT_FIELDS.into_iter().map(|(offset, _)| offset);
        for byte in offsets.chain(lengths).flat_map(|at| at..at + 32) {
            let mut data = event_data(1);
            data[byte] ^= 1;
            assert!(!is_valid(data), "byte {byte}");
        }
    }
}
