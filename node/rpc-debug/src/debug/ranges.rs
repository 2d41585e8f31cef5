//! `debug_storageRangeAt` and `debug_accountRange`: pages of the state in the order of the trie, which is the order of
//! hashes, in geth's format.

use super::{block_number, check_index, preimages, rerun::Rerun};
use crate::replay::{Replay, trace_json};
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256};
use alloy_trie::TrieAccount;
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use rpc_eth::{
    eth::CallHost,
    method::{Answer, Call, json},
};
use rpc_types::{block_id::BlockId, error::Error, params::Number};
use serde::{Serialize, Serializer};
use state::stored;
use std::collections::BTreeMap;
use storage::{
    ReadError, StateRead,
    trie::{EMPTY_ROOT_HASH, NodeRead, TrieError, leaves_from},
};

/// Maximum number of slots in a response of `debug_storageRangeAt`.
const MAX_SLOTS: u64 = 1_024;
/// Maximum number of accounts in a response of `debug_accountRange`, as in geth.
const MAX_ACCOUNTS: usize = 256;
/// Maximum number of slots of all accounts in a response of `debug_accountRange`.
const MAX_SLOTS_OF_ACCOUNTS: usize = 65_536;

/// Returns the key at which a page begins. A shorter key is padded with zeros.
fn first_key(start: &[u8]) -> Result<B256, Error> {
    if start.len() > B256::len_bytes() {
        let message = format!("start key must have at most 32 bytes, got {}", start.len());
        return Err(Error::invalid_params(message));
    }
    Ok(B256::right_padding_from(start))
}

fn trie_failed(error: TrieError<ReadError>) -> Error {
    Error::internal(error)
}

/// Decodes a leaf of a storage trie.
fn word(value: &[u8]) -> Result<U256, Error> {
    alloy_rlp::decode_exact(value).map_err(Error::internal)
}

/// A page of storage, by the hash of each slot.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StorageRange {
    /// `None` for an account without storage.
    storage: Option<BTreeMap<B256, StorageEntry>>,
    next_key: Option<B256>,
}

#[derive(Serialize)]
struct StorageEntry {
    /// The slot, if its preimage is known.
    key: Option<B256>,
    value: B256,
}

pub(super) fn storage_range_at(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let id: BlockId = arguments.required()?;
    let Number(index) = arguments.required()?;
    let address: Address = arguments.required()?;
    let start: Bytes = arguments.required()?;
    let Number(limit) = arguments.required()?;
    let (start, limit) = (first_key(&start)?, limit.min(MAX_SLOTS) as usize);
    let number = block_number(call, id)?;
    if number == 0 {
        return Err(Error::server("no transaction in genesis"));
    }
    let (replay, rerun) = (Replay::new(call), Rerun::new(call, number)?);
    check_index(&rerun.stored, index)?;
    let deadline = call.interrupt.within(call.services.limits.trace_timeout);
    let host = CallHost::new(call, &deadline);
    let changes = rerun.changes_before(&rerun.state()?, &host, index as usize);
    replay.in_time()?;
    let changes = changes?;
    let mut trie = rerun.trie()?;
    trie.update(&changes).map_err(trie_failed)?;
    let root = storage::trie::storage_root(&trie, trie.root, address).map_err(trie_failed)?;
    if root == EMPTY_ROOT_HASH {
        return json(&StorageRange { storage: None, next_key: None });
    }
    let (leaves, next_key) = page(&trie, Some(owner(address)), root, start, limit)?;
    let changed = changes.accounts.iter().filter(|change| change.address == address);
    let changed: Vec<U256> =
        changed.flat_map(|change| change.slots.iter().map(|(slot, _)| *slot)).collect();
    let hashed = leaves.iter().map(|(hash, _)| *hash);
    let slots = preimages::slots(call, &replay, address, &changed, hashed)?;
    let entry = |(hash, value): (B256, Bytes)| {
        let key = slots.get(&hash).copied();
        Ok::<_, Error>((hash, StorageEntry { key, value: word(&value)?.into() }))
    };
    let storage = leaves.into_iter().map(entry).collect::<Result<_, Error>>()?;
    json(&StorageRange { storage: Some(storage), next_key })
}

fn owner(address: Address) -> B256 {
    alloy_primitives::keccak256(address)
}

/// Entries of a trie, and the key of the next entry.
type Page = (Vec<(B256, Bytes)>, Option<B256>);

fn page(
    trie: &impl NodeRead<Error = ReadError>,
    owner: Option<B256>,
    root: B256,
    start: B256,
    limit: usize,
) -> Result<Page, Error> {
    let mut leaves = leaves_from(trie, owner, root, start, limit + 1).map_err(trie_failed)?;
    let next = leaves.drain(limit.min(leaves.len())..).next().map(|(key, _)| key);
    Ok((leaves, next))
}

