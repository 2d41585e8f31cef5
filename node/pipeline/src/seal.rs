//! Seal: computes the roots of a block, and either compares them with the header of an imported block or completes
//! the header of a produced one.
//!
//! Input: executed blocks with their fees, in order.
//! Output: for commit, finished blocks; for execute, headers of produced blocks and verdicts on given ones; for
//! flush, checkpoints of the trie.
//! State: the trie after the last sealed block; given and built blocks that have not been chosen yet.
//! Limits: one block; [`MAX_UNFINISHED_BLOCKS`]; the trie's memory (`storage.trie-cache-bytes`), and the part of the
//! trie that flush has not written yet, which is at most two checkpoints and the changes since.
//! Back-pressure: stops taking blocks.

use super::{
    batch::{ExecutedBlock, FromSeal, InOrder, Origin, SealedBlock, SealedHeader},
    branch::{BuildError, BuiltAnswer, Choice, GiveError, MAX_UNFINISHED_BLOCKS, VerdictAnswer},
    fault::{BlockFault, BlockReason, Fault},
    meter::Meter,
    ring::{Inbox, Outbox},
    stage::{Progress, Stage},
    undo::Undo,
};
use alloy_consensus::Header;
use alloy_primitives::{B256, Bytes};
use chain::block::Block;
use evm::{
    Executed, ExecutionError, StateError, complete_header, validate_executed, validate_received,
};
use state::{ChainView, Head, LayerId, StateTrie, StateView, View, called};
use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use storage::{BlockRecord, ChainDb, PostingKey, ReadError, TrieCheckpoint, trie::TrieError};

/// Time from the first change after a checkpoint to the next checkpoint, if that is cheap or the stage is idle.
const CHECKPOINT_DELAY: Duration = Duration::from_secs(1);
/// Maximum number of records of a cheap checkpoint, which takes some 10 ms of this stage.
const CHEAP_CHECKPOINT_RECORDS: usize = 1 << 14;

/// The stage; see the module documentation.
#[derive(Debug)]
pub(super) struct Seal {
    trie: StateTrie,
    /// Maximum bytes of memory of the trie.
    trie_bytes: u64,
    /// The index is being rebuilt, and the trie must not be used until the undo that follows.
    is_paused: bool,
    /// The state that the trie holds.
    state: StateView,
    /// The state after the last block of the chain.
    finished: StateView,
    /// Given and built blocks that have not been chosen yet, by their post-states.
    unfinished: HashMap<LayerId, SealedBlock>,
    /// The post-states of refused blocks, newest last. Children of these blocks may still arrive.
    refused: VecDeque<LayerId>,
    /// Chosen blocks that have not been sent yet, each group followed by its choice.
    chosen: VecDeque<InOrder<SealedBlock>>,
    chain: ChainDb,
    ports: Ports,
    /// The time at which the trie first changed after its last checkpoint.
    changed: Option<Instant>,
    /// The time at which the last block or undo arrived.
    busy: Instant,
    meter: Arc<Meter>,
}

/// The ring ends of the stage.
#[derive(Debug)]
pub(super) struct Ports {
    pub(super) priced: Inbox<InOrder<ExecutedBlock>>,
    pub(super) sealed: Outbox<InOrder<SealedBlock>>,
    pub(super) headers: Outbox<FromSeal>,
    pub(super) checkpoints: Outbox<TrieCheckpoint>,
    /// Block number of the last checkpoint in the index.
    pub(super) written: Arc<AtomicU64>,
    /// Whether flush keeps the newest blocks out of the index.
    pub(super) keeps_back: bool,
}

impl Seal {
    /// Creates the stage at the head of `view`. The trie must be at the state of the view.
    pub(super) fn new(
        view: &View,
        trie: StateTrie,
        trie_bytes: u64,
        ports: Ports,
        meter: Arc<Meter>,
    ) -> Self {
        let now = Instant::now();
        let (state, chain) = (view.state.clone(), view.chain.db().clone());
        Self {
            trie,
            trie_bytes,
            is_paused: false,
            finished: state.clone(),
            state,
            unfinished: HashMap::new(),
            refused: VecDeque::new(),
            chosen: VecDeque::new(),
            chain,
            ports,
            changed: None,
            busy: now,
            meter,
        }
    }

