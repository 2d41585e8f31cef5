//! Seal: computes the roots of a block, and compares them with an imported header or completes a produced
//! one.
//!
//! Input: executed blocks with their fees, in order.
//! Output: finished blocks for commit, hashes of produced blocks for execute, and checkpoints of the trie for
//! flush.
//! State: the trie of the newest executed state.
//! Limits: one block; the trie's memory (`storage.trie-cache-bytes`) and what flush has not written of it, at
//! most two checkpoints and the changes since.
//! Back-pressure: takes no block.

use super::{
    batch::{ExecutedBlock, SealedBlock, SealedHeader},
    fault::{BlockFault, BlockReason, Fault},
    meter::Meter,
    ring::{Inbox, Outbox},
    stage::{Progress, Stage},
};
use alloy_consensus::Header;
use alloy_primitives::{B256, Bytes};
use chain::block::Block;
use evm::{Executed, ExecutionError, StateError, complete_header, validate_executed};
use state::{Head, StateTrie, View, called};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use storage::{BlockRecord, ChainDb, PostingKey, TrieCheckpoint};

/// Time until a checkpoint of changes if it is cheap or the stage is idle.
const CHECKPOINT_PATIENCE: Duration = Duration::from_secs(1);
/// Number of records below which a checkpoint is cheap: some 10 ms of this stage.
const CHECKPOINT_CHEAP: usize = 1 << 14;

/// The stage; see the module documentation.
#[derive(Debug)]
pub(super) struct Seal {
    trie: StateTrie,
    chain: ChainDb,
    ports: Ports,
    /// When the trie first changed after its last checkpoint.
    changed: Option<Instant>,
    /// When the last block arrived.
    busy: Instant,
    meter: Arc<Meter>,
}

/// The ring ends of the stage.
#[derive(Debug)]
pub(super) struct Ports {
    pub(super) priced: Inbox<ExecutedBlock>,
    pub(super) sealed: Outbox<SealedBlock>,
    pub(super) headers: Outbox<SealedHeader>,
    pub(super) checkpoints: Outbox<TrieCheckpoint>,
    /// The block of the last checkpoint in the index.
    pub(super) written: Arc<AtomicU64>,
}

impl Seal {
    /// Creates the stage at the head of `view`, which must be the state of the trie.
    pub(super) fn new(view: &View, trie: StateTrie, ports: Ports, meter: Arc<Meter>) -> Self {
        let now = Instant::now();
        Self { trie, chain: view.chain.clone(), ports, changed: None, busy: now, meter }
    }

    fn seal(&mut self, mut block: ExecutedBlock) -> Result<SealedBlock, Fault> {
        let number = block.block.header.number;
        let state_root = self.trie.update(block.layer.changes()).map_err(|error| {
            let source = StateError::new(error);
            let reason = ExecutionError::State { number, source }.into();
            BlockFault { number, hash: block.block.hash, reason }
        })?;
        if block.produced {
            complete(&mut block.block, &block.executed, state_root);
        } else {
            let checked = validate_executed(&block.block.header, &block.executed, state_root);
            checked.map_err(|error| BlockFault {
                number,
                hash: block.block.hash,
                reason: BlockReason::Header(error),
            })?;
        }
        let header = Arc::new(block.block.header.clone());
        if block.produced {
            let header = Arc::clone(&header);
            self.ports.headers.send(SealedHeader { hash: block.block.hash, header });
        }
        let receipts = &block.executed.receipts;
        let called =
            called(std::mem::take(&mut block.executed.named).into_iter(), block.layer.changes());
        let posting_keys = PostingKey::of_block(receipts, called);
        block.layer.seal(block.block.hash, posting_keys);
        Ok(self.finish(block, header))
    }

    /// A checkpoint is due when much has changed; after some time, if it is cheap or the stage is idle; and
    /// at the end.
    fn is_checkpoint_due(&self) -> bool {
        let Some(since) = self.changed else { return false };
        if self.trie.is_checkpoint_due() || self.ports.priced.is_finished() {
            return true;
        }
        let cheap = self.trie.dirty() <= CHECKPOINT_CHEAP;
        let idle = || self.busy.elapsed() >= CHECKPOINT_PATIENCE;
        self.trie.is_written() && since.elapsed() >= CHECKPOINT_PATIENCE && (cheap || idle())
    }

    fn checkpoint(&mut self) {
        self.changed = None;
        if let Some(checkpoint) = self.trie.checkpoint() {
            self.ports.checkpoints.send(checkpoint);
        }
    }

    fn finish(&self, block: ExecutedBlock, header: Arc<Header>) -> SealedBlock {
        let modules_outcome = block.modules_outcome;
        let modules =
            modules_outcome.as_ref().map(|modules_outcome| Arc::clone(&modules_outcome.modules));
        let record = BlockRecord {
            number: header.number,
            hash: block.block.hash,
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
        };
        let head =
            Head { hash: block.block.hash, header, next_base_fee: block.next_base_fee, modules };
        let view = View { head, state: block.after, chain: self.chain.clone() };
        SealedBlock { record, view, layer: block.layer }
    }
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
            self.checkpoint();
            return Ok(Progress::Worked);
        }
        let Some(block) = self.ports.priced.take() else {
            let over = self.ports.priced.is_finished() && self.ports.checkpoints.ready();
            return Ok(if over { Progress::Finished } else { Progress::Idle });
        };
        self.meter.take(1);
        let sealed = self.seal(block)?;
        self.ports.sealed.send(sealed);
        self.busy = Instant::now();
        if self.trie.dirty() > 0 {
            self.changed.get_or_insert(self.busy);
        }
        self.meter.give(1);
        Ok(Progress::Worked)
    }
}