/// A page of accounts, in the format of geth's dump.
#[derive(Serialize)]
struct Dump {
    /// Hex without `0x`.
    root: String,
    accounts: BTreeMap<String, DumpAccount>,
    /// The key at which the next page begins, in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DumpAccount {
    #[serde(serialize_with = "decimal")]
    balance: U256,
    nonce: u64,
    root: B256,
    code_hash: B256,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<Bytes>,
    /// Values by slot, without `0x` and leading zeros.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    storage: BTreeMap<B256, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<Address>,
    /// The hash of the address.
    key: B256,
}

fn decimal<S: Serializer>(balance: &U256, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&balance.to_string())
}

/// The parameters of `debug_accountRange`.
struct DumpOptions {
    code: bool,
    storage: bool,
    /// Whether to return accounts whose address is unknown.
    incompletes: bool,
}

pub(super) fn account_range(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let id: BlockId = arguments.required()?;
    let start: Bytes = arguments.nullable()?;
    let limit: Option<Number> = arguments.optional()?;
    let wanted = DumpOptions {
        code: !arguments.optional()?.unwrap_or(false),
        storage: !arguments.optional()?.unwrap_or(false),
        incompletes: arguments.optional()?.unwrap_or(false),
    };
    let limit = match limit.map(|Number(limit)| limit as usize) {
        Some(limit @ 1..=MAX_ACCOUNTS) => limit,
        _ => MAX_ACCOUNTS,
    };
    let number = call.require_canonical(id)?;
    let replay = Replay::new(call);
    let (_, header) = stored::header(&call.view.blocks()?, number)?;
    let (trie, root) = (call.view.trie_at(number)?, header.state_root);
    let (leaves, next) = page(&trie, None, root, first_key(&start)?, limit)?;
    let addresses = preimages::addresses(call, &replay, leaves.iter().map(|(hash, _)| *hash))?;
    let state = call.view.state.reader_at(number)?;
    let mut accounts = BTreeMap::new();
    let mut slots_left = MAX_SLOTS_OF_ACCOUNTS;
    for (key, value) in leaves {
        replay.in_time()?;
        let address = addresses.get(&key).copied();
        if address.is_none() && !wanted.incompletes {
            continue;
        }
        let account: TrieAccount = alloy_rlp::decode_exact(&value).map_err(Error::internal)?;
        let has_code = wanted.code && account.code_hash != KECCAK256_EMPTY;
        let code = has_code.then(|| state.code(account.code_hash)).transpose()?;
        let storage = match wanted.storage {
            true => dump_storage(call, &replay, &trie, address, key, &account, &mut slots_left)?,
            false => BTreeMap::new(),
        };
        let name = address.map_or_else(|| format!("pre({key})"), |known| known.to_checksum(None));
        let TrieAccount { nonce, balance, storage_root, code_hash } = account;
        let root = storage_root;
        let account = DumpAccount { balance, nonce, root, code_hash, code, storage, address, key };
        accounts.insert(name, account);
    }
    let next = next.map(|next| BASE64.encode(next));
    trace_json(call, &Dump { root: alloy_primitives::hex::encode(root), accounts, next })
}

/// Returns the storage of an account, except slots whose preimage is unknown.
fn dump_storage(
    call: &Call,
    replay: &Replay<'_>,
    trie: &impl NodeRead<Error = ReadError>,
    address: Option<Address>,
    key: B256,
    account: &TrieAccount,
    slots_left: &mut usize,
) -> Result<BTreeMap<B256, String>, Error> {
    let leaves = leaves_from(
        trie,
        Some(key),
        account.storage_root,
        B256::ZERO,
        slots_left.saturating_add(1),
    )
    .map_err(trie_failed)?;
    *slots_left = slots_left.checked_sub(leaves.len()).ok_or_else(|| {
        let message = format!(
            "the accounts have more than {MAX_SLOTS_OF_ACCOUNTS} slots; ask for fewer accounts, or leave \
             storage out (noStorage)"
        );
        Error::limit(message, MAX_SLOTS_OF_ACCOUNTS as u64, None)
    })?;
    let hashes = leaves.iter().map(|(hash, _)| *hash);
    let Some(address) = address else { return Ok(BTreeMap::new()) };
    let slots = preimages::slots(call, replay, address, &[], hashes)?;
    let known = leaves.iter().filter_map(|(hash, value)| Some((*slots.get(hash)?, value)));
    known
        .map(|(slot, value)| {
            let bytes = word(value)?.to_be_bytes_trimmed_vec();
            Ok::<_, Error>((slot, alloy_primitives::hex::encode(bytes)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_key_has_at_most_32_bytes() {
        for length in [0, 1, 31, 32] {
            let key = first_key(&vec![7; length]).expect("short enough");
            let expected = [vec![7; length], vec![0; 32 - length]].concat();
            assert_eq!(key.as_slice(), expected);
        }
        let error = first_key(&[7; 33]).expect_err("too long");
        assert_eq!(error.message(), "start key must have at most 32 bytes, got 33");
    }
}
