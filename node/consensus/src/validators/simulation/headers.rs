//! The chain of a simulated node: headers without bodies.

use super::{MAX_BLOCK_BYTES, authority};
use crate::validators::application::{CertifiedBlock, Chain, Contradiction};
use alloy_consensus::Header;
use alloy_primitives::{Address, B256, Bytes, U256, map::B256Map};
use certificates::{BlockId, Certificate};
use chain::block::Block;
use commonware_cryptography::ed25519::PublicKey;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

/// What is wrong with the blocks that a validator proposes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The nodes of all other validators reject the block as invalid.
    Invalid,
    /// The block number is not the number of the parent plus one.
    Number,
    /// The parent hash in the header is not that of the parent of the proposal.
    Parent,
    /// The timestamp is an hour ahead.
    Timestamp,
    /// The encoded block is longer than the limit.
    Size,
    /// Another validator is named as the proposer.
    Proposer,
}

/// Maximum error of the clocks of validators.
pub(super) const HOUR: Duration = Duration::from_secs(3_600);
/// Extra data of an invalid block.
const INVALID: &[u8] = b"invalid";

impl Fault {
    fn put_into(self, header: &mut Header) {
        match self {
            Self::Invalid => header.extra_data = INVALID.into(),
            Self::Number => header.number += 1,
            Self::Parent => header.parent_hash = B256::ZERO,
            Self::Timestamp => header.timestamp += HOUR.as_secs(),
            Self::Size => header.extra_data = vec![0; MAX_BLOCK_BYTES].into(),
            Self::Proposer => header.beneficiary = Address::ZERO,
        }
    }
}

/// A chain of headers, as the node of one validator has it.
#[derive(Clone, Debug)]
pub(super) struct Headers(Arc<Mutex<HeadersState>>);

#[derive(Debug, Default)]
pub(super) struct HeadersState {
    /// Headers of the blocks that were built or checked, even if they were invalid, and of the final ones.
    pub(super) known: B256Map<Header>,
    /// The final blocks, by number.
    pub(super) chain: BTreeMap<u64, B256>,
    /// The account of this validator.
    account: Address,
    /// Distinguishes the blocks of this validator.
    salt: u64,
    /// How far the clock of this validator is ahead of that of the runtime. It starts an hour ahead, so that it can be
    /// set back.
    pub(super) ahead: Duration,
    /// What is wrong with the blocks that this validator proposes.
    fault: Option<Fault>,
    /// Number of faulty blocks that this validator has proposed.
    pub(super) faulty_proposals: usize,
    /// Contradicting votes that this validator has seen.
    pub(super) contradictions: Vec<Contradiction>,
    /// How many final blocks had a certificate.
    pub(super) certified: usize,
    /// The newest block with a certificate.
    newest_certified: Option<CertifiedBlock>,
}

pub(super) fn encode(header: &Header) -> Bytes {
    let body = Block { header: header.clone(), ..Block::default() };
    chain::block::join(&alloy_rlp::encode(header), &body.encode_body()).into()
}

pub(super) fn genesis() -> Header {
    Header { timestamp: 1, ..Header::default() }
}

/// The account that a block names as its proposer.
fn account(key: B256) -> Address {
    Address::from_word(key)
}

impl Headers {
    pub(super) fn new(key: &PublicKey, salt: u64) -> Self {
        let account = account(B256::from_slice(key.as_ref()));
        let state = HeadersState { account, salt, ahead: HOUR, ..HeadersState::default() };
        let header = genesis();
        let this = Self(Arc::new(Mutex::new(state)));
        this.with(|state| {
            let hash = header.hash_slow();
            state.chain.insert(0, hash);
            state.known.insert(hash, header);
        });
        this
    }

    pub(super) fn with<T>(&self, f: impl FnOnce(&mut HeadersState) -> T) -> T {
        f(&mut self.0.lock().unwrap())
    }

    /// Makes this validator propose blocks with this fault from now on.
    pub(super) fn misbehave(&self, fault: Fault) {
        self.with(|state| state.fault = Some(fault));
    }

    pub(super) fn newest_timestamp(&self) -> u64 {
        self.with(|state| state.known[state.chain.last_key_value().unwrap().1].timestamp)
    }

