//! Dumps and loads the whole state as one value in anvil's format: gzip-compressed JSON, encoded as hexadecimal.

use super::{Answer, Call, Develop, Error, development, json, mining::produce};
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U64, U256};
use evm::AccountOverride;
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    io::{Read, Write},
};
use storage::StateRead;

/// Maximum number of accounts of a dump, far more than tests create.
const MAX_DUMP_ACCOUNTS: usize = 100_000;
/// Maximum number of storage slots of a dump.
const MAX_DUMP_SLOTS: usize = 1_000_000;
/// Maximum bytes of the JSON of a dump that is loaded, after decompression.
const MAX_DUMP_BYTES: u64 = 256 * 1024 * 1024;

#[derive(Debug, Default, Deserialize, Serialize)]
struct Dump {
    /// The environment of the head, which anvil reads; ignored when a dump is loaded.
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    block: Option<BlockEnv>,
    accounts: BTreeMap<Address, DumpAccount>,
    #[serde(default, skip_deserializing)]
    best_block_number: u64,
    #[serde(default, skip_deserializing)]
    blocks: [(); 0],
    #[serde(default, skip_deserializing)]
    transactions: [(); 0],
}

#[derive(Debug, Serialize)]
struct BlockEnv {
    number: U64,
    beneficiary: Address,
    timestamp: U64,
    gas_limit: u64,
    basefee: u64,
    difficulty: U64,
    prevrandao: B256,
    blob_excess_gas_and_price: Option<()>,
}

#[derive(Debug, Deserialize, Serialize)]
struct DumpAccount {
    nonce: u64,
    balance: U256,
    code: Bytes,
    storage: BTreeMap<B256, B256>,
}

/// Implements `anvil_dumpState` and `hardhat_dumpState`.
pub(super) fn dump(call: &Call) -> Answer {
    let _historical: Option<bool> = call.arguments()?.optional()?;
    development(call)?;
    let state = call.view.state.reader()?;
    let mut accounts = BTreeMap::new();
    let mut slots_left = MAX_DUMP_SLOTS;
    for address in addresses(call)? {
        let Some(account) = state.account(address)? else { continue };
        let code = match account.code_hash == KECCAK256_EMPTY {
            true => Bytes::new(),
            false => state.code(account.code_hash)?,
        };
        let mut storage = BTreeMap::new();
        for slot in slots(call, address)? {
            let value = state.storage(address, slot)?;
            if !value.is_zero() {
                slots_left = slots_left.checked_sub(1).ok_or_else(too_many_slots)?;
                storage.insert(B256::from(slot), B256::from(value));
            }
        }
        let (nonce, balance) = (account.nonce, account.balance);
        accounts.insert(address, DumpAccount { nonce, balance, code, storage });
    }
    json(&compressed(&Dump { accounts, ..heading(call) })?)
}

fn heading(call: &Call) -> Dump {
    let head = &call.view.head.header;
    let block = BlockEnv {
        number: U64::from(head.number),
        beneficiary: head.beneficiary,
        timestamp: U64::from(head.timestamp),
        gas_limit: head.gas_limit,
        basefee: head.base_fee_per_gas.unwrap_or_default(),
        difficulty: U64::ZERO,
        prevrandao: head.mix_hash,
        blob_excess_gas_and_price: None,
    };
    Dump { block: Some(block), best_block_number: head.number, ..Dump::default() }
}

/// Returns all addresses that may have an account.
fn addresses(call: &Call) -> Result<BTreeSet<Address>, Error> {
    let state = &call.view.state;
    let index = state.index().reader()?;
    let flushed = index.addresses_from(Address::ZERO, MAX_DUMP_ACCOUNTS + 1)?;
    let changes = state.layers().iter().flat_map(|layer| &layer.changes().accounts);
    let all: BTreeSet<_> =
        flushed.into_iter().chain(changes.map(|change| change.address)).collect();
    if all.len() > MAX_DUMP_ACCOUNTS {
        let message = format!("the state has more than {MAX_DUMP_ACCOUNTS} accounts");
        return Err(Error::limit(message, MAX_DUMP_ACCOUNTS as u64, None));
    }
    Ok(all)
}

