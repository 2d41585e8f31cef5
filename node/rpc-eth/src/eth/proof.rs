//! `eth_getProof` (EIP-1186), `eth_getAccount` and `eth_getStorageValues`.

use super::state::storage_key;
use crate::method::{Answer, Call, json};
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U64, U256};
use chain::ChainSpec;
use rpc_types::{
    block_id::BlockId,
    error::Error,
    fields::{self, HashField},
    params::Param,
    text::Json,
};
use serde::Serialize;
use state::stored;
use std::collections::BTreeMap;
use storage::{
    StateRead,
    trie::{EMPTY_ROOT_HASH, account_proof},
};

/// Maximum number of slots in one request, as in geth.
const MAX_SLOTS: usize = 1024;
/// Maximum number of slots that are read inline.
const MAX_INLINE_SLOTS: usize = 64;
/// Length of the text of a storage key with all 32 bytes.
const WORD_CHARS: usize = 66;

/// A storage key. If the request has all 32 bytes, so does the response; otherwise it has no leading zeros.
struct Key {
    slot: U256,
    is_full_word: bool,
}

#[derive(Default)]
struct Keys(Vec<Key>);

impl Param for Keys {
    fn read(json: &str, _: &ChainSpec) -> Result<Self, String> {
        let texts: Vec<String> =
            serde_json::from_str(json).map_err(|_| "not a list of storage keys".to_owned())?;
        let keys = texts.iter().map(|text| {
            let slot = storage_key(text).map_err(|error| error.message().to_owned())?;
            Ok(Key { slot, is_full_word: text.len() == WORD_CHARS })
        });
        keys.collect::<Result<_, String>>().map(Self)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProofObject {
    address: Address,
    account_proof: Vec<Bytes>,
    balance: U256,
    code_hash: B256,
    nonce: U64,
    storage_hash: B256,
    storage_proof: Vec<SlotObject>,
}

#[derive(Serialize)]
struct SlotObject {
    key: String,
    value: U256,
    proof: Vec<Bytes>,
}

pub(super) fn get_proof(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let address: Address = arguments.required()?;
    let Keys(keys) = arguments.nullable()?;
    let id: BlockId = arguments.optional()?.unwrap_or(BlockId::LATEST);
    if keys.len() > MAX_SLOTS {
        return Err(Error::limit(too_many_slots(), MAX_SLOTS as u64, None));
    }
    let number = call.require_canonical(id)?;
    let (_, header) = stored::header(&call.view.blocks()?, number)?;
    let trie = call.view.trie_at(number)?;
    let slots: Vec<U256> = keys.iter().map(|key| key.slot).collect();
    let proof =
        account_proof(&trie, header.state_root, address, &slots).map_err(Error::internal)?;
    let storage_proof = keys.iter().zip(proof.storage).map(|(key, proof)| SlotObject {
        key: match key.is_full_word {
            true => format!("{:#x}", B256::from(key.slot)),
            false => format!("{:#x}", key.slot),
        },
        value: proof.value,
        proof: proof.nodes,
    });
    let account = proof.account.unwrap_or(alloy_trie::TrieAccount {
        nonce: 0,
        balance: U256::ZERO,
        storage_root: EMPTY_ROOT_HASH,
        code_hash: KECCAK256_EMPTY,
    });
    json(&ProofObject {
        address,
        account_proof: proof.nodes,
        balance: account.balance,
        code_hash: account.code_hash,
        nonce: U64::from(account.nonce),
        storage_hash: account.storage_root,
        storage_proof: storage_proof.collect(),
    })
}

/// The result of `eth_getAccount`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AccountObject {
    balance: U256,
    code_hash: B256,
    nonce: U64,
    storage_root: B256,
}

pub(super) fn get_account(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let address: Address = arguments.required()?;
    let id: BlockId = arguments.optional()?.unwrap_or(BlockId::LATEST);
    let number = call.require_canonical(id)?;
    let (_, header) = stored::header(&call.view.blocks()?, number)?;
    let trie = call.view.trie_at(number)?;
    let proof = account_proof(&trie, header.state_root, address, &[]).map_err(Error::internal)?;
    json(&proof.account.map(|account| AccountObject {
        balance: account.balance,
        code_hash: account.code_hash,
        nonce: U64::from(account.nonce),
        storage_root: account.storage_root,
    }))
}

fn too_many_slots() -> String {
    format!("too many slots (max {MAX_SLOTS})")
}

/// Slots by account.
struct SlotsByAccount(BTreeMap<Address, Vec<B256>>);

impl Param for SlotsByAccount {
    fn read(json: &str, spec: &ChainSpec) -> Result<Self, String> {
        let object: BTreeMap<String, Vec<HashField>> = fields::read(json)?;
        let mut requested = BTreeMap::new();
        for (address, slots) in object {
            let address = keys::parse_address_in_any_case(&address, &spec.bech32_prefix)
                .map_err(|error| error.to_string())?;
            requested.insert(address, slots.into_iter().map(|HashField(slot)| slot).collect());
        }
        Ok(Self(requested))
    }
}

/// Returns the values, or `None` if there are many.
pub(super) fn get_storage_values_inline(call: &Call) -> Result<Option<Json>, Error> {
    let SlotsByAccount(requested) = call.arguments()?.required()?;
    let count: usize = requested.values().map(Vec::len).sum();
    if count > MAX_INLINE_SLOTS { Ok(None) } else { get_storage_values(call).map(Some) }
}

pub(super) fn get_storage_values(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let SlotsByAccount(requested) = arguments.required()?;
    let id: BlockId = arguments.optional()?.unwrap_or(BlockId::LATEST);
    let count: usize = requested.values().map(Vec::len).sum();
    if count == 0 {
        return Err(Error::invalid_params("empty request"));
    }
    if count > MAX_SLOTS {
        return Err(Error::client_limit(too_many_slots(), MAX_SLOTS as u64));
    }
    let state = call.view.state.reader_at(call.require(id)?)?;
    let mut found: BTreeMap<Address, Vec<B256>> = BTreeMap::new();
    for (address, slots) in requested {
        let values = found.entry(address).or_default();
        for slot in slots {
            values.push(state.storage(address, U256::from_be_bytes(slot.0))?.into());
        }
    }
    json(&found)
}
