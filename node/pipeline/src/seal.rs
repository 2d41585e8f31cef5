//! Seal: computes the roots of a block, and holds a given header to them or completes a built one.
//!
//! Takes executed blocks with their fees, in order.
//! Gives finished blocks to commit, the hash of a block built here to execute, and now and then a
//! checkpoint of the trie to flush.
//! State: the trie of the tip's state.
//! Bound: one block; the trie's memory (`storage.trie-cache-bytes`) and what flush has not written
//! of it, at most two checkpoints and what came since.
//! When full: takes no block.

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

/// How long a change waits for a checkpoint when it costs little, or no block comes.
const CHECKPOINT_PATIENCE: Duration = Duration::from_secs(1);
/// Records that make a checkpoint cheap: some 10 ms of this stage.
const CHECKPOINT_CHEAP: usize = 1 << 14;

/// See the module.
#[derive(Debug)]
pub(super) struct Seal {
    trie: StateTrie,
    chain: ChainDb,
    ends: Ends,
    /// Since when the trie differs from its last checkpoint.
    changed: Option<Instant>,
    /// When the last block came.
    busy: Instant,
    meter: Arc<Meter>,
}

/// What the stage is joined to the others by.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) priced: Inbox<ExecutedBlock>,
    pub(super) sealed: Outbox<SealedBlock>,
    pub(super) headers: Outbox<SealedHeader>,
    pub(super) checkpoints: Outbox<TrieCheckpoint>,
    /// The block of the last checkpoint in the index.
    pub(super) written: Arc<AtomicU64>,
}

impl Seal {
    /// The stage at the head of `view`, whose state the trie is of.
    pub(super) fn new(view: &View, trie: StateTrie, ends: Ends, meter: Arc<Meter>) -> Self {
        let now = Instant::now();
        Self { trie, chain: view.chain.clone(), ends, changed: None, busy: now, meter }
    }

    fn seal(&mut self, mut block: ExecutedBlock) -> Result<SealedBlock, Fault> {
        let number = block.block.header.number;
        let state_root = self.trie.update(block.layer.changes()).map_err(|error| {
            let source = StateError::new(error);
            let reason = ExecutionError::State { number, source }.into();
            BlockFault { number, hash: block.block.hash, reason }
        })?;
        if block.built {
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
        if block.built {
            let header = Arc::clone(&header);
            self.ends.headers.send(SealedHeader { hash: block.block.hash, header });
        }
        let receipts = &block.executed.receipts;
        let called =
            called(std::mem::take(&mut block.executed.named).into_iter(), block.layer.changes());
        let posting_keys = PostingKey::of_block(receipts, called);
        block.layer.seal(block.block.hash, posting_keys);
        Ok(self.finish(block, header))
    }

    /// A checkpoint is due when much has changed; or after a while, when it costs little or nothing
    /// else is to be done; or at the end.
    fn is_checkpoint_due(&self) -> bool {
        let Some(since) = self.changed else { return false };
        if self.trie.is_checkpoint_due() || self.ends.priced.is_finished() {
            return true;
        }
        let cheap = self.trie.dirty() <= CHECKPOINT_CHEAP;
        let idle = || self.busy.elapsed() >= CHECKPOINT_PATIENCE;
        self.trie.is_written() && since.elapsed() >= CHECKPOINT_PATIENCE && (cheap || idle())
    }

    fn checkpoint(&mut self) {
        self.changed = None;
        if let Some(checkpoint) = self.trie.checkpoint() {
            self.ends.checkpoints.send(checkpoint);
        }
    }

    fn finish(&self, block: ExecutedBlock, header: Arc<Header>) -> SealedBlock {
        let turned = block.turned;
        let modules = turned.as_ref().map(|turned| Arc::clone(&turned.modules));
        let record = BlockRecord {
            number: header.number,
            hash: block.block.hash,
            header: alloy_rlp::encode(&*header).into(),
            body: block.block.encode_body(),
            senders: block.executed.senders,
            receipts: block.executed.receipts,
            changes: block.layer.shared_changes(),
            fees: block.fee_row,
            module: turned.as_ref().map_or_else(Bytes::new, |turned| turned.record.to_bytes()),
            governance: turned.map_or_else(Vec::new, |turned| turned.governance),
        };
        let head =
            Head { hash: block.block.hash, header, next_base_fee: block.next_base_fee, modules };
        let view = View { head, state: block.after, chain: self.chain.clone() };
        SealedBlock { record, view, layer: block.layer }
    }
}

/// Fills in what only execution could tell, and the hash.
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
        if !self.ends.sealed.ready() || !self.ends.headers.ready() {
            return Ok(Progress::Blocked);
        }
        self.trie.written(self.ends.written.load(Ordering::Acquire));
        if self.is_checkpoint_due() {
            if !self.ends.checkpoints.ready() {
                return Ok(Progress::Blocked);
            }
            self.checkpoint();
            return Ok(Progress::Worked);
        }
        let Some(block) = self.ends.priced.take() else {
            let over = self.ends.priced.is_finished() && self.ends.checkpoints.ready();
            return Ok(if over { Progress::Finished } else { Progress::Idle });
        };
        self.meter.take(1);
        let sealed = self.seal(block)?;
        self.ends.sealed.send(sealed);
        self.busy = Instant::now();
        if self.trie.dirty() > 0 {
            self.changed.get_or_insert(self.busy);
        }
        self.meter.give(1);
        Ok(Progress::Worked)
    }
}