/// Returns all slots of an account that may be set.
fn slots(call: &Call, address: Address) -> Result<BTreeSet<U256>, Error> {
    let state = &call.view.state;
    let flushed = state.index().reader()?.slots_from(address, U256::ZERO, MAX_DUMP_SLOTS + 1)?;
    let changes = state.layers().iter().flat_map(|layer| &layer.changes().accounts);
    let changed = changes.filter(|change| change.address == address);
    let changed = changed.flat_map(|change| change.slots.iter().map(|(slot, _)| *slot));
    Ok(flushed.into_iter().chain(changed).collect())
}

fn too_many_slots() -> Error {
    let message = format!("the state has more than {MAX_DUMP_SLOTS} storage slots");
    Error::limit(message, MAX_DUMP_SLOTS as u64, None)
}

fn compressed(dump: &Dump) -> Result<Bytes, Error> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let text = serde_json::to_vec(dump).map_err(Error::internal)?;
    encoder.write_all(&text).map_err(Error::internal)?;
    Ok(encoder.finish().map_err(Error::internal)?.into())
}

/// Implements `anvil_loadState` and `hardhat_loadState`: sets every account of a dump, and leaves the others unchanged.
pub(super) async fn load(call: Call) -> Answer {
    let bytes: Bytes = call.arguments()?.required()?;
    development(&call)?;
    let accounts = tokio::task::spawn_blocking(move || parse(&bytes)).await;
    let accounts = accounts.map_err(Error::internal)??;
    if !accounts.is_empty() {
        produce(&call, Develop::SetAccounts(accounts)).await?;
    }
    // Both clients return true.
    json(&true)
}

fn parse(bytes: &[u8]) -> Result<Vec<AccountOverride>, Error> {
    let mut text = Vec::new();
    let read = GzDecoder::new(bytes).take(MAX_DUMP_BYTES + 1).read_to_end(&mut text);
    // anvil also accepts JSON that is not compressed.
    let text = if read.is_ok() { &text } else { bytes };
    if text.len() as u64 > MAX_DUMP_BYTES {
        let message = format!("the dump has more than {MAX_DUMP_BYTES} bytes of JSON");
        return Err(Error::limit(message, MAX_DUMP_BYTES, None));
    }
    let dump: Dump = serde_json::from_slice(text)
        .map_err(|error| Error::invalid_params(format!("this is not a dump: {error}")))?;
    let storage = |account: &DumpAccount| {
        let words = account.storage.iter();
        words
            .map(|(slot, value)| (U256::from_be_bytes(slot.0), U256::from_be_bytes(value.0)))
            .collect()
    };
    let accounts = dump.accounts.into_iter().map(|(address, account)| AccountOverride {
        address,
        balance: Some(account.balance),
        nonce: Some(account.nonce),
        state: Some(storage(&account)),
        code: Some(account.code),
        ..AccountOverride::default()
    });
    Ok(accounts.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dump_is_parsed_with_and_without_compression() {
        let storage = BTreeMap::from([(B256::with_last_byte(1), B256::repeat_byte(2))]);
        let (code, balance) = (Bytes::from_static(&[1, 2]), U256::MAX);
        let account = DumpAccount { nonce: 7, balance, code: code.clone(), storage };
        let accounts = BTreeMap::from([(Address::repeat_byte(3), account)]);
        let dump = Dump { accounts, ..Dump::default() };
        let expected = vec![AccountOverride {
            address: Address::repeat_byte(3),
            balance: Some(balance),
            nonce: Some(7),
            code: Some(code),
            state: Some(vec![(U256::ONE, U256::from_be_bytes([2; 32]))]),
            ..AccountOverride::default()
        }];
        assert_eq!(parse(&compressed(&dump).unwrap()).unwrap(), expected);
        assert_eq!(parse(&serde_json::to_vec(&dump).unwrap()).unwrap(), expected);
        assert!(parse(b"\x1f\x8b\x08 and no more").unwrap_err().message().contains("not a dump"));
    }
}
