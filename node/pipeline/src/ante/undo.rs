//! The mempool's part in an undo: the pool returns to the state of an earlier block.

use super::Ante;
use crate::{
    batch::NextBlockParent,
    fault::Fault,
    undo::{Undo, UndoneTransactions},
};
use alloy_primitives::Address;
use std::{sync::Arc, time::Instant};
use storage::StateRead;

impl Ante {
    /// Returns to an earlier block. Commit removes the undone blocks from the chain only after this function has
    /// written the journal.
    pub(super) fn undo(&mut self, undo: &Undo) -> Result<(), Fault> {
        self.parent = NextBlockParent::of_head(&undo.view.head, undo.view.state.clone());
        self.recent.forget(undo.number());
        self.is_paused = false;
        // Execute drops a proposal that builds on an undone block.
        self.proposal_in_flight = false;
        self.reselect_at_gas = 0;
        let now = Instant::now();
        self.pool.set_base_fee(self.parent.next_base_fee);
        self.reread_accounts(now)?;
        self.follow_fork(now);
        self.journal.undo_above(undo.number());
        match undo.transactions {
            UndoneTransactions::Return => self.return_to_pool(undo)?,
            // The file still contains the transactions of the undone blocks, and a restart would pool them.
            UndoneTransactions::Drop => {
                let durable = self.published.load().number();
                self.journal.compact(&self.pool, durable, now)?;
            }
        }
        undo.set_journalled();
        Ok(())
    }

    /// Reads the accounts of all senders again, because an undo lowers nonces and changes balances.
    fn reread_accounts(&mut self, now: Instant) -> Result<(), Fault> {
        let state = self.parent.state.reader()?;
        let senders: Vec<Address> = self.pool.senders().collect();
        let mut accounts = Vec::with_capacity(senders.len());
        for sender in senders {
            accounts.push((sender, state.account(sender)?.unwrap_or_default()));
        }
        self.pool.advance(accounts.into_iter(), now);
        Ok(())
    }

    /// Pools the transactions of the undone blocks, in their former order, and writes them to the journal.
    fn return_to_pool(&mut self, undo: &Undo) -> Result<(), Fault> {
        for tx in &undo.returned {
            self.journal.push(tx);
        }
        self.journal.write()?;
        self.readmit(undo.returned.iter().map(Arc::clone).collect()).map(drop)
    }
}
