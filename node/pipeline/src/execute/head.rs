//! The execution head: the block that execution builds on, and the data of its ancestors that validity rules need.

use crate::batch::SealedHeader;
use alloy_consensus::Header;
use alloy_primitives::{B256, U256};
use chain::{Ancestor, MAX_OMMER_DEPTH, Parent, block::Block};
use evm::{ExecutionCaches, ExecutionHost, PARENT_UNKNOWN, ParentUnknown, StateError};
use home::{HomeError, stored_header};
use modules::Modules;
use state::{StateView, View};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};
use storage::{ChainDb, ChainReader};

/// Number of ancestors that the BLOCKHASH instruction can access.
const HASHES: u64 = 256;

/// The execution head; see the module documentation.
#[derive(Clone, Debug)]
pub(super) struct ExecutionHead {
    /// The header. It lacks roots and bloom while the hash is not known.
    pub(super) header: Arc<Header>,
    /// The hash; `None` for a produced block that is not sealed yet.
    pub(super) hash: Option<B256>,
    pub(super) state: StateView,
    /// The modules of a native chain after the head.
    pub(super) modules: Option<Arc<Modules>>,
    total_difficulty: U256,
    /// The newest ancestors, newest first. Stored only while blocks can have ommers.
    ancestors: VecDeque<Ancestor>,
    /// Hashes of the newest blocks, which may not be durable yet; older ones are read from the chain.
    hashes: BTreeMap<u64, B256>,
    pub(super) chain: ChainDb,
    caches: Option<Arc<ExecutionCaches>>,
}

impl ExecutionHead {
    /// Loads the execution head at the head of a view.
    pub(super) fn load(
        view: &View,
        caches: Option<Arc<ExecutionCaches>>,
    ) -> Result<Self, HomeError> {
        let blocks = view.blocks()?;
        let header = Arc::clone(&view.head.header);
        let mined = !header.difficulty.is_zero();
        let mut total_difficulty = U256::ZERO;
        let mut ancestors = VecDeque::new();
        if mined || header.number == 0 {
            for number in 0..=header.number {
                total_difficulty += stored_header(&blocks, number)?.1.difficulty;
            }
            let first = (header.number + 1).saturating_sub(MAX_OMMER_DEPTH as u64);
            for number in first..=header.number {
                ancestors.push_front(stored_ancestor(&blocks, number)?);
            }
        }
        Ok(Self {
            hash: Some(view.head.hash),
            state: view.state.clone(),
            modules: view.head.modules.clone(),
            hashes: BTreeMap::from([(header.number, view.head.hash)]),
            total_difficulty,
            ancestors,
            header,
            chain: view.chain.db().clone(),
            caches,
        })
    }

    pub(super) fn parent(&self) -> Parent<'_> {
        let hash = self.hash.unwrap_or(PARENT_UNKNOWN);
        Parent { header: &self.header, hash, total_difficulty: self.total_difficulty }
    }

    pub(super) fn ancestors(&self) -> Vec<Ancestor> {
        self.ancestors.iter().cloned().collect()
    }

    /// Moves to an imported block.
    pub(super) fn extend(&mut self, block: &Block) {
        self.total_difficulty = self.total_difficulty.saturating_add(block.header.difficulty);
        if block.header.difficulty.is_zero() {
            self.ancestors.clear();
        } else {
            self.ancestors.push_front(ancestor(block));
            self.ancestors.truncate(MAX_OMMER_DEPTH);
        }
        self.header = Arc::new(block.header.clone());
        self.set_hash(block.hash);
    }

    /// Moves to a produced block, whose hash is not known yet.
    pub(super) fn build_on(&mut self, header: Arc<Header>) {
        self.header = header;
        self.hash = None;
    }

    /// Returns the caches shared by all executions, which another head is loaded with.
    pub(super) fn caches(&self) -> Option<Arc<ExecutionCaches>> {
        self.caches.clone()
    }

    /// Stores the sealed header of the head.
    ///
    /// # Panics
    /// If the header is not that of the head, or the head is already sealed.
    pub(super) fn seal(&mut self, sealed: SealedHeader) {
        let waited_for = self.hash.is_none() && sealed.state == self.state.id();
        assert!(waited_for, "block {} is not the one being sealed", sealed.header.number);
        self.header = sealed.header;
        self.set_hash(sealed.hash);
    }

    fn set_hash(&mut self, hash: B256) {
        self.hash = Some(hash);
        self.hashes.insert(self.header.number, hash);
        let oldest = self.header.number.saturating_sub(HASHES);
        self.hashes = self.hashes.split_off(&oldest);
    }
}

impl ExecutionHost for ExecutionHead {
    fn block_hash(&self, number: u64) -> Result<Option<B256>, StateError> {
        if let Some(hash) = self.hashes.get(&number) {
            return Ok(Some(*hash));
        }
        if number == self.header.number && self.hash.is_none() {
            return Err(ParentUnknown.into());
        }
        let blocks = self.chain.reader().map_err(StateError::new)?;
        blocks.hash(number).map_err(StateError::new)
    }

    fn caches(&self) -> Option<&ExecutionCaches> {
        self.caches.as_deref()
    }
}

fn ancestor(block: &Block) -> Ancestor {
    Ancestor {
        hash: block.hash,
        header: block.header.clone(),
        ommers: block.ommers.iter().map(Header::hash_slow).collect(),
    }
}

fn stored_ancestor(blocks: &ChainReader, number: u64) -> Result<Ancestor, HomeError> {
    let damaged = |reason: String| HomeError::Damaged { number, reason };
    let (hash, header) = stored_header(blocks, number)?;
    let body = blocks.body(number)?.ok_or_else(|| damaged("its body is missing".to_owned()))?;
    let block = Block::from_parts(hash, &alloy_rlp::encode(&header), &body)
        .map_err(|error| damaged(error.to_string()))?;
    Ok(ancestor(&block))
}