    /// Copies the final blocks of another node.
    pub(super) fn copy(&self, other: &Self) {
        let (known, chain, certified, newest) = other.with(|state| {
            let newest = state.newest_certified.clone();
            (state.known.clone(), state.chain.clone(), state.certified, newest)
        });
        self.with(|state| {
            (state.known, state.chain, state.certified) = (known, chain, certified);
            state.newest_certified = newest;
        });
    }

    /// Changes a signature of the newest certificate.
    pub(super) fn damage_certificate(&self) {
        self.with(|state| {
            let certified = state.newest_certified.as_mut().expect("there is a certificate");
            let mut bytes = certified.certificate.to_vec();
            *bytes.last_mut().expect("it ends with a signature") ^= 1;
            certified.certificate = bytes.into();
        });
    }

    /// Removes the newest certificate, as if the blocks had been imported from a file.
    pub(super) fn remove_certificate(&self) {
        self.with(|state| state.newest_certified = None);
    }

    /// Forgets the blocks that are not final, as in a crash.
    pub(super) fn forget(&self) {
        self.with(|state| {
            let chain: Vec<B256> = state.chain.values().copied().collect();
            state.known.retain(|hash, _| chain.contains(hash));
        });
    }
}

impl Chain for Headers {
    fn head(&self) -> u64 {
        self.with(|state| *state.chain.last_key_value().unwrap().0)
    }

    fn newest_certified(&self) -> Option<CertifiedBlock> {
        self.with(|state| state.newest_certified.clone())
    }

    fn now(&self, clock: SystemTime) -> SystemTime {
        self.with(|state| clock + state.ahead)
    }

    async fn build(&self, parent: B256, timestamp: u64) -> Option<Bytes> {
        self.with(|state| {
            let before = state.known.get(&parent)?;
            state.salt += 1_000;
            let mut header = Header {
                parent_hash: parent,
                number: before.number + 1,
                timestamp,
                difficulty: U256::from(state.salt),
                beneficiary: state.account,
                ..Header::default()
            };
            if let Some(fault) = state.fault {
                fault.put_into(&mut header);
                state.faulty_proposals += 1;
            }
            state.known.insert(header.hash_slow(), header.clone());
            Some(encode(&header))
        })
    }

    fn contradicted(&self, contradiction: Contradiction) {
        self.with(|state| state.contradictions.push(contradiction));
    }

    async fn outgoing_transactions(&self) -> Bytes {
        std::future::pending().await
    }

    async fn incoming_transactions(&self, _: Bytes) {}

    async fn knows(&self, block: B256) -> bool {
        self.with(|state| state.known.contains_key(&block))
    }

    async fn check(&self, block: Bytes, proposer: B256) -> bool {
        let header = Block::decode(&block).unwrap().header;
        self.with(|state| {
            let Some(parent) = state.known.get(&header.parent_hash) else {
                panic!("block {} was checked before its parent", header.number);
            };
            let valid = parent.number + 1 == header.number
                && parent.timestamp <= header.timestamp
                && header.beneficiary == account(proposer)
                && *header.extra_data != *INVALID;
            state.known.insert(header.hash_slow(), header);
            valid
        })
    }

    async fn finalize(&self, block: Bytes, certificate: Option<Bytes>) {
        assert!(block.len() <= MAX_BLOCK_BYTES, "a final block of {} bytes", block.len());
        let header = Block::decode(&block).unwrap().header;
        assert!(
            header.number == 0 || !header.beneficiary.is_zero(),
            "a block without a proposer is final"
        );
        assert_ne!(*header.extra_data, *INVALID, "block {} is final", header.number);
        self.with(|state| {
            let (number, hash) = (header.number, header.hash_slow());
            if let Some(certificate) = certificate {
                let decoded = Certificate::decode(&certificate).unwrap();
                authority().verify(BlockId { number, hash }, &decoded).unwrap();
                state.certified += 1;
                state.newest_certified = Some(CertifiedBlock { block, certificate });
            }
            if let Some(known) = state.chain.get(&number) {
                assert_eq!(*known, hash, "two final blocks {number}");
                return;
            }
            assert_eq!(state.chain[&(number - 1)], header.parent_hash);
            state.chain.insert(number, hash);
            state.known.insert(hash, header);
        });
    }
}
