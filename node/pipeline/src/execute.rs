//! Execute: runs blocks on the state before them.
//!
//! Takes given blocks with their senders, in order, proposals to build a block, and the hashes of
//! blocks built here.
//! Gives executed blocks.
//! State: the tip it executes on, the hashes of the last 256 blocks, recently used accounts and
//! slots; before Byzantium, where receipts carry state roots, a trie of its own.
//! Bound: one block; the tables of recent state have a fixed size.
//! When full: takes no block.
//!
//! A block is built while its parent is being sealed: the parent's hash is asked for at the end, or
//! the block is put off until it is there (see [`evm::ParentUnknown`]).

mod head;
mod roots;

use super::{
    batch::{ExecutedBlock, Proposal, RecoveredBlock, SealedHeader},
    fault::{BlockFault, BlockReason, Fault},
    meter::Meter,
    modules_block::{Turn, Turned},
    next::{NextBlock, Tried, TryBounds, try_all},
    reorder::Reorder,
    ring::{Inbox, Outbox},
    stage::{Progress, Stage},
};
use alloy_consensus::Header;
use alloy_eips::eip4895::Withdrawals;
use alloy_primitives::{B256, Bytes};
use chain::{
    ChainSpec, Fork, HeaderError, Violation, block::Block, validate_body, validate_header,
    validate_ommers,
};
use evm::{
    BlockBuilder, BlockInput, Executed, ExecutionError, ParentUnknown, StateError, execute_block,
    put_parent_hash,
};
use head::Tip;
use home::HomeError;
use roots::ReceiptRoots;
use state::{Layer, RecentReader, RecentState, View};
use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use storage::{ReadError, StateChanges, trie::TRIE_CACHE_BYTES_DEFAULT};
use transactions::{RecoveredTx, cosmos};

/// See the module.
#[derive(Debug)]
pub(super) struct Execute {
    spec: Arc<ChainSpec>,
    tip: Tip,
    recent: RecentState,
    flushed: Arc<AtomicU64>,
    blocks: Inbox<RecoveredBlock>,
    reorder: Reorder<RecoveredBlock>,
    roots: ReceiptRoots,
    proposals: Inbox<Proposal>,
    headers: Inbox<SealedHeader>,
    /// Waits for the hash of the tip.
    early: Option<Early>,
    out: Outbox<ExecutedBlock>,
    meter: Arc<Meter>,
}

/// A block to build on a tip that has no hash yet.
#[derive(Debug)]
enum Early {
    /// Executed, but for the hash.
    Built(Box<Built>),
    /// A transaction asked for the hash.
    PutOff(Proposal),
}

/// The stage's ends of rings.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) blocks: Inbox<RecoveredBlock>,
    pub(super) proposals: Inbox<Proposal>,
    pub(super) headers: Inbox<SealedHeader>,
    pub(super) out: Outbox<ExecutedBlock>,
}

/// A block built on the tip, whose hash is still to be put in if it was not known.
#[derive(Debug)]
struct Built {
    header: Header,
    txs: Vec<Arc<RecoveredTx>>,
    /// Transactions left out, with the reason.
    skipped: Vec<(B256, String)>,
    executed: Executed,
    turned: Option<Turned>,
}

impl Execute {
    /// The stage at the head of `view`.
    pub(super) fn new(
        spec: Arc<ChainSpec>,
        view: &View,
        recent: RecentState,
        flushed: Arc<AtomicU64>,
        ends: Ends,
        meter: Arc<Meter>,
    ) -> Result<Self, HomeError> {
        let Ends { blocks, proposals, headers, out } = ends;
        let tip = Tip::load(view)?;
        Ok(Self {
            spec,
            tip,
            recent,
            flushed,
            blocks,
            reorder: Reorder::new(),
            roots: ReceiptRoots::new(TRIE_CACHE_BYTES_DEFAULT),
            proposals,
            headers,
            early: None,
            out,
            meter,
        })
    }

    /// Bounds the memory of the trie for roots in receipts.
    pub(super) fn with_trie_cache(mut self, bytes: u64) -> Self {
        self.roots = ReceiptRoots::new(bytes);
        self
    }

