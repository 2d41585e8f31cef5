//! Execute: executes blocks on their parent's state.
//!
//! Input: imported blocks with their senders in order, proposals to produce a block, requests from block clients,
//! and reports from seal: the hashes of produced blocks, and the verdicts on given ones.
//! Output: executed blocks, undos, rebuilds and choices.
//! State: the execution head, the hashes of the last 256 blocks, recently used accounts and slots, unfinished
//! blocks; for blocks before Byzantium, whose receipts contain state roots, also a separate trie.
//! Limits: one block; the maximum number of unfinished blocks; the caches of recent state have a fixed size.
//! Back-pressure: stops taking blocks.
//!
//! A block can be produced while its parent is being sealed. The parent's hash is filled in at the end, or the block
//! is postponed until the hash is known (see [`evm::ParentUnknown`]).

mod branches;
mod head;
mod roots;
mod undo;

use super::{
    batch::{ExecutedBlock, FromSeal, InOrder, Origin, Proposal, RecoveredBlock},
    branch::BlockRequest,
    fault::{BlockFault, BlockReason, Fault},
    meter::Meter,
    modules_block::{ModulesBlock, ModulesOutcome},
    next::{NextBlock, Tried, TryBounds, try_all},
    received::{self, ReceivedError, ReceivedParts},
    reorder::Reorder,
    ring::{Inbox, Outbox},
    stage::{HOUSEKEEPING, Progress, Stage},
    undo_floor::UndoFloor,
};
use alloy_consensus::Header;
use alloy_eips::eip4895::Withdrawals;
use alloy_primitives::{B256, Bytes};
use branches::{Unfinished, UnfinishedBlock};
use chain::{
    ChainSpec, Fork, HeaderError, Violation, block::Block, validate_body, validate_header,
    validate_ommers,
};
use evm::{
    BlockBuilder, BlockInput, Executed, ExecutionCaches, ExecutionError, ParentUnknown, StateError,
    execute_block, put_parent_hash,
};
use head::ExecutionHead;
use home::HomeError;
use roots::ReceiptRoots;
use state::{LayerId, Published, RecentReader, RecentState, StateReader, View};
use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use storage::{BlockFlags, ReadError, StateChanges};
use transactions::{RecoveredTx, cosmos};

/// The stage; see the module documentation.
#[derive(Debug)]
pub(super) struct Execute {
    spec: Arc<ChainSpec>,
    head: ExecutionHead,
    recent: RecentState,
    flushed: Arc<AtomicU64>,
    blocks: Inbox<RecoveredBlock>,
    reorder: Reorder<RecoveredBlock>,
    roots: ReceiptRoots,
    proposals: Inbox<Proposal>,
    headers: Inbox<FromSeal>,
    requests: Inbox<BlockRequest>,
    /// The request that is being answered, for example one that waits until every executed block is durable.
    request: Option<BlockRequest>,
    /// Given and built blocks that have not been chosen yet.
    unfinished: Unfinished,
    /// A block that was built on request and is being sealed. Other requests wait for its hash.
    being_built: Option<UnfinishedBlock>,
    /// Blocks that the later stages must drop, identified by their post-states: those that seal has refused, with
    /// their descendants, and built blocks that are equal to an unfinished one.
    refused: Vec<LayerId>,
    floor: UndoFloor,
    published: Published,
    /// Set when the pipeline must shut down.
    stop: Arc<AtomicBool>,
    /// A block that waits for the hash of the execution head.
    deferred: Option<Deferred>,
    out: Outbox<InOrder<ExecutedBlock>>,
    meter: Arc<Meter>,
}

/// A block whose parent, the execution head, does not have a hash yet.
#[derive(Debug)]
enum Deferred {
    /// The block was executed. Only the parent's hash is missing.
    Produced(Box<ProducedBlock>),
    /// The execution ended because a transaction reads the parent's hash.
    Postponed(Proposal),
}

