//! The fees of a block of a native chain. During the block they are in `fee_collector`; at its end they move to the proposer, if
//! the parameters of the distribution say so.

use std::error::Error;

use alloy_primitives::U256;
use chain::FEE_COLLECTOR;
use feemarket::store::StoredEvent;
use storage::StateRead;

use super::BlockBuilder;
use crate::StateError;

/// Type of the event of a payment.
const REWARD_EVENT: &str = "proposer_reward";

impl<S, I> BlockBuilder<'_, S, I>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    /// Notes what `fee_collector` has before the first transaction. It keeps that.
    pub(super) fn note_kept_fees(&mut self) -> Result<(), StateError> {
        if self.environment.paid_account().is_some() {
            self.kept_fees = self.collected()?;
        }
        Ok(())
    }

    /// Moves the fees of the block to the proposer.
    pub(super) fn pay_proposer(&mut self) -> Result<(), StateError> {
        let Some(proposer) = self.environment.paid_account() else { return Ok(()) };
        // An override of the state can lower the balance in a simulated block.
        let fees = self.collected()?.saturating_sub(self.kept_fees);
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

    fn collected(&mut self) -> Result<U256, StateError> {
        Ok(self.machine.overlay_mut().account(FEE_COLLECTOR)?.unwrap_or_default().balance)
    }
}
