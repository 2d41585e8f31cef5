//! Seal: computes the roots of a block, and holds a given header to them or completes a built one.
//!
//! Takes executed blocks with their fees, in order.
//! Gives finished blocks to commit, and the new tip to the mempool.
//! State: the state root of the tip.
//! Bound: one block.
//! When full: takes no block.

use super::{
    batch::{ExecutedBlock, SealedBlock, Tip},
    bell::Bell,
    fault::{BlockFault, BlockReason, Fault},
    meter::Meter,
    ring::{Inbox, Outbox},
    stage::{Progress, Stage},
};
use crate::{
    block::Block,
    execution::{Executed, ExecutionError, StateError, complete_header, validate_executed},
    view::{Head, View},
};
use alloy_primitives::{B256, Bytes};
use std::sync::Arc;
use storage::{BlockRecord, ChainDb, LogKey, update_state_root};

/// See the module.
#[derive(Debug)]
pub(super) struct Seal {
    parent_root: B256,
    chain: ChainDb,
    priced: Inbox<ExecutedBlock>,
    sealed: Outbox<SealedBlock>,
    tips: Option<Outbox<Tip>>,
    /// Execution waits for sealed tips before Byzantium.
    execute: Bell,
    meter: Arc<Meter>,
}

impl Seal {
    /// The stage at the head of `view`.
    pub(super) fn new(
        view: &View,
        priced: Inbox<ExecutedBlock>,
        sealed: Outbox<SealedBlock>,
        tips: Option<Outbox<Tip>>,
        execute: Bell,
        meter: Arc<Meter>,
    ) -> Self {
        let parent_root = view.head.header.state_root;
        Self { parent_root, chain: view.chain.clone(), priced, sealed, tips, execute, meter }
    }

    fn seal(&mut self, mut block: ExecutedBlock) -> Result<(SealedBlock, Tip), Fault> {
        let number = block.block.header.number;
        let state = block.before.reader()?;
        let updated = update_state_root(&state, block.layer.changes(), self.parent_root);
        let (state_root, trie) = updated.map_err(|error| {
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
        let log_keys = LogKey::of_block(&block.executed.receipts);
        block.layer.seal(block.block.hash, trie, log_keys);
        self.execute.ring();
        self.parent_root = state_root;
        Ok(self.finish(block))
    }

    fn finish(&self, block: ExecutedBlock) -> (SealedBlock, Tip) {
        let header = block.block.header.clone();
        let turned = block.turned;
        let modules = turned.as_ref().map(|turned| Arc::clone(&turned.modules));
        let record = BlockRecord {
            number: header.number,
            hash: block.block.hash,
            header: alloy_rlp::encode(&header).into(),
            body: block.block.encode_body(),
            senders: block.txs.iter().map(|tx| tx.sender).collect(),
            receipts: block.executed.receipts,
            changes: block.layer.changes().clone(),
            fees: block.fee_row,
            module: turned.map_or_else(Bytes::new, |turned| turned.record.to_bytes()),
        };
        let head = Head {
            hash: block.block.hash,
            header: Arc::new(header),
            next_base_fee: block.next_base_fee,
            modules,
        };
        let view = View { head, state: block.after, chain: self.chain.clone() };
        let tip = Tip { view: view.clone(), included: block.txs, skipped: block.skipped };
        (SealedBlock { record, view, layer: block.layer }, tip)
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
        let tips_ready = self.tips.as_mut().is_none_or(Outbox::ready);
        if !self.sealed.ready() || !tips_ready {
            return Ok(Progress::Blocked);
        }
        let Some(block) = self.priced.take() else {
            let over = self.priced.is_finished();
            return Ok(if over { Progress::Finished } else { Progress::Idle });
        };
        self.meter.take(1);
        let (sealed, tip) = self.seal(block)?;
        if let Some(tips) = &mut self.tips {
            tips.send(tip);
        }
        self.sealed.send(sealed);
        self.meter.give(1);
        Ok(Progress::Worked)
    }
}