    /// Checks and executes a given block.
    fn execute_given(&mut self, given: RecoveredBlock) -> Result<ExecutedBlock, Fault> {
        let (number, hash) = (given.block.header.number, given.block.hash);
        let refused = |reason: BlockReason| BlockFault { number, hash, reason };
        let block = &given.block;
        self.check(block).map_err(refused)?;
        let broken = |violation| refused(HeaderError { number, violation }.into());
        let turn = Turn::of(&self.spec, self.tip.modules.as_deref(), number);
        self.check_turn(turn.as_ref(), block).map_err(broken)?;
        let txs =
            given.txs.map_err(|(index, text)| refused(BlockReason::Transaction { index, text }))?;
        let unit = self.spec.token_unit(number);
        let txs: Vec<_> = txs.into_iter().map(|tx| tx.in_unit(unit)).collect();
        let state = self.tip.state.reader()?;
        let carries_roots = self.carries_roots(&block.header);
        let unreadable = |source| refused(ExecutionError::State { number, source }.into());
        self.roots.follow(carries_roots, &self.tip).map_err(unreadable)?;
        let state_root = |changes: &StateChanges| self.roots.root_after(changes);
        let input = BlockInput {
            header: &block.header,
            transactions: &txs,
            ommers: &block.ommers,
            withdrawals: block.withdrawals.as_ref().map(|list| list.as_slice()),
        };
        let modules = turn.as_ref().map(Turn::modules);
        let recent = RecentReader::new(&mut self.recent, &state)?;
        let executed = execute_block(&self.spec, &recent, &self.tip, &state_root, modules, &input);
        let mut executed = executed.map_err(|error| refused(error.into()))?;
        let turned = self.spec.native().zip(turn);
        let turned = turned.map(|(native, turn)| turn.end(native, &mut executed));
        if let Some(turned) = &turned {
            turned.check(&block.header).map_err(broken)?;
        }
        let executed = self.advance(given.block, false, txs, Vec::new(), executed, turned);
        // Now and not with the next block: the index may be ahead of the trie by then, and have moved the
        // records that it has not loaded.
        self.roots.follow(carries_roots, &self.tip).map_err(unreadable)?;
        Ok(executed)
    }

    /// Holds a given header to the fee market.
    fn check_turn(&self, turn: Option<&Turn>, block: &Block) -> Result<(), Violation> {
        match self.spec.native().zip(turn) {
            Some((native, turn)) => turn.check(native, &block.header),
            None => Ok(()),
        }
    }

    /// Receipts before Byzantium carry the state root after their transaction.
    fn carries_roots(&self, header: &Header) -> bool {
        let merged = header.difficulty.is_zero();
        self.spec.fork(header.number, header.timestamp, merged) < Fork::Byzantium
    }

    /// Everything that can be checked before execution.
    fn check(&self, block: &Block) -> Result<(), BlockReason> {
        let header = &block.header;
        validate_header(&self.spec, &self.tip.parent(), header)?;
        validate_body(&self.spec, header, &block.body())?;
        validate_ommers(&self.spec, &self.tip.ancestors(), header, &block.ommers)?;
        Ok(())
    }

    /// Tries to build a block from a proposal, with the tip's hash or before it is known.
    ///
    /// # Panics
    /// If the proposal builds on another block than the tip.
    fn build(&mut self, proposal: &Proposal) -> Result<Built, ExecutionError> {
        let (parent, modules) = (self.tip.parent(), self.tip.modules.as_deref());
        let next = NextBlock::after(&self.spec, &parent, modules, proposal.timestamp);
        assert_eq!(proposal.number, next.header.number, "a proposal builds on the tip");
        let unreadable = |error: ReadError| ExecutionError::State {
            number: proposal.number,
            source: StateError::new(error),
        };
        let state = self.tip.state.reader().map_err(unreadable)?;
        let recent = RecentReader::new(&mut self.recent, &state).map_err(unreadable)?;
        let (modules, header) = (next.modules(), &next.header);
        let mut builder = if self.tip.hash.is_some() {
            BlockBuilder::start(&self.spec, &recent, &self.tip, modules, header)?
        } else {
            BlockBuilder::start_early(&self.spec, &recent, &self.tip, modules, header)?
        };
        let Tried { txs, skipped } = try_all(&mut builder, &proposal.txs, &TryBounds::NONE)?;
        let mut executed = builder.finish(&[], None)?;
        let (header, turned) = next.end(&self.spec, &mut executed);
        Ok(Built { header, txs, skipped, executed, turned })
    }

