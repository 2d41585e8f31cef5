//! Pays the fees of a native chain's block. Transactions pay fees to `fee_collector`. At the end of the block, the fees
//! move to the proposer if the parameters of the `distribution` module say so.

use std::error::Error;

use alloy_primitives::U256;
use chain::FEE_COLLECTOR;
use feemarket::store::StoredEvent;
use storage::StateRead;

use super::BlockBuilder;
use crate::StateError;

/// Type of the event that records a payment to the proposer.
const REWARD_EVENT: &str = "proposer_reward";

impl<S, I> BlockBuilder<'_, S, I>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    /// Records the balance of `fee_collector` before the first transaction, so that only fees of this block are moved.
    pub(super) fn record_fees_before(&mut self) -> Result<(), StateError> {
        if self.environment.paid_account().is_some() {
            self.fees_before = self.collector_balance()?;
        }
        Ok(())
    }

    /// Moves the fees of the block to the proposer.
    pub(super) fn pay_proposer(&mut self) -> Result<(), StateError> {
        let Some(proposer) = self.environment.paid_account() else { return Ok(()) };
        // The balance can be lower than before: a simulated call can have `fee_collector` as its sender.
        let fees = self.collector_balance()?.saturating_sub(self.fees_before);
        if fees.is_zero() {
            return Ok(());
        }
        let overlay = self.machine.overlay_mut();
        let mut collector = overlay.account(FEE_COLLECTOR)?.unwrap_or_default();
        collector.balance -= fees;
        overlay.put(FEE_COLLECTOR, collector)?;
        overlay.credit(proposer, fees)?;
        let amount = self.spec.token(self.number).show_wei(fees);
        let account = keys::bech32(&self.spec.bech32_prefix, proposer);
        let attributes = [("amount", amount), ("proposer", account)];
        self.executed.events.push(StoredEvent::new(REWARD_EVENT, &attributes));
        Ok(())
    }

    fn collector_balance(&mut self) -> Result<U256, StateError> {
        Ok(self.machine.overlay_mut().account(FEE_COLLECTOR)?.unwrap_or_default().balance)
    }
}