    /// Computes the roots of a block. If the block was given or imported, compares them with its header; otherwise,
    /// completes the header with them.
    ///
    /// # Errors
    /// [`SealError::Invalid`] if they differ. The trie then still holds the state after the block.
    fn seal(&mut self, mut block: ExecutedBlock) -> Result<SealedBlock, SealError> {
        self.follow(&block)?;
        let (number, hash) = (block.block.header.number, block.block.hash);
        let state_root = self.trie.update(block.layer.changes());
        let state_root = state_root.map_err(|error| unreadable(number, hash, error))?;
        self.state = block.after.clone();
        let is_made_here = block.origin.is_made_here();
        if is_made_here {
            complete(&mut block.block, &block.executed, state_root);
        } else {
            let validate = if block.is_received { validate_received } else { validate_executed };
            let checked = validate(&block.block.header, &block.executed, state_root);
            checked.map_err(|error| {
                let reason = BlockReason::Header(error);
                SealError::Invalid(BlockFault { number, hash, reason })
            })?;
        }
        let header = Arc::new(block.block.header.clone());
        if is_made_here {
            let header = Arc::clone(&header);
            let (state, hash) = (block.layer.id(), block.block.hash);
            let sealed = SealedHeader { state, hash, header };
            self.ports.headers.send(match block.origin {
                Origin::Built(_) => FromSeal::Built(sealed),
                _ => FromSeal::Sealed(sealed),
            });
        }
        let receipts = &block.executed.receipts;
        let called =
            called(std::mem::take(&mut block.executed.named).into_iter(), block.layer.changes());
        let posting_keys = PostingKey::of_block(receipts, called);
        block.layer.seal(block.block.hash, posting_keys);
        Ok(self.finish(block, header))
    }

    /// Seals a given block, and keeps it until it is chosen.
    fn seal_given(&mut self, block: ExecutedBlock, answer: &VerdictAnswer) -> Result<(), Fault> {
        let (number, hash, state) = (block.block.header.number, block.block.hash, block.layer.id());
        let parent = block.block.header.parent_hash;
        if self.refused.contains(&block.layer.parent()) {
            self.refuse(state);
            answer.give(Err(GiveError::UnknownParent(parent)));
            return Ok(());
        }
        let before = before(&block);
        match self.seal(block) {
            Ok(sealed) => {
                self.unfinished.insert(state, sealed);
                self.ports.headers.send(FromSeal::Accepted(hash));
                answer.give(Ok(()));
                Ok(())
            }
            Err(SealError::Invalid(fault)) => {
                self.move_to(before, number, hash)?;
                self.refuse(state);
                self.ports.headers.send(FromSeal::Refused(hash));
                answer.give(Err(GiveError::Invalid(fault)));
                Ok(())
            }
            Err(SealError::Fault(fault)) => Err(fault),
        }
    }

    /// Seals a block that was built on request, and keeps it until it is chosen.
    fn seal_built(&mut self, block: ExecutedBlock, answer: &BuiltAnswer) -> Result<(), Fault> {
        let (state, parent) = (block.layer.id(), block.block.header.parent_hash);
        if self.refused.contains(&block.layer.parent()) {
            self.refuse(state);
            self.ports.headers.send(FromSeal::NotBuilt);
            answer.give(Err(BuildError::UnknownParent(parent)));
            return Ok(());
        }
        let transactions = block.block.transactions.clone();
        let withdrawals = block.block.withdrawals.clone();
        let sealed = self.seal(block).map_err(SealError::into_fault)?;
        let (hash, header) = (sealed.record.hash, (*sealed.view.head.header).clone());
        self.unfinished.insert(state, sealed);
        answer.give(Ok(Block { hash, header, transactions, withdrawals, ..Block::default() }));
        Ok(())
    }

    /// Remembers the post-state of a refused block.
    fn refuse(&mut self, state: LayerId) {
        self.refused.push_back(state);
        if self.refused.len() > MAX_UNFINISHED_BLOCKS {
            self.refused.pop_front();
        }
    }

    /// Moves the trie to the parent of a block.
    fn follow(&mut self, block: &ExecutedBlock) -> Result<(), Fault> {
        if block.layer.parent() == self.state.id() {
            return Ok(());
        }
        self.move_to(before(block), block.block.header.number, block.block.hash)
    }

    /// Moves the trie to another state; `number` and `hash` identify the block that needs it.
    fn move_to(&mut self, state: StateView, number: u64, hash: B256) -> Result<(), Fault> {
        let moved = self.trie.move_to(&self.state, &state);
        moved.map_err(|error| unreadable(number, hash, error))?;
        self.state = state;
        Ok(())
    }

