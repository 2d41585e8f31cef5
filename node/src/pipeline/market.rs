//! A native block's turn of the fee market: what holds before its first transaction, and what is kept
//! after its last.

use crate::{
    chain::{Native, Violation},
    execution::Executed,
    feemarket::{
        Event, Market,
        store::{Record, StoredEvent},
    },
};
use alloy_consensus::Header;
use alloy_primitives::B256;
use std::sync::Arc;

/// Between the two ends of a block.
#[derive(Debug)]
pub(super) struct Turn {
    market: Market,
    events: Vec<StoredEvent>,
    height: u64,
}

/// After a block.
#[derive(Clone, Debug)]
pub(super) struct Turned {
    /// The market.
    pub market: Arc<Market>,
    /// What is stored.
    pub record: Record,
}

impl Turn {
    /// Begins block `height` on the market as the block before left it.
    pub(super) fn begin(native: &Native, before: &Market, height: u64) -> Self {
        let mut market = before.clone();
        let moved = market.begin_block(height, native.max_gas);
        let events = moved.into_iter().chain([market.evm_event()]);
        Self { events: events.map(StoredEvent::from).collect(), market, height }
    }

    /// The market that transactions meet.
    pub(super) const fn market(&self) -> &Market {
        &self.market
    }

    /// Holds a given header to the market.
    pub(super) fn check(&self, native: &Native, header: &Header) -> Result<(), Violation> {
        Violation::number("gasLimit", native.gas_limit, header.gas_limit)?;
        let found = header.base_fee_per_gas.unwrap_or_default();
        Violation::number("baseFeePerGas", self.market.base_fee_wei(), found)
    }

    /// Ends the block.
    pub(super) fn end(mut self, executed: &Executed) -> Turned {
        let amount = self
            .market
            .end_block(executed.gas_wanted, executed.gas_used)
            .expect("gas wanted is bounded as it grows, gas used by the gas limit");
        self.events.push(Event::BlockGas { height: self.height, amount }.into());
        let record = Record::new(&self.market, self.events);
        Turned { market: Arc::new(self.market), record }
    }
}

impl Turned {
    /// Holds a given header to what the block left behind.
    pub(super) fn check(&self, header: &Header) -> Result<(), Violation> {
        let bytes = header.extra_data.as_ref();
        Violation::number("extraData bytes", B256::len_bytes() as u64, bytes.len() as u64)?;
        Violation::hash("extraData", self.record.root(), B256::from_slice(bytes))
    }
}