/// The initial state of the stage.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) spec: Arc<ChainSpec>,
    /// The caches shared by all executions; `None` in plain mode.
    pub(super) caches: Option<Arc<ExecutionCaches>>,
    /// Caches of recently used state, empty at the start.
    pub(super) recent: RecentState,
    /// The last flushed block.
    pub(super) flushed: Arc<AtomicU64>,
    /// Maximum memory of the trie for state roots in receipts.
    pub(super) trie_cache_bytes: u64,
    /// The newest durable block.
    pub(super) published: Published,
    pub(super) floor: UndoFloor,
    pub(super) stop: Arc<AtomicBool>,
}

/// The ring ends of the stage.
#[derive(Debug)]
pub(super) struct Ports {
    pub(super) blocks: Inbox<RecoveredBlock>,
    pub(super) proposals: Inbox<Proposal>,
    pub(super) headers: Inbox<FromSeal>,
    pub(super) requests: Inbox<BlockRequest>,
    pub(super) out: Outbox<InOrder<ExecutedBlock>>,
}

/// A produced block, without its parent's hash.
#[derive(Debug)]
struct ProducedBlock {
    header: Header,
    txs: Vec<Arc<RecoveredTx>>,
    /// Candidates left out, each with the reason.
    skipped: Vec<(B256, String)>,
    executed: Executed,
    modules_outcome: Option<ModulesOutcome>,
    flags: BlockFlags,
}

impl Execute {
    /// Creates the stage at the head of `view`.
    pub(super) fn new(
        context: Context,
        view: &View,
        ports: Ports,
        meter: Arc<Meter>,
    ) -> Result<Self, HomeError> {
        let Context { spec, caches, recent, flushed, trie_cache_bytes, published, floor, stop } =
            context;
        let Ports { blocks, proposals, headers, requests, out } = ports;
        let head = ExecutionHead::load(view, caches)?;
        Ok(Self {
            spec,
            head,
            recent,
            flushed,
            blocks,
            reorder: Reorder::new(),
            roots: ReceiptRoots::new(trie_cache_bytes),
            proposals,
            headers,
            requests,
            request: None,
            unfinished: Unfinished::default(),
            being_built: None,
            refused: Vec::new(),
            floor,
            published,
            stop,
            deferred: None,
            out,
            meter,
        })
    }

    /// Validates an imported or given block, and executes it or uses the results that were received with it.
    fn execute_imported(
        &mut self,
        imported: RecoveredBlock,
        origin: Origin,
    ) -> Result<ExecutedBlock, Fault> {
        let (number, hash) = (imported.block.header.number, imported.block.hash);
        let refused = |reason: BlockReason| BlockFault { number, hash, reason };
        let block = &imported.block;
        self.check(block).map_err(refused)?;
        let broken = |violation| refused(HeaderError { number, violation }.into());
        let modules_block = ModulesBlock::of(&self.spec, self.head.modules.as_deref(), number);
        self.check_modules(modules_block.as_ref(), block).map_err(broken)?;
        let txs = imported
            .txs
            .map_err(|(index, text)| refused(BlockReason::Transaction { index, text }))?;
        let unit = self.spec.token_unit(number);
        let txs: Vec<_> = txs.into_iter().map(|tx| tx.in_unit(unit)).collect();
        let state = self.head.state.reader()?;
        if let Some(received) = imported.received {
            return self.apply_received((imported.block, origin), txs, *received, &state);
        }
        let carries_roots = self.carries_roots(&block.header);
        let unreadable = |source| refused(ExecutionError::State { number, source }.into());
        self.roots.follow(carries_roots, &self.head).map_err(unreadable)?;
        let state_root = |changes: &StateChanges| self.roots.root_after(changes);
        let input = BlockInput {
            header: &block.header,
            transactions: &txs,
            ommers: &block.ommers,
            withdrawals: block.withdrawals.as_ref().map(|list| list.as_slice()),
        };
        let modules = modules_block.as_ref().map(ModulesBlock::modules);
        let recent = RecentReader::new(&mut self.recent, &state)?;
        let executed = execute_block(&self.spec, &recent, &self.head, &state_root, modules, &input);
        let mut executed = executed.map_err(|error| refused(error.into()))?;
        let modules_outcome = self.spec.native().zip(modules_block);
        let modules_outcome = modules_outcome.map(|(native, modules_block)| {
            modules_block.end(native, txs.iter().map(|tx| tx.sender), &mut executed)
        });
        if let Some(modules_outcome) = &modules_outcome {
            modules_outcome.check(&block.header).map_err(broken)?;
        }
        let executed =
            self.advance(imported.block, origin, txs, Vec::new(), executed, modules_outcome);
        // Update the trie now rather than at the next block. By then the index may have overtaken it and replaced
        // records that the trie has not loaded.
        self.roots.follow(carries_roots, &self.head).map_err(unreadable)?;
        Ok(executed)
    }

