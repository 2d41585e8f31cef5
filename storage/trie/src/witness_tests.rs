//! Checks that witnesses are sufficient: the state root after random blocks is computed from their nodes alone.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use alloy_primitives::{B256, Bytes, U256, keccak256};
use alloy_rlp::Decodable;
use alloy_trie::nodes::{BranchNode, RlpNode, TrieNode};
use proptest::prelude::*;

use super::walk::decode_account;
use super::*;
use crate::StateChanges;
use crate::history::{changes_of, step};

/// All records of a state.
#[derive(Default)]
struct Records(TrieUpdates);

impl NodeRead for Records {
    type Error = Infallible;

    fn node(&self, owner: Option<B256>, path: &Nibbles) -> Result<Option<Arc<Node>>, Infallible> {
        Ok(self.0.get(owner, path).flatten().cloned())
    }
}

/// The nodes of a witness and the root that commits to them.
struct Stateless {
    nodes: BTreeMap<B256, Bytes>,
    root: B256,
}

impl Stateless {
    fn new(nodes: Vec<Bytes>, root: B256) -> Self {
        Self { nodes: nodes.into_iter().map(|node| (keccak256(&node), node)).collect(), root }
    }

    fn decode(&self, reference: &RlpNode) -> Option<TrieNode> {
        let rlp = match reference.as_hash() {
            Some(hash) => self.nodes.get(&hash)?.to_vec(),
            None => reference.to_vec(),
        };
        Some(TrieNode::decode(&mut rlp.as_slice()).expect("RLP of a node"))
    }

    /// Returns the record at a path of the trie with this root.
    fn record(&self, root: B256, path: &Nibbles) -> Option<Node> {
        let (mut reference, mut at) = (RlpNode::word_rlp(&root), Nibbles::new());
        loop {
            let mut prefix = Nibbles::new();
            let mut node = self.decode(&reference)?;
            if let TrieNode::Extension(extension) = node {
                if at == *path {
                    prefix = extension.key;
                } else {
                    at = at.join(&extension.key);
                }
                node = self.decode(&extension.child)?;
            }
            match node {
                TrieNode::Branch(branch) if at == *path => {
                    return Some(Node::Branch(self.branch(prefix, &branch)));
                }
                TrieNode::Branch(branch) => {
                    let nibble = path.get(at.len())?;
                    let mask = branch.state_mask.get();
                    reference = branch.stack[super::node::child_index(mask, nibble)?].clone();
                    at.push(nibble);
                }
                TrieNode::Leaf(leaf) => {
                    let (suffix, value) = (leaf.key, leaf.value.into());
                    return Some(Node::Leaf(Leaf { suffix, value, reference }));
                }
                _ => return None,
            }
        }
    }

    fn branch(&self, prefix: Nibbles, branch: &BranchNode) -> Branch {
        let child = |reference: &RlpNode| match self.decode(reference) {
            Some(TrieNode::Leaf(leaf)) => Child::Leaf(Leaf {
                suffix: leaf.key,
                value: leaf.value.into(),
                reference: reference.clone(),
            }),
            _ => Child::Node(reference.clone()),
        };
        let children = branch.stack.iter().map(child).collect();
        Branch { prefix, mask: branch.state_mask.get(), children }
    }
}

impl NodeRead for Stateless {
    type Error = Infallible;

    fn node(&self, owner: Option<B256>, path: &Nibbles) -> Result<Option<Arc<Node>>, Infallible> {
        let root = match owner {
            None => self.root,
            Some(owner) => {
                // The account is in the witness, because its slots are.
                let key = Nibbles::unpack(owner);
                let account =
                    super::walk::value(&AccountTrie(self), None, &key, |_, _| {}).unwrap();
                decode_account::<Infallible>(&key, &account.unwrap()).unwrap().storage_root
            }
        };
        Ok(self.record(root, path).map(Arc::new))
    }
}

/// A view of the account trie only.
struct AccountTrie<'a>(&'a Stateless);

impl NodeRead for AccountTrie<'_> {
    type Error = Infallible;

    fn node(&self, _: Option<B256>, path: &Nibbles) -> Result<Option<Arc<Node>>, Infallible> {
        Ok(self.0.record(self.0.root, path).map(Arc::new))
    }
}

/// Returns the nodes that a block with these changes needs, and the root after it.
fn witness(records: &Records, root: B256, changes: &StateChanges) -> (Vec<Bytes>, B256) {
    let mut witness = Witness::new(records, root);
    for change in &changes.accounts {
        let slots: Vec<U256> = change.slots.iter().map(|(slot, _)| *slot).collect();
        witness.prove(change.address, &slots).unwrap();
    }
    let after = witness.update(changes).unwrap();
    let bytes = witness.bytes();
    let nodes = witness.into_nodes();
    assert_eq!(nodes.iter().map(|node| node.len()).sum::<usize>(), bytes);
    (nodes, after)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn witness_suffices_for_the_root_after_the_block(
        blocks in prop::collection::vec(prop::collection::vec(step(), 0..12), 1..20),
    ) {
        let (mut records, mut root) = (Records::default(), EMPTY_ROOT_HASH);
        for steps in blocks {
            let changes = changes_of(&steps);
            let (nodes, after) = witness(&records, root, &changes);
            let stateless = Stateless::new(nodes, root);
            let (found, _) = update_state_root(&stateless, &changes, root).unwrap();
            prop_assert_eq!(found, after);
            let (same, updates) = update_state_root(&records, &changes, root).unwrap();
            prop_assert_eq!(same, after);
            records.0.extend(&updates);
            root = after;
        }
    }

    #[test]
    fn leaves_are_ascending_from_any_key_on(
        steps in prop::collection::vec(step(), 0..60),
        start in any::<[u8; 32]>(),
        max in 0..50usize,
    ) {
        let (records, changes) = (Records::default(), changes_of(&steps));
        let (root, updates) = update_state_root(&records, &changes, EMPTY_ROOT_HASH).unwrap();
        let records = Records(updates);
        let alive = changes.accounts.iter().filter(|change| change.account.is_some());
        let mut keys: Vec<B256> = alive.map(|change| keccak256(change.address)).collect();
        keys.sort_unstable();
        let starts = [B256::ZERO, B256::new(start), keys.last().copied().unwrap_or_default()];
        for start in starts.into_iter().chain(keys.iter().copied().take(3)) {
            let found = leaves_from(&records, None, root, start, max).unwrap();
            let found: Vec<B256> = found.into_iter().map(|(key, _)| key).collect();
            let expected: Vec<B256> =
                keys.iter().copied().filter(|key| *key >= start).take(max).collect();
            prop_assert_eq!(found, expected);
        }
    }
}

#[test]
fn empty_trie_has_no_leaves_and_missing_root_record_is_an_error() {
    let records = Records::default();
    assert_eq!(leaves_from(&records, None, EMPTY_ROOT_HASH, B256::ZERO, 9).unwrap(), []);
    let owner = Some(B256::repeat_byte(1));
    assert_eq!(leaves_from(&records, owner, EMPTY_ROOT_HASH, B256::ZERO, 9).unwrap(), []);
    let root = B256::repeat_byte(7);
    let error = leaves_from(&records, owner, root, B256::ZERO, 1).unwrap_err();
    assert!(matches!(error, TrieError::MissingNode { .. }), "{error}");
}
