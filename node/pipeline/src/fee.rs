//! Fee: updates the fee market after a block.
//!
//! Input: executed blocks, in order.
//! Output: the same blocks with the next base fee and the fee-history row, and head updates for the mempool. The
//! update of an unfinished block, which is not yet chosen as part of the chain (see `branch`), is sent when it is chosen.
//! The updates of other blocks are sent before the blocks are sealed.
//! State: the chain's rules, and the head updates of unfinished blocks.
//! Limits: one block at a time; the maximum number of unfinished blocks.
//! Back-pressure: stops taking blocks.

use super::{
    batch::{ExecutedBlock, HeadUpdate, InOrder, NextBlockParent, Origin},
    fault::Fault,
    meter::Meter,
    ring::{Inbox, Outbox},
    stage::{Progress, Stage},
};
use chain::ChainSpec;
use feehistory::fee_row;
use state::LayerId;
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

/// The stage; see the module documentation.
#[derive(Debug)]
pub(super) struct Fee {
    spec: Arc<ChainSpec>,
    ports: Ports,
    /// The head updates of unfinished blocks, by post-state.
    unfinished: HashMap<LayerId, HeadUpdate>,
    /// The head updates of chosen blocks, which are sent before any other message.
    updates: VecDeque<HeadUpdate>,
    meter: Arc<Meter>,
}

/// The ring ends of the stage.
#[derive(Debug)]
pub(super) struct Ports {
    pub(super) executed: Inbox<InOrder<ExecutedBlock>>,
    pub(super) priced: Outbox<InOrder<ExecutedBlock>>,
    /// `None` if there is no mempool.
    pub(super) heads: Option<Outbox<InOrder<HeadUpdate>>>,
}

impl Fee {
    /// Creates the stage for a chain with these rules.
    pub(super) fn new(spec: Arc<ChainSpec>, ports: Ports, meter: Arc<Meter>) -> Self {
        Self { spec, ports, unfinished: HashMap::new(), updates: VecDeque::new(), meter }
    }

    fn forget(&mut self, dropped: &[LayerId]) {
        dropped.iter().for_each(|state| drop(self.unfinished.remove(state)));
    }
}

/// Creates the head update, which holds what the mempool needs to know about a block.
fn head_update(block: &mut ExecutedBlock) -> HeadUpdate {
    let parent = NextBlockParent {
        header: Arc::new(block.block.header.clone()),
        next_base_fee: block.next_base_fee,
        modules: block
            .modules_outcome
            .as_ref()
            .map(|modules_outcome| Arc::clone(&modules_outcome.modules)),
        state: block.after.clone(),
    };
    let skipped = std::mem::take(&mut block.skipped);
    HeadUpdate { parent, included: Arc::clone(&block.txs), skipped }
}

impl Stage for Fee {
    fn name(&self) -> &'static str {
        "fee"
    }

    fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    fn step(&mut self) -> Result<Progress, Fault> {
        let heads_ready = self.ports.heads.as_mut().is_none_or(Outbox::ready);
        if !self.ports.priced.ready() || !heads_ready {
            return Ok(Progress::Blocked);
        }
        if let Some(heads) = &mut self.ports.heads
            && let Some(update) = self.updates.pop_front()
        {
            heads.send(InOrder::Block(update));
            return Ok(Progress::Worked);
        }
        let mut block = match self.ports.executed.take() {
            Some(InOrder::Block(block)) => block,
            Some(InOrder::Undo(undo)) => {
                self.forget(&undo.dropped);
                match &mut self.ports.heads {
                    Some(heads) => heads.send(InOrder::Undo(Arc::clone(&undo))),
                    // Without a mempool there is no journal.
                    None => undo.set_journalled(),
                }
                self.ports.priced.send(InOrder::Undo(undo));
                return Ok(Progress::Worked);
            }
            Some(InOrder::Rebuild(rebuild)) => {
                match &mut self.ports.heads {
                    Some(heads) => heads.send(InOrder::Rebuild(Arc::clone(&rebuild))),
                    // Without a mempool, nothing has to pause.
                    None => rebuild.set_paused(),
                }
                self.ports.priced.send(InOrder::Rebuild(rebuild));
                return Ok(Progress::Worked);
            }
            Some(InOrder::Choose(choice)) => {
                let chosen = choice.chosen.iter().filter_map(|state| self.unfinished.remove(state));
                self.updates.extend(chosen);
                self.forget(&choice.dropped);
                self.ports.priced.send(InOrder::Choose(choice));
                return Ok(Progress::Worked);
            }
            Some(InOrder::Drop(dropped)) => {
                self.forget(&dropped);
                self.ports.priced.send(InOrder::Drop(dropped));
                return Ok(Progress::Worked);
            }
            None => {
                let over = self.ports.executed.is_finished();
                return Ok(if over { Progress::Finished } else { Progress::Idle });
            }
        };
        self.meter.count_received(1);
        let gas = block.executed.tx_gas.iter().copied();
        let txs = block.txs.iter().map(|tx| &tx.tx).zip(gas);
        let market =
            block.modules_outcome.as_ref().map(|modules_outcome| &modules_outcome.modules.market);
        let row = fee_row(&self.spec, &block.block.header, market, txs);
        block.next_base_fee = row.next_base_fee;
        block.fee_row = row.to_bytes().into();
        match (&mut self.ports.heads, &block.origin) {
            (Some(_), Origin::Given(_) | Origin::Built(_)) => {
                self.unfinished.insert(block.layer.id(), head_update(&mut block));
            }
            (Some(heads), _) => heads.send(InOrder::Block(head_update(&mut block))),
            (None, _) => {}
        }
        self.ports.priced.send(InOrder::Block(block));
        self.meter.count_sent(1);
        Ok(Progress::Worked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_consensus::Header;
    use alloy_eips::eip1559::INITIAL_BASE_FEE;
    use alloy_primitives::U256;

    #[test]
    fn last_block_before_london_sets_the_initial_base_fee() {
        let spec = testkit::london_at_block_7().spec;
        let next = |number| {
            let header = Header { number, difficulty: U256::ONE, ..Header::default() };
            fee_row(&spec, &header, None, std::iter::empty()).next_base_fee
        };
        assert_eq!([5, 6].map(next), [0, INITIAL_BASE_FEE]);
    }
}