    /// Uses the results that were received with a block, whose header, body and transactions have been checked.
    fn apply_received(
        &mut self,
        (block, origin): (Block, Origin),
        txs: Vec<Arc<RecoveredTx>>,
        mut received: ReceivedParts,
        state: &StateReader,
    ) -> Result<ExecutedBlock, Fault> {
        let (number, hash) = (block.header.number, block.hash);
        let refused = |error: ReceivedError| BlockFault { number, hash, reason: error.into() };
        let header = &block.header;
        let fork = self.spec.fork(number, header.timestamp, header.difficulty.is_zero());
        let executed = received::executed(&txs, &mut received, fork, state).map_err(refused)?;
        let outcome = match self.head.modules.as_deref() {
            Some(before) => received::modules_outcome(
                &self.spec,
                before,
                &block.header,
                &executed.senders,
                &received,
            )
            .map_err(refused)?,
            None => None,
        };
        let executed = self.advance(block, origin, txs, Vec::new(), executed, outcome);
        Ok(ExecutedBlock { is_received: true, ..executed })
    }

    /// Checks the header of an imported block against the fee market.
    fn check_modules(
        &self,
        modules_block: Option<&ModulesBlock>,
        block: &Block,
    ) -> Result<(), Violation> {
        match self.spec.native().zip(modules_block) {
            Some((native, modules_block)) => modules_block.check(native, &block.header),
            None => Ok(()),
        }
    }

    /// Returns whether the receipts contain the state root after their transaction, as they did before Byzantium.
    fn carries_roots(&self, header: &Header) -> bool {
        let merged = header.difficulty.is_zero();
        self.spec.fork(header.number, header.timestamp, merged) < Fork::Byzantium
    }

    /// Checks everything that can be checked without executing the block.
    fn check(&self, block: &Block) -> Result<(), BlockReason> {
        let header = &block.header;
        validate_header(&self.spec, &self.head.parent(), header)?;
        validate_body(&self.spec, header, &block.body())?;
        validate_ommers(&self.spec, &self.head.ancestors(), header, &block.ommers)?;
        Ok(())
    }

