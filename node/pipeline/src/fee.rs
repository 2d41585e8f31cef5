//! Fee: what the block means for the fee market.
//!
//! Takes executed blocks, in order.
//! Gives the same with the next base fee and the fee-history row; and the new tip to the mempool,
//! while the block is still to be sealed.
//! State: the chain's rules.
//! Bound: one block.
//! When full: takes no block.

use super::{
    batch::{ExecutedBlock, Ground, Tip},
    fault::Fault,
    meter::Meter,
    ring::{Inbox, Outbox},
    stage::{Progress, Stage},
};
use chain::ChainSpec;
use feehistory::fee_row;
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub(super) struct Fee {
    spec: Arc<ChainSpec>,
    ends: Ends,
    meter: Arc<Meter>,
}

/// The stage's ends of rings.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) executed: Inbox<ExecutedBlock>,
    pub(super) priced: Outbox<ExecutedBlock>,
    /// Absent where there is no mempool.
    pub(super) tips: Option<Outbox<Tip>>,
}

impl Fee {
    /// The stage for a chain of these rules.
    pub(super) fn new(spec: Arc<ChainSpec>, ends: Ends, meter: Arc<Meter>) -> Self {
        Self { spec, ends, meter }
    }
}

/// What the mempool has to know of a block.
fn tip(block: &mut ExecutedBlock) -> Tip {
    let ground = Ground {
        header: Arc::new(block.block.header.clone()),
        next_base_fee: block.next_base_fee,
        modules: block.turned.as_ref().map(|turned| Arc::clone(&turned.modules)),
        state: block.after.clone(),
    };
    let skipped = std::mem::take(&mut block.skipped);
    Tip { ground, included: Arc::clone(&block.txs), skipped }
}

impl Stage for Fee {
    fn name(&self) -> &'static str {
        "fee"
    }

    fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    fn step(&mut self) -> Result<Progress, Fault> {
        let tips_ready = self.ends.tips.as_mut().is_none_or(Outbox::ready);
        if !self.ends.priced.ready() || !tips_ready {
            return Ok(Progress::Blocked);
        }
        let Some(mut block) = self.ends.executed.take() else {
            let over = self.ends.executed.is_finished();
            return Ok(if over { Progress::Finished } else { Progress::Idle });
        };
        self.meter.take(1);
        let gas = block.executed.tx_gas.iter().copied();
        let txs = block.txs.iter().map(|tx| &tx.tx).zip(gas);
        let market = block.turned.as_ref().map(|turned| &turned.modules.market);
        let row = fee_row(&self.spec, &block.block.header, market, txs);
        block.next_base_fee = row.next_base_fee;
        block.fee_row = row.to_bytes().into();
        if let Some(tips) = &mut self.ends.tips {
            tips.send(tip(&mut block));
        }
        self.ends.priced.send(block);
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
