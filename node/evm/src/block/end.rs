//! Applies what follows the last transaction of a block: requests, governance, fees, rewards and withdrawals.

use std::error::Error;

use alloy_consensus::Header;
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::U256;
use chain::Fork;
use storage::StateRead;

use super::{BlockBuilder, Executed};
use crate::{ExecutionError, StateError, overlay::Overlay, requests, rewards::rewards};

impl<'a, S, I> BlockBuilder<'a, S, I>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    /// Ends the block: collects the requests of EIP-6110, 7002 and 7251, applies the decisions of governance, and
    /// pays the proposer, the rewards and the withdrawals.
    ///
    /// # Errors
    /// If a system contract fails, a deposit event has an invalid layout, or state cannot be read.
    pub fn finish(
        mut self,
        ommers: &[Header],
        withdrawals: Option<&[Withdrawal]>,
    ) -> Result<Executed, ExecutionError> {
        self.end(ommers, withdrawals)?;
        Ok(self.into_executed())
    }

    /// Does the same as [`Self::finish`], and also returns the overlay for the next block. The changes include all
    /// blocks executed on the overlay.
    pub(crate) fn finish_with_overlay(
        mut self,
        withdrawals: Option<&[Withdrawal]>,
    ) -> Result<(Executed, Overlay<'a, S>), ExecutionError> {
        self.end(&[], withdrawals)?;
        self.executed.changes = self.machine.overlay().changes();
        Ok((self.executed, self.machine.into_overlay()))
    }

    pub(crate) fn end(
        &mut self,
        ommers: &[Header],
        withdrawals: Option<&[Withdrawal]>,
    ) -> Result<(), ExecutionError> {
        if self.environment.fork >= Fork::Prague {
            self.executed.requests = requests::collect(
                &mut self.machine,
                self.number,
                self.spec.deposit_contract,
                &self.executed.receipts,
            )?;
        }
        self.end_governance().map_err(|source| self.state_error(source))?;
        self.pay_proposer().map_err(|source| self.state_error(source))?;
        self.pay(ommers, withdrawals).map_err(|source| self.state_error(source))
    }

    pub(crate) fn into_executed(mut self) -> Executed {
        self.executed.changes = self.machine.overlay().changes();
        self.executed
    }

    fn pay(
        &mut self,
        ommers: &[Header],
        withdrawals: Option<&[Withdrawal]>,
    ) -> Result<(), StateError> {
        let (fork, number) = (self.environment.fork, self.number);
        let beneficiary = self.environment.block.beneficiary;
        let overlay = self.machine.overlay_mut();
        if fork < Fork::Paris {
            let rewards = rewards(fork, number, ommers);
            for (ommer, reward) in ommers.iter().zip(rewards.ommers) {
                overlay.credit(ommer.beneficiary, U256::from(reward))?;
            }
            overlay.credit(beneficiary, U256::from(rewards.beneficiary))?;
        }
        for withdrawal in withdrawals.unwrap_or_default() {
            overlay.credit(withdrawal.address, withdrawal.amount_wei())?;
        }
        Ok(())
    }
}
