//! The block that execution builds on, with what validity rules look back at.

use crate::{
    block::Block,
    chain::{Ancestor, MAX_OMMER_DEPTH, Parent},
    execution::{BlockHashes, StateError},
    home::{HomeError, stored_header},
    modules::Modules,
    view::{Head, StateView, View},
};
use alloy_consensus::Header;
use alloy_primitives::{B256, U256};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};
use storage::{ChainDb, ChainReader};

/// How far back the BLOCKHASH instruction sees.
const HASHES: u64 = 256;

/// See the module.
#[derive(Debug)]
pub(super) struct Tip {
    pub(super) header: Arc<Header>,
    pub(super) hash: B256,
    pub(super) state: StateView,
    /// State root after the tip; of a built tip, once the next proposal tells it.
    pub(super) state_root: B256,
    /// The modules of a native chain after the tip.
    pub(super) modules: Option<Arc<Modules>>,
    total_difficulty: U256,
    /// Newest first. Kept only while there can be ommers.
    ancestors: VecDeque<Ancestor>,
    /// Hashes of blocks that may not be durable yet; older ones are read from the chain.
    hashes: BTreeMap<u64, B256>,
    pub(super) chain: ChainDb,
}

impl Tip {
    /// The tip at the head of a view.
    pub(super) fn load(view: &View) -> Result<Self, HomeError> {
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
            hash: view.head.hash,
            state: view.state.clone(),
            modules: view.head.modules.clone(),
            state_root: header.state_root,
            hashes: BTreeMap::from([(header.number, view.head.hash)]),
            total_difficulty,
            ancestors,
            header,
            chain: view.chain.clone(),
        })
    }

    pub(super) fn parent(&self) -> Parent<'_> {
        Parent { header: &self.header, hash: self.hash, total_difficulty: self.total_difficulty }
    }

    pub(super) fn ancestors(&self) -> Vec<Ancestor> {
        self.ancestors.iter().cloned().collect()
    }

    /// Moves on to a given block.
    pub(super) fn extend(&mut self, block: &Block) {
        self.total_difficulty = self.total_difficulty.saturating_add(block.header.difficulty);
        if block.header.difficulty.is_zero() {
            self.ancestors.clear();
        } else {
            self.ancestors.push_front(ancestor(block));
            self.ancestors.truncate(MAX_OMMER_DEPTH);
        }
        self.header = Arc::new(block.header.clone());
        self.hash = block.hash;
        self.state_root = block.header.state_root;
        self.remember();
    }

    /// Learns the sealed header of the tip, which execution built without its roots.
    ///
    /// # Panics
    /// If the proposal builds on another block than the tip.
    pub(super) fn follow(&mut self, head: &Head) {
        let next = self.state.next();
        assert_eq!(head.header.number + 1, next, "a proposal builds on the tip");
        self.header = Arc::clone(&head.header);
        self.hash = head.hash;
        self.state_root = head.header.state_root;
        self.remember();
    }

    fn remember(&mut self) {
        self.hashes.insert(self.header.number, self.hash);
        let oldest = self.header.number.saturating_sub(HASHES);
        self.hashes = self.hashes.split_off(&oldest);
    }
}

impl BlockHashes for Tip {
    fn block_hash(&self, number: u64) -> Result<Option<B256>, StateError> {
        if let Some(hash) = self.hashes.get(&number) {
            return Ok(Some(*hash));
        }
        let blocks = self.chain.reader().map_err(StateError::new)?;
        blocks.hash(number).map_err(StateError::new)
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