    /// Builds a block, or as much of it as the tip lets.
    fn propose(&mut self, proposal: Proposal) -> Result<Option<ExecutedBlock>, Fault> {
        let built = match self.build(&proposal) {
            Ok(built) => built,
            Err(error) if ParentUnknown::is_reason(&error) => {
                self.early = Some(Early::PutOff(proposal));
                return Ok(None);
            }
            Err(error) => {
                let (number, hash) = (proposal.number, self.tip.hash.unwrap_or_default());
                return Err(BlockFault { number, hash, reason: error.into() }.into());
            }
        };
        if let Some(hash) = self.tip.hash {
            return Ok(Some(self.complete(built, hash)));
        }
        self.early = Some(Early::Built(Box::new(built)));
        Ok(None)
    }

    /// Goes on with what waited for the tip's hash, once that is there.
    fn resume(&mut self) -> Result<Option<ExecutedBlock>, Fault> {
        let Some(hash) = self.tip.hash else { return Ok(None) };
        match self.early.take() {
            None => Ok(None),
            Some(Early::Built(built)) => Ok(Some(self.complete(*built, hash))),
            Some(Early::PutOff(proposal)) => self.propose(proposal),
        }
    }

    /// Puts the parent's hash where it belongs.
    fn complete(&mut self, built: Built, parent_hash: B256) -> ExecutedBlock {
        let Built { header, txs, skipped, mut executed, turned } = built;
        put_parent_hash(&mut executed.changes, header.number, parent_hash);
        let block = Block {
            transactions: txs.iter().map(|tx| tx.raw.clone()).collect(),
            withdrawals: header.withdrawals_root.map(|_| Withdrawals::default()),
            header: Header { parent_hash, ..header },
            ..Block::default()
        };
        self.advance(block, true, txs, skipped, executed, turned)
    }

    /// The next given block, once it is there.
    fn next_given(&mut self) -> Option<RecoveredBlock> {
        if let Some(block) = self.blocks.take() {
            self.reorder.put(block.seq, block);
        }
        self.reorder.take()
    }

    /// Moves the tip to the executed block.
    fn advance(
        &mut self,
        block: Block,
        built: bool,
        txs: Vec<Arc<RecoveredTx>>,
        skipped: Vec<(B256, String)>,
        mut executed: Executed,
        turned: Option<Turned>,
    ) -> ExecutedBlock {
        let changes = mem::take(&mut executed.changes);
        self.recent.apply(block.header.number, &changes);
        let further = cosmos::further_hashes(txs.iter().map(|tx| &tx.raw));
        let hashes = txs.iter().map(|tx| tx.hash).chain(further).collect();
        let layer = Arc::new(Layer::new(block.header.number, changes, hashes));
        let flushed = self.flushed.load(Ordering::Acquire);
        let after = self.tip.state.with_layer(Arc::clone(&layer), flushed);
        self.tip.state = after.clone();
        self.tip.modules = turned.as_ref().map(|turned| Arc::clone(&turned.modules));
        if built {
            self.tip.build_on(Arc::new(block.header.clone()));
        } else {
            self.tip.extend(&block);
        }
        self.meter.give(txs.len());
        ExecutedBlock {
            block,
            built,
            txs: Arc::new(txs),
            skipped,
            executed,
            after,
            layer,
            turned,
            next_base_fee: 0,
            fee_row: Bytes::new(),
        }
    }
}

impl Stage for Execute {
    fn name(&self) -> &'static str {
        "execute"
    }

    fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    fn step(&mut self) -> Result<Progress, Fault> {
        while let Some(sealed) = self.headers.take() {
            self.tip.seal(sealed);
        }
        if !self.out.ready() {
            return Ok(Progress::Blocked);
        }
        if let Some(executed) = self.resume()? {
            self.out.send(executed);
            return Ok(Progress::Worked);
        }
        if self.early.is_some() {
            // Without seal no hash will come.
            let over = self.headers.is_finished();
            return Ok(if over { Progress::Finished } else { Progress::Idle });
        }
        if self.tip.hash.is_some()
            && let Some(block) = self.next_given()
        {
            self.meter.take(block.block.transactions.len());
            let executed = self.execute_given(block)?;
            self.out.send(executed);
            return Ok(Progress::Worked);
        }
        if let Some(proposal) = self.proposals.take() {
            self.meter.take(proposal.txs.len());
            if let Some(executed) = self.propose(proposal)? {
                self.out.send(executed);
            }
            return Ok(Progress::Worked);
        }
        if self.tip.hash.is_some() && self.blocks.depth() > 0 {
            return Ok(Progress::Worked);
        }
        let over =
            self.blocks.is_finished() && !self.reorder.has_next() && self.proposals.is_finished();
        Ok(if over { Progress::Finished } else { Progress::Idle })
    }
}
