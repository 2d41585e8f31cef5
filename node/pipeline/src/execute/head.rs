//! The block that execution builds on, with what validity rules look back at.

use crate::batch::SealedHeader;
use alloy_consensus::Header;
use alloy_primitives::{B256, U256};
use chain::{Ancestor, MAX_OMMER_DEPTH, Parent, block::Block};
use evm::{BlockHashes, PARENT_UNKNOWN, ParentUnknown, StateError};
use home::{HomeError, stored_header};
use modules::Modules;
use state::{StateView, View};
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
    /// Without roots and bloom while its hash is not known.
    pub(super) header: Arc<Header>,
    /// Of a block built here, once seal tells it.
    pub(super) hash: Option<B256>,
    pub(super) state: StateView,
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
            hash: Some(view.head.hash),
            state: view.state.clone(),
            modules: view.head.modules.clone(),
            hashes: BTreeMap::from([(header.number, view.head.hash)]),
            total_difficulty,
            ancestors,
            header,
            chain: view.chain.clone(),
        })
    }

    pub(super) fn parent(&self) -> Parent<'_> {
        let hash = self.hash.unwrap_or(PARENT_UNKNOWN);
        Parent { header: &self.header, hash, total_difficulty: self.total_difficulty }
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
        self.learn(block.hash);
    }

    /// Moves on to a block built here, whose hash is not known yet.
    pub(super) fn build_on(&mut self, header: Arc<Header>) {
        self.header = header;
        self.hash = None;
    }

    /// Learns the sealed header of the tip.
    ///
    /// # Panics
    /// If it is another block than the tip, or the tip was sealed before.
    pub(super) fn seal(&mut self, sealed: SealedHeader) {
        let waited_for = self.hash.is_none() && sealed.header.number == self.header.number;
        assert!(waited_for, "block {} is not the one being sealed", sealed.header.number);
        self.header = sealed.header;
        self.learn(sealed.hash);
    }

    fn learn(&mut self, hash: B256) {
        self.hash = Some(hash);
        self.hashes.insert(self.header.number, hash);
        let oldest = self.header.number.saturating_sub(HASHES);
        self.hashes = self.hashes.split_off(&oldest);
    }
}

impl BlockHashes for Tip {
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
