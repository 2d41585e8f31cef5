//! The modules of a native chain in one block: how they are updated before the first transaction and after the last.

use alloy_consensus::Header;
use alloy_primitives::{Address, B256};
use chain::{ChainSpec, Native, Violation};
use evm::Executed;
use feemarket::{
    Event,
    store::{Record, StoredEvent},
};
use modules::Modules;
use std::sync::Arc;
use storage::GovernanceRow;

/// The modules within a block.
#[derive(Debug)]
pub(crate) struct ModulesBlock {
    modules: Modules,
    events: Vec<StoredEvent>,
    height: u64,
}

/// The modules after a block.
#[derive(Clone, Debug)]
pub struct ModulesOutcome {
    /// The modules.
    pub modules: Arc<Modules>,
    /// The record to store.
    pub record: Record,
    /// The governance rows to store.
    pub governance: Vec<GovernanceRow>,
}

impl ModulesBlock {
    /// Begins block `height` if the chain is native.
    pub(super) fn of(spec: &ChainSpec, before: Option<&Modules>, height: u64) -> Option<Self> {
        let (native, before) = spec.native().zip(before)?;
        Some(Self::begin(native, before, height))
    }

    /// Begins block `height` on the modules after the previous block.
    pub(super) fn begin(native: &Native, before: &Modules, height: u64) -> Self {
        let mut modules = before.clone();
        let moved = modules.market.begin_block(height, native.max_gas);
        let events = moved.into_iter().chain([modules.market.evm_event()]);
        Self { events: events.map(StoredEvent::from).collect(), modules, height }
    }

    /// Returns the modules that transactions use.
    pub(super) const fn modules(&self) -> &Modules {
        &self.modules
    }

    /// Sets the base fee of the block, in wei, as a client of a development chain has requested.
    pub(super) fn set_base_fee(&mut self, wei: u64) {
        let (market, height) = (&mut self.modules.market, self.height);
        let base_fee = market.set_base_fee_wei(wei);
        tracing::debug!(height, %base_fee, "the base fee was set");
        let events = [Event::FeeMarket { base_fee }, market.evm_event()];
        self.events = events.into_iter().map(StoredEvent::from).collect();
    }

    /// Checks the header of an imported block against the fee market.
    pub(super) fn check(&self, native: &Native, header: &Header) -> Result<(), Violation> {
        Violation::number("gasLimit", native.gas_limit, header.gas_limit)?;
        let found = header.base_fee_per_gas.unwrap_or_default();
        Violation::number("baseFeePerGas", self.modules.market.base_fee_wei(), found)
    }

    /// Ends the block: applies the updates that were decided in it, then updates the fee market.
    pub(super) fn end(
        mut self,
        native: &Native,
        senders: impl Iterator<Item = Address>,
        executed: &mut Executed,
    ) -> ModulesOutcome {
        for update in &executed.updates {
            self.modules.update(update.clone()).expect("updates are checked when they are decided");
        }
        self.events.append(&mut executed.events);
        let mut governance = Vec::new();
        if let Some((gov, rows)) = executed.gov.take() {
            self.modules.gov = gov;
            governance = rows;
        }
        let amount = self
            .modules
            .market
            .end_block(executed.gas_wanted, executed.gas_used)
            .expect("gas wanted is bounded as it grows, gas used by the gas limit");
        self.events.push(Event::BlockGas { height: self.height, amount }.into());
        let record = self.modules.record(native, self.height, senders, self.events);
        ModulesOutcome { modules: Arc::new(self.modules), record, governance }
    }
}

impl ModulesOutcome {
    /// Checks the header of an imported block against the modules after it.
    pub(super) fn check(&self, header: &Header) -> Result<(), Violation> {
        let bytes = header.extra_data.as_ref();
        Violation::number("extraData bytes", B256::len_bytes() as u64, bytes.len() as u64)?;
        Violation::hash("extraData", self.record.root(), B256::from_slice(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chain::{EvmParams, Genesis};
    use feemarket::{LegacyDec, Params};
    use transactions::Update;

    #[test]
    fn updates_apply_from_the_next_block_but_to_the_reported_gas_at_once() {
        let genesis = Genesis::native_dev(0);
        let native = genesis.spec.native().unwrap();
        let block = ModulesBlock::begin(native, &Modules::genesis(native), 1);
        let params = Params {
            base_fee: LegacyDec::from(7_000_000_000),
            min_gas_multiplier: LegacyDec::ONE,
            base_fee_change_denominator: 2,
            ..Params::default()
        };
        let mut evm = EvmParams::default();
        evm.allow_unprotected_txs = true;
        let updates = vec![Update::FeeMarket(params), Update::Evm(evm.clone())];
        let mut executed = Executed {
            gas_wanted: 50_000_000,
            gas_used: 25_000_000,
            updates,
            ..Default::default()
        };
        assert_eq!(block.modules().market.base_fee_wei(), 875_000_000, "the block's own");
        let outcome = block.end(native, std::iter::empty(), &mut executed);
        let modules = &outcome.modules;
        assert_eq!(modules.market.block_gas(), 50_000_000, "all of what was wanted");
        assert_eq!(modules.market.next_base_fee_wei(2, native.max_gas), 7_000_000_000);
        assert_eq!(modules.evm, evm);
        assert_eq!(Modules::of_record(&outcome.record, native).as_ref(), Ok(&**modules));
    }
}