    /// Executes a proposal, even if the parent's hash is not known yet.
    ///
    /// # Panics
    /// If the proposal does not have the number of the next block.
    fn build(&mut self, proposal: &Proposal) -> Result<ProducedBlock, ExecutionError> {
        let (parent, modules) = (self.head.parent(), self.head.modules.as_deref());
        let mut next = NextBlock::after(&self.spec, &parent, modules, proposal.timestamp);
        assert_eq!(proposal.number, next.header.number, "a proposal builds on the head");
        if let Some(beneficiary) = proposal.beneficiary {
            next.header.beneficiary = beneficiary;
        }
        if let Some(settings) = &proposal.settings {
            next.set_header(&settings.header);
        }
        let unreadable = |error: ReadError| ExecutionError::State {
            number: proposal.number,
            source: StateError::new(error),
        };
        let state = self.head.state.reader().map_err(unreadable)?;
        let recent = RecentReader::new(&mut self.recent, &state).map_err(unreadable)?;
        let (modules, header) = (next.modules(), &next.header);
        let mut builder = if self.head.hash.is_some() {
            BlockBuilder::start(&self.spec, &recent, &self.head, modules, header)?
        } else {
            BlockBuilder::start_before_parent(&self.spec, &recent, &self.head, modules, header)?
        };
        if let Some(settings) = &proposal.settings {
            builder.set_accounts(&settings.accounts)?;
        }
        let Tried { txs, skipped } = try_all(&mut builder, &proposal.txs, &TryBounds::NONE)?;
        let mut executed = builder.finish(&[], None)?;
        let (header, modules_outcome) =
            next.end(&self.spec, txs.iter().map(|tx| tx.sender), &mut executed);
        let flags = proposal.settings.as_ref().map(|settings| settings.flags()).unwrap_or_default();
        let flags = flags.with(BlockFlags::IMPERSONATED, self.has_impersonated(&txs));
        Ok(ProducedBlock { header, txs, skipped, executed, modules_outcome, flags })
    }

    fn has_impersonated(&self, txs: &[Arc<RecoveredTx>]) -> bool {
        self.spec.is_development() && txs.iter().any(|tx| tx.is_impersonated())
    }

    /// Produces a block. Returns `None` if it must wait for the parent's hash.
    fn propose(&mut self, proposal: Proposal) -> Result<Option<ExecutedBlock>, Fault> {
        let produced = match self.build(&proposal) {
            Ok(produced) => produced,
            Err(error) if ParentUnknown::is_reason(&error) => {
                self.deferred = Some(Deferred::Postponed(proposal));
                return Ok(None);
            }
            Err(error) => {
                let (number, hash) = (proposal.number, self.head.hash.unwrap_or_default());
                return Err(BlockFault { number, hash, reason: error.into() }.into());
            }
        };
        if let Some(hash) = self.head.hash {
            return Ok(Some(self.complete(produced, hash, Origin::Produced)));
        }
        self.deferred = Some(Deferred::Produced(Box::new(produced)));
        Ok(None)
    }

    /// Continues with the deferred block once the parent's hash is known.
    fn resume(&mut self) -> Result<Option<ExecutedBlock>, Fault> {
        let Some(hash) = self.head.hash else { return Ok(None) };
        match self.deferred.take() {
            None => Ok(None),
            Some(Deferred::Produced(produced)) => {
                Ok(Some(self.complete(*produced, hash, Origin::Produced)))
            }
            Some(Deferred::Postponed(proposal)) => self.propose(proposal),
        }
    }

    /// Sets the parent's hash in the header and in the state changes.
    fn complete(
        &mut self,
        produced: ProducedBlock,
        parent_hash: B256,
        origin: Origin,
    ) -> ExecutedBlock {
        let ProducedBlock { header, txs, skipped, mut executed, modules_outcome, flags } = produced;
        put_parent_hash(&mut executed.changes, header.number, parent_hash);
        let block = Block {
            transactions: txs.iter().map(|tx| tx.raw.clone()).collect(),
            withdrawals: header.withdrawals_root.map(|_| Withdrawals::default()),
            header: Header { parent_hash, ..header },
            ..Block::default()
        };
        let executed = self.advance(block, origin, txs, skipped, executed, modules_outcome);
        ExecutedBlock { flags, ..executed }
    }

    /// Takes the next imported block in sequence, if it has arrived.
    fn next_imported(&mut self) -> Option<RecoveredBlock> {
        if let Some(block) = self.blocks.take() {
            self.reorder.put(block.seq, block);
        }
        self.reorder.take()
    }

