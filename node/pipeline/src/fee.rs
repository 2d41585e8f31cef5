//! Fee: updates the fee market after a block.
//!
//! Input: executed blocks, in order.
//! Output: the same blocks with the next base fee and the fee-history row, and a head update for the mempool
//! while the block is not sealed yet.
//! State: the chain's rules.
//! Limits: one block.
//! Back-pressure: takes no block.

use super::{
    batch::{ExecutedBlock, HeadUpdate, NextBlockParent},
    fault::Fault,
    meter::Meter,
    ring::{Inbox, Outbox},
    stage::{Progress, Stage},
};
use chain::ChainSpec;
use feehistory::fee_row;
use std::sync::Arc;

/// The stage; see the module documentation.
#[derive(Debug)]
pub(super) struct Fee {
    spec: Arc<ChainSpec>,
    ports: Ports,
    meter: Arc<Meter>,
}

/// The ring ends of the stage.
#[derive(Debug)]
pub(super) struct Ports {
    pub(super) executed: Inbox<ExecutedBlock>,
    pub(super) priced: Outbox<ExecutedBlock>,
    /// `None` if there is no mempool.
    pub(super) heads: Option<Outbox<HeadUpdate>>,
}

impl Fee {
    /// Creates the stage for a chain with these rules.
    pub(super) fn new(spec: Arc<ChainSpec>, ports: Ports, meter: Arc<Meter>) -> Self {
        Self { spec, ports, meter }
    }
}

/// What the mempool needs to know about a block.
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
        let Some(mut block) = self.ports.executed.take() else {
            let over = self.ports.executed.is_finished();
            return Ok(if over { Progress::Finished } else { Progress::Idle });
        };
        self.meter.take(1);
        let gas = block.executed.tx_gas.iter().copied();
        let txs = block.txs.iter().map(|tx| &tx.tx).zip(gas);
        let market =
            block.modules_outcome.as_ref().map(|modules_outcome| &modules_outcome.modules.market);
        let row = fee_row(&self.spec, &block.block.header, market, txs);
        block.next_base_fee = row.next_base_fee;
        block.fee_row = row.to_bytes().into();
        if let Some(heads) = &mut self.ports.heads {
            heads.send(head_update(&mut block));
        }
        self.ports.priced.send(block);
        self.meter.give(1);
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
    fn block_before_london_names_the_first_base_fee() {
        let spec = testkit::london_at_block_7().spec;
        let next = |number| {
            let header = Header { number, difficulty: U256::ONE, ..Header::default() };
            fee_row(&spec, &header, None, std::iter::empty()).next_base_fee
        };
        assert_eq!([5, 6].map(next), [0, INITIAL_BASE_FEE]);
    }
}