    /// Queues chosen blocks for commit, and drops the blocks that do not descend from them.
    ///
    /// If the trie is on another branch, it moves to the last chosen block now: flush may write the chosen blocks
    /// before the next one arrives, and the layers between the two branches would then no longer be available.
    fn choose(&mut self, choice: Arc<Choice>) -> Result<(), Fault> {
        for state in &choice.chosen {
            let block = self.unfinished.remove(state).expect("execute chooses known blocks");
            self.finished = block.view.state.clone();
            self.chosen.push_back(InOrder::Block(block));
        }
        self.forget(&choice.dropped);
        self.chosen.push_back(InOrder::Choose(choice));
        if !self.state.descends_from(&self.finished) {
            self.move_to(self.finished.clone(), self.finished_number(), B256::ZERO)?;
        }
        Ok(())
    }

    fn forget(&mut self, dropped: &[LayerId]) {
        dropped.iter().for_each(|state| drop(self.unfinished.remove(state)));
    }

    /// Returns the trie to the state of an earlier block.
    ///
    /// # Panics
    /// If the resulting state root is not that of the block.
    fn undo(&mut self, undo: &Undo) -> Result<(), Fault> {
        let Head { hash, header, .. } = &undo.view.head;
        if std::mem::take(&mut self.is_paused) {
            self.open_trie(&undo.view)?;
        } else {
            self.move_to(undo.view.state.clone(), header.number, *hash)?;
        }
        let root = self.trie.state_root();
        assert_eq!(root, header.state_root, "the state root after an undo to block {hash}");
        self.finished = self.state.clone();
        self.forget(&undo.dropped);
        self.changed = None;
        Ok(())
    }

    /// Opens the trie at the state of a view whose index was rebuilt.
    fn open_trie(&mut self, view: &View) -> Result<(), Fault> {
        let opened = StateTrie::open_at(&view.state, &view.blocks()?, self.trie_bytes);
        self.trie = opened.map_err(|error| unreadable(view.number(), view.head.hash, error))?;
        self.state = view.state.clone();
        Ok(())
    }

    /// Returns whether a checkpoint is due: when much has changed; after some time, if it is cheap or the stage is
    /// idle; and at the end.
    fn is_checkpoint_due(&self) -> bool {
        // A checkpoint of a block that flush keeps back would not be written.
        let is_last = self.ports.priced.is_finished() && !self.ports.keeps_back;
        if self.is_paused || self.changed.is_none() && !is_last {
            return false;
        }
        let written = self.ports.written.load(Ordering::Acquire);
        if self.finished_number() <= self.trie.pending_checkpoint().unwrap_or(written) {
            // After an undo to the block of the last checkpoint, unchanged records may count as changed.
            return false;
        }
        // The last checkpoint is due even if no record has changed since the previous one. Otherwise, the next start
        // would replay the blocks in between.
        if is_last || self.trie.is_checkpoint_due() {
            return true;
        }
        let Some(since) = self.changed else { return false };
        let cheap = self.trie.dirty() <= CHEAP_CHECKPOINT_RECORDS;
        let idle = || self.busy.elapsed() >= CHECKPOINT_DELAY;
        self.trie.is_written() && since.elapsed() >= CHECKPOINT_DELAY && (cheap || idle())
    }

    /// Returns the number of the last block of the chain.
    const fn finished_number(&self) -> u64 {
        self.finished.next().saturating_sub(1)
    }

    /// Records the time of an arrival, and the time of the first change since the last checkpoint.
    fn note_changes(&mut self) {
        self.busy = Instant::now();
        if self.trie.dirty() > 0 {
            self.changed.get_or_insert(self.busy);
        }
    }

    /// Sends a checkpoint of the last block of the chain.
    fn checkpoint(&mut self) -> Result<(), Fault> {
        let finished = self.finished.clone();
        let number = self.finished_number();
        if self.state.id() != finished.id() {
            self.move_to(finished, number, B256::ZERO)?;
        }
        self.changed = None;
        if let Some(checkpoint) = self.trie.checkpoint() {
            self.ports.checkpoints.send(checkpoint);
        }
        Ok(())
    }

