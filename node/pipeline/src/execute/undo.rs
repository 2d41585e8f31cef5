//! The first step of an undo: the execution head returns to an earlier block.

use super::{Execute, head::ExecutionHead, roots::ReceiptRoots};
use crate::{
    batch::InOrder,
    branch::BlockRequest,
    fault::Fault,
    stage::Progress,
    undo::{HeadAnswer, Rebuild, Rebuilt, Undo, UndoError, UndoRequest, UndoneTransactions},
};
use alloy_primitives::B256;
use home::{HomeError, head_at, state_at};
use state::{ChainView, LayerId, StateView, View, stored::StoredBlock};
use std::{sync::Arc, time::Duration};
use storage::ChainReader;
use transactions::RecoveredTx;

/// Polling interval while a request waits until every executed block is durable.
pub(super) const DURABLE_WAIT: Duration = Duration::from_millis(1);

impl Execute {
    /// Begins the requested undo once every executed block is durable. Until then, no block is executed.
    pub(super) fn undo_when_durable(&mut self, request: UndoRequest) -> Result<Progress, Fault> {
        if !self.is_durable() {
            return Ok(self.wait_with(BlockRequest::Undo(request)));
        }
        let UndoRequest { to, rebuilds, transactions, answer } = request;
        match self.undo_target(to)? {
            Ok(view) => {
                let dropped = self.unfinished.remove_others(view.head.hash);
                self.undo_to(view, transactions, dropped, Some(answer))?;
            }
            Err(UndoError::TooDeep { .. }) if rebuilds => {
                let rebuild = Arc::new(Rebuild::new(to));
                let request = UndoRequest { to, rebuilds, transactions, answer };
                self.request = Some(BlockRequest::UndoAfter(request, Arc::clone(&rebuild)));
                self.out.send(InOrder::Rebuild(rebuild));
            }
            Err(error) => drop(answer.send(Err(error))),
        }
        Ok(Progress::Worked)
    }

    /// Begins the requested undo once the index has been rebuilt. Until then, no block is executed.
    pub(super) fn undo_after(
        &mut self,
        request: UndoRequest,
        rebuild: Arc<Rebuild>,
    ) -> Result<Progress, Fault> {
        let Some(Rebuilt { index, number }) = rebuild.rebuilt() else {
            return Ok(self.wait_with(BlockRequest::UndoAfter(request, rebuild)));
        };
        let UndoRequest { to, transactions, answer, .. } = request;
        self.floor.begin_undo(to).expect("the new index ends at or before the block");
        let base = self.head.state.rebased(number + 1, index.clone());
        let state = state_at(&self.head.chain.reader()?, base, to).map_err(unreadable)?;
        let view = self.stored_view(to, state)?;
        // The states of unfinished blocks refer to the former index.
        let dropped = self.unfinished.remove_all();
        self.undo_to(view, transactions, dropped, Some(answer))?;
        Ok(Progress::Worked)
    }

    /// Returns to block `to`, and then makes the unfinished block `chosen` the head.
    pub(super) fn undo_for(
        &mut self,
        to: u64,
        chosen: B256,
        transactions: UndoneTransactions,
        answer: HeadAnswer,
    ) -> Result<Progress, Fault> {
        let request = |answer| BlockRequest::Choose { hash: chosen, transactions, answer };
        if !self.is_durable() {
            return Ok(self.wait_with(request(answer)));
        }
        match self.undo_target(to)? {
            Ok(view) => {
                let dropped = self.unfinished.remove_others(view.head.hash);
                self.undo_to(view, transactions, dropped, None)?;
                self.request = Some(request(answer));
            }
            Err(error) => drop(answer.send(Err(error))),
        }
        Ok(Progress::Worked)
    }

    pub(super) fn is_durable(&self) -> bool {
        self.published.load().state.id() == self.head.state.id()
    }

    /// Holds a request, which is tried again in the next step.
    pub(super) fn wait_with(&mut self, request: BlockRequest) -> Progress {
        self.request = Some(request);
        // If seal has ended, no further block becomes durable.
        if self.headers.is_finished() { Progress::Finished } else { Progress::Idle }
    }

    /// Returns the view of block `to`. Flush writes no later block until the undo has reached flush.
    fn undo_target(&self, to: u64) -> Result<Result<View, UndoError>, Fault> {
        let head = self.head.header.number;
        if to >= head {
            return Ok(Err(UndoError::NotBelow { to, head }));
        }
        if let Err(oldest) = self.floor.begin_undo(to) {
            return Ok(Err(UndoError::TooDeep { to, oldest }));
        }
        let state = self.head.state.as_of(to + 1).expect("blocks that are not flushed have layers");
        Ok(Ok(self.stored_view(to, state)?))
    }

    /// Returns the view of a stored block with the state `state`.
    pub(super) fn stored_view(&self, number: u64, state: StateView) -> Result<View, Fault> {
        let blocks = self.head.chain.reader()?;
        let head = head_at(&blocks, &self.spec, number).map_err(unreadable)?;
        let chain = ChainView::new(self.head.chain.clone(), number, head.hash);
        Ok(View { head, state, chain, undone: 0 })
    }

    fn undo_to(
        &mut self,
        view: View,
        transactions: UndoneTransactions,
        dropped: Vec<LayerId>,
        answer: Option<HeadAnswer>,
    ) -> Result<(), Fault> {
        let blocks = self.head.chain.reader()?;
        let returned = match transactions {
            UndoneTransactions::Drop => Vec::new(),
            UndoneTransactions::Return => self.transactions_after(&blocks, view.number())?,
        };
        self.head = ExecutionHead::load(&view, self.head.caches()).map_err(unreadable)?;
        self.recent.forget(self.head.header.number);
        // The trie is opened again when a block needs it.
        self.roots = ReceiptRoots::new(self.roots.bytes());
        let undo = Undo::new(view, transactions, returned, dropped, answer);
        self.out.send(InOrder::Undo(Arc::new(undo)));
        Ok(())
    }

    /// Reads the transactions of the blocks after block `number`, in block order.
    fn transactions_after(
        &self,
        blocks: &ChainReader,
        number: u64,
    ) -> Result<Vec<Arc<RecoveredTx>>, Fault> {
        let mut txs = Vec::new();
        for number in number + 1..=self.head.header.number {
            let damaged = |reason: String| unreadable(HomeError::Damaged { number, reason });
            let stored = StoredBlock::read(&self.spec, blocks, number)
                .map_err(|error| damaged(error.to_string()))?;
            for tx in stored.txs() {
                let tx = tx.map_err(|error| damaged(error.to_string()))?;
                txs.push(Arc::new(tx.recovered()));
            }
        }
        Ok(txs)
    }
}

pub(super) fn unreadable(error: HomeError) -> Fault {
    Fault::Home(Box::new(error))
}
