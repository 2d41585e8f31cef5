//! Merkle proofs (EIP-1186).

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_trie::TrieAccount;

use super::dirty::DirtyTrie;
use super::node::{encode_extension, reference_of};
use super::state::account_leaf;
use super::{Child, EMPTY_ROOT_HASH, Nibbles, Node, NodeRead, TrieError};

/// An account with the nodes that prove it, or prove that there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountProof {
    /// Whose.
    pub address: Address,
    /// The account with its storage root; `None` when there is none.
    pub account: Option<TrieAccount>,
    /// RLP of the nodes from the state root down.
    pub nodes: Vec<Bytes>,
    /// One proof a slot asked for, in that order.
    pub storage: Vec<StorageProof>,
}

/// A storage slot with the nodes that prove it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageProof {
    /// Which.
    pub slot: U256,
    /// Its value; zero when unset.
    pub value: U256,
    /// RLP of the nodes from the storage root down; empty for an empty trie.
    pub nodes: Vec<Bytes>,
}

/// Proves an account and some of its slots against `state_root`.
///
/// # Errors
/// When nodes cannot be read or are damaged.
pub fn account_proof<N: NodeRead>(
    nodes: &N,
    state_root: B256,
    address: Address,
    slots: &[U256],
) -> Result<AccountProof, TrieError<N::Error>> {
    let owner = B256::new(verify::keccak256(address.as_slice()));
    let mut accounts = DirtyTrie::new(nodes, None);
    let key = Nibbles::unpack(owner);
    let mut proof = AccountProof { address, account: None, nodes: Vec::new(), storage: Vec::new() };
    if state_root != EMPTY_ROOT_HASH {
        proof.account = account_leaf(&mut accounts, &key)?;
        proof.nodes = prove(&mut accounts, &key)?;
    }
    let storage_root = proof.account.map_or(EMPTY_ROOT_HASH, |account| account.storage_root);
    let mut storage = DirtyTrie::new(nodes, Some(owner));
    for &slot in slots {
        let mut entry = StorageProof { slot, value: U256::ZERO, nodes: Vec::new() };
        if storage_root != EMPTY_ROOT_HASH {
            let key = Nibbles::unpack(verify::keccak256(&slot.to_be_bytes::<32>()));
            if let Some(value) = storage.value(&key)? {
                entry.value = alloy_rlp::decode_exact(&value)
                    .map_err(|_| storage.damaged("storage word does not decode", key))?;
            }
            entry.nodes = prove(&mut storage, &key)?;
        }
        proof.storage.push(entry);
    }
    Ok(proof)
}

/// RLP of the nodes on the way to `key`, as far as it goes, in a trie that is not empty. Nodes
/// embedded in their parent are not listed again.
fn prove<N: NodeRead>(
    trie: &mut DirtyTrie<'_, N>,
    key: &Nibbles,
) -> Result<Vec<Bytes>, TrieError<N::Error>> {
    let mut proof = Vec::new();
    let mut path = Nibbles::new();
    loop {
        let node = trie.load(&path)?;
        let branch = match &*node {
            Node::Leaf(leaf) => {
                push(&mut proof, |out| leaf.encode_rlp(out));
                return Ok(proof);
            }
            Node::Branch(branch) => branch,
        };
        let mut rlp = Vec::new();
        branch.encode_rlp(&mut rlp);
        if !branch.prefix.is_empty() {
            let reference = reference_of(&rlp);
            push(&mut proof, |out| encode_extension(out, &branch.prefix, &reference));
        }
        path = path.join(&branch.prefix);
        if !key.starts_with(&path) {
            return Ok(proof);
        }
        push(&mut proof, |out| out.extend_from_slice(&rlp));
        let nibble = key.get_unchecked(path.len());
        path.push(nibble);
        match branch.child(nibble) {
            None => return Ok(proof),
            Some(Child::Node(_)) => {}
            Some(Child::Leaf(leaf)) => {
                push(&mut proof, |out| leaf.encode_rlp(out));
                return Ok(proof);
            }
        }
    }
}

/// Adds a node unless its parent holds it whole; the root is always there.
fn push(proof: &mut Vec<Bytes>, encode: impl FnOnce(&mut Vec<u8>)) {
    let mut rlp = Vec::new();
    encode(&mut rlp);
    if rlp.len() >= 32 || proof.is_empty() {
        proof.push(rlp.into());
    }
}