    fn finish(&self, block: ExecutedBlock, header: Arc<Header>) -> SealedBlock {
        let modules_outcome = block.modules_outcome;
        let modules =
            modules_outcome.as_ref().map(|modules_outcome| Arc::clone(&modules_outcome.modules));
        let record = BlockRecord {
            number: header.number,
            hash: block.block.hash,
            flags: block.flags,
            header: alloy_rlp::encode(&*header).into(),
            body: block.block.encode_body(),
            senders: block.executed.senders,
            receipts: block.executed.receipts,
            changes: block.layer.shared_changes(),
            fees: block.fee_row,
            module: modules_outcome
                .as_ref()
                .map_or_else(Bytes::new, |modules_outcome| modules_outcome.record.to_bytes()),
            governance: modules_outcome
                .map_or_else(Vec::new, |modules_outcome| modules_outcome.governance),
            certificate: block.certificate,
        };
        let head =
            Head { hash: block.block.hash, header, next_base_fee: block.next_base_fee, modules };
        let chain = ChainView::new(self.chain.clone(), record.number, record.hash);
        let view = View { head, state: block.after, chain, undone: 0 };
        SealedBlock { record, view, layer: block.layer }
    }
}

/// The reason why a block was not sealed.
enum SealError {
    /// The block is invalid.
    Invalid(BlockFault),
    /// This node failed.
    Fault(Fault),
}

impl From<Fault> for SealError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl SealError {
    /// Converts the error for a block that was not given. If such a block is invalid, the pipeline ends.
    fn into_fault(self) -> Fault {
        match self {
            Self::Invalid(fault) => fault.into(),
            Self::Fault(fault) => fault,
        }
    }
}

/// Returns the state before a block.
fn before(block: &ExecutedBlock) -> StateView {
    block.after.as_of(block.layer.number()).expect("the layer of a block names its parent")
}

fn unreadable(number: u64, hash: B256, error: TrieError<ReadError>) -> Fault {
    let reason = ExecutionError::State { number, source: StateError::new(error) }.into();
    BlockFault { number, hash, reason }.into()
}

/// Completes the header with the results of execution, and sets the hash.
fn complete(block: &mut Block, executed: &Executed, state_root: B256) {
    let mut header = std::mem::take(&mut block.header);
    complete_header(&mut header, executed, state_root, &block.body());
    block.hash = header.hash_slow();
    block.header = header;
}

impl Stage for Seal {
    fn name(&self) -> &'static str {
        "seal"
    }

    fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    fn step(&mut self) -> Result<Progress, Fault> {
        if !self.ports.sealed.ready() || !self.ports.headers.ready() {
            return Ok(Progress::Blocked);
        }
        self.trie.written(self.ports.written.load(Ordering::Acquire));
        if self.is_checkpoint_due() {
            if !self.ports.checkpoints.ready() {
                return Ok(Progress::Blocked);
            }
            self.checkpoint()?;
            return Ok(Progress::Worked);
        }
        if let Some(chosen) = self.chosen.pop_front() {
            self.ports.sealed.send(chosen);
            return Ok(Progress::Worked);
        }
        let block = match self.ports.priced.take() {
            Some(InOrder::Block(block)) => block,
            Some(InOrder::Undo(undo)) => {
                self.undo(&undo)?;
                self.ports.sealed.send(InOrder::Undo(undo));
                self.note_changes();
                return Ok(Progress::Worked);
            }
            Some(InOrder::Rebuild(rebuild)) => {
                self.is_paused = true;
                self.ports.sealed.send(InOrder::Rebuild(rebuild));
                return Ok(Progress::Worked);
            }
            Some(InOrder::Choose(choice)) => {
                self.choose(choice)?;
                return Ok(Progress::Worked);
            }
            Some(InOrder::Drop(dropped)) => {
                self.forget(&dropped);
                return Ok(Progress::Worked);
            }
            None => {
                let over = self.ports.priced.is_finished() && self.ports.checkpoints.ready();
                return Ok(if over { Progress::Finished } else { Progress::Idle });
            }
        };
        self.meter.count_received(1);
        match block.origin.clone() {
            Origin::Given(answer) => self.seal_given(block, &answer)?,
            Origin::Built(answer) => self.seal_built(block, &answer)?,
            Origin::Produced | Origin::Imported => {
                let sealed = self.seal(block).map_err(SealError::into_fault)?;
                self.finished = self.state.clone();
                self.ports.sealed.send(InOrder::Block(sealed));
            }
        }
        self.note_changes();
        self.meter.count_sent(1);
        Ok(Progress::Worked)
    }
}
