//! Merkle proofs (EIP-1186).

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_trie::TrieAccount;

use super::node::{encode_extension, reference_of};
use super::walk::{decode_account, value};
use super::{Child, EMPTY_ROOT_HASH, Nibbles, Node, NodeRead, TrieError};

/// An account with the nodes that prove it, or prove that it does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountProof {
    /// Address of the account.
    pub address: Address,
    /// The account with its storage root; `None` if the account does not exist.
    pub account: Option<TrieAccount>,
    /// RLP of the nodes from the state root down.
    pub nodes: Vec<Bytes>,
    /// One proof per requested slot, in the order of the request.
    pub storage: Vec<StorageProof>,
}

/// A storage slot with the nodes that prove its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageProof {
    /// The slot.
    pub slot: U256,
    /// Its value; zero if unset.
    pub value: U256,
    /// RLP of the nodes from the storage root down; empty for an empty trie.
    pub nodes: Vec<Bytes>,
}

/// Proves an account and some of its slots against `state_root`.
///
/// # Errors
/// If nodes cannot be read or are damaged.
pub fn account_proof<N: NodeRead>(
    nodes: &N,
    state_root: B256,
    address: Address,
    slots: &[U256],
) -> Result<AccountProof, TrieError<N::Error>> {
    let owner = B256::new(verify::keccak256(address.as_slice()));
    let mut proof = AccountProof { address, account: None, nodes: Vec::new(), storage: Vec::new() };
    if state_root != EMPTY_ROOT_HASH {
        let key = Nibbles::unpack(owner);
        let (value, nodes) = prove(nodes, None, &key)?;
        proof.nodes = nodes;
        proof.account = value.map(|value| decode_account(&key, &value)).transpose()?;
    }
    let storage_root = proof.account.map_or(EMPTY_ROOT_HASH, |account| account.storage_root);
    for &slot in slots {
        let mut entry = StorageProof { slot, value: U256::ZERO, nodes: Vec::new() };
        if storage_root != EMPTY_ROOT_HASH {
            let key = Nibbles::unpack(verify::keccak256(&slot.to_be_bytes::<32>()));
            let (value, nodes) = prove(nodes, Some(owner), &key)?;
            entry.nodes = nodes;
            entry.value = match value {
                None => U256::ZERO,
                Some(value) => alloy_rlp::decode_exact(&value).map_err(|_| {
                    let what = "storage word cannot be decoded";
                    TrieError::Damaged { what, owner: Some(owner), path: key }
                })?,
            };
        }
        proof.storage.push(entry);
    }
    Ok(proof)
}

/// A value, and the RLP of the nodes on the path to its key.
type Proved = (Option<Bytes>, Vec<Bytes>);

/// Returns the value of `key` and the RLP of the existing nodes on the path to it, in a non-empty trie. Nodes
/// that are embedded in their parent are not listed again.
pub(super) fn prove<N: NodeRead>(
    nodes: &N,
    owner: Option<B256>,
    key: &Nibbles,
) -> Result<Proved, TrieError<N::Error>> {
    let mut proof = Vec::new();
    let value = value(nodes, owner, key, |path, node| {
        let branch = match node {
            Node::Leaf(leaf) => return push(&mut proof, |out| leaf.encode_rlp(out)),
            Node::Branch(branch) => branch,
        };
        let mut rlp = Vec::new();
        branch.encode_rlp(&mut rlp);
        if !branch.prefix.is_empty() {
            let reference = reference_of(&rlp);
            push(&mut proof, |out| encode_extension(out, &branch.prefix, &reference));
        }
        let base = path.join(&branch.prefix);
        if !key.starts_with(&base) {
            return;
        }
        push(&mut proof, |out| out.extend_from_slice(&rlp));
        if let Some(Child::Leaf(leaf)) = branch.child(key.get_unchecked(base.len())) {
            push(&mut proof, |out| leaf.encode_rlp(out));
        }
    })?;
    Ok((value, proof))
}

/// Adds a node unless it is embedded in its parent. The root is always added.
fn push(proof: &mut Vec<Bytes>, encode: impl FnOnce(&mut Vec<u8>)) {
    let mut rlp = Vec::new();
    encode(&mut rlp);
    if rlp.len() >= 32 || proof.is_empty() {
        proof.push(rlp.into());
    }
}