    /// Moves the execution head to the executed block.
    fn advance(
        &mut self,
        block: Block,
        origin: Origin,
        txs: Vec<Arc<RecoveredTx>>,
        skipped: Vec<(B256, String)>,
        mut executed: Executed,
        modules_outcome: Option<ModulesOutcome>,
    ) -> ExecutedBlock {
        let changes = mem::take(&mut executed.changes);
        let further = cosmos::further_hashes(txs.iter().map(|tx| &tx.raw));
        let hashes = txs.iter().map(|tx| tx.hash).chain(further).collect();
        let layer = Arc::new(self.head.state.next_layer(changes, hashes));
        if !origin.is_unfinished() {
            self.recent.apply(&layer);
        }
        let flushed = self.flushed.load(Ordering::Acquire);
        let after = self.head.state.with_layer(Arc::clone(&layer), flushed);
        self.head.state = after.clone();
        self.head.modules =
            modules_outcome.as_ref().map(|modules_outcome| Arc::clone(&modules_outcome.modules));
        if origin.is_made_here() {
            self.head.build_on(Arc::new(block.header.clone()));
        } else {
            self.head.extend(&block);
        }
        self.meter.count_sent(txs.len());
        ExecutedBlock {
            block,
            origin,
            flags: BlockFlags::NONE,
            is_received: false,
            certificate: None,
            txs: Arc::new(txs),
            skipped,
            executed,
            after,
            layer,
            modules_outcome,
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

    fn wake_after(&self) -> Duration {
        if self.request.is_some() { undo::DURABLE_WAIT } else { HOUSEKEEPING }
    }

    fn step(&mut self) -> Result<Progress, Fault> {
        while let Some(sealed) = self.headers.take() {
            match sealed {
                FromSeal::Sealed(sealed) => self.head.seal(sealed),
                FromSeal::Built(sealed) => self.finish_build(sealed),
                FromSeal::Accepted(hash) => self.unfinished.set_sealed(hash),
                FromSeal::NotBuilt => {
                    let block = self.being_built.take();
                    self.refused.extend(block.map(|block| block.layer.id()));
                }
                FromSeal::Refused(hash) => {
                    self.refused.extend(self.unfinished.remove_branch(hash));
                }
            }
        }
        if !self.out.ready() {
            return Ok(Progress::Blocked);
        }
        if !self.refused.is_empty() {
            // The later stages still hold data of these blocks.
            self.out.send(InOrder::Drop(mem::take(&mut self.refused)));
            return Ok(Progress::Worked);
        }
        if let Some(executed) = self.resume()? {
            self.out.send(InOrder::Block(executed));
            return Ok(Progress::Worked);
        }
        if self.request.is_none() {
            self.request = self.requests.take();
        }
        if self.deferred.is_none()
            && self.being_built.is_none()
            && let Some(request) = self.request.take()
        {
            return self.answer(request);
        }
        if self.deferred.is_some() {
            // If seal has ended, no hash will arrive.
            let over = self.headers.is_finished();
            return Ok(if over { Progress::Finished } else { Progress::Idle });
        }
        if self.head.hash.is_some()
            && let Some(block) = self.next_imported()
        {
            self.meter.count_received(block.block.transactions.len());
            let executed = self.execute_imported(block, Origin::Imported)?;
            self.out.send(InOrder::Block(executed));
            return Ok(Progress::Worked);
        }
        if let Some(proposal) = self.proposals.take() {
            if proposal.parent != self.head.state.id() {
                // Its parent has been undone.
                return Ok(Progress::Worked);
            }
            self.meter.count_received(proposal.txs.len());
            if let Some(executed) = self.propose(proposal)? {
                self.out.send(InOrder::Block(executed));
            }
            return Ok(Progress::Worked);
        }
        if self.head.hash.is_some() && self.blocks.depth() > 0 {
            return Ok(Progress::Worked);
        }
        let over = self.blocks.is_finished()
            && !self.reorder.has_next()
            && self.proposals.is_finished()
            && (self.requests.is_finished() || self.stop.load(Ordering::Relaxed));
        Ok(if over { Progress::Finished } else { Progress::Idle })
    }
}
