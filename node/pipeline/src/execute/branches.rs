//! Given blocks: executes them on their parents, and makes chosen ones the head.

use super::{Execute, head::ExecutionHead, roots::ReceiptRoots};
use crate::{
    batch::{InOrder, Origin, RecoveredBlock},
    branch::{BlockRequest, Choice, GiveError, GivenBlock, MAX_UNFINISHED_BLOCKS},
    fault::{BlockFault, BlockReason, Fault},
    stage::Progress,
    undo::{HeadAnswer, UndoError, UndoneTransactions},
};
use alloy_primitives::{B256, map::B256Map};
use evm::ExecutionError;
use state::Layer;
use std::{mem, sync::Arc};

/// The given blocks that were not chosen yet.
#[derive(Debug, Default)]
pub(super) struct Unfinished(B256Map<UnfinishedBlock>);

/// A given block that was executed.
#[derive(Debug)]
struct UnfinishedBlock {
    parent: B256,
    /// The execution head after it.
    head: ExecutionHead,
    layer: Arc<Layer>,
}

impl Unfinished {
    /// The unfinished blocks from the oldest one that `hash` descends from to `hash` itself; none if it is not
    /// unfinished.
    fn path_to(&self, hash: B256) -> Vec<B256> {
        let mut path = Vec::new();
        let mut next = hash;
        while let Some(block) = self.0.get(&next) {
            path.push(next);
            next = block.parent;
        }
        path.reverse();
        path
    }

    /// The finished block that an unfinished one descends from.
    fn base(&self, path: &[B256]) -> Option<B256> {
        Some(self.0.get(path.first()?)?.parent)
    }

    /// Removes a block and its descendants. Returns their hashes.
    pub(super) fn remove_branch(&mut self, hash: B256) -> Vec<B256> {
        self.remove_unless(|path| !path.contains(&hash))
    }

    /// Removes the blocks whose path, from the oldest unfinished ancestor to the block, is not to be kept. Returns
    /// their hashes.
    fn remove_unless(&mut self, keeps: impl Fn(&[B256]) -> bool) -> Vec<B256> {
        let hashes: Vec<B256> = self.0.keys().copied().collect();
        let mut removed = hashes;
        removed.retain(|hash| !keeps(&self.path_to(*hash)));
        removed.iter().for_each(|hash| drop(self.0.remove(hash)));
        removed
    }

    /// Removes the blocks that do not descend from the finished block `base`. Returns their hashes.
    pub(super) fn remove_others(&mut self, base: B256) -> Vec<B256> {
        let kept: Vec<B256> = self.0.keys().copied().collect();
        let kept: Vec<B256> =
            kept.into_iter().filter(|hash| self.base(&self.path_to(*hash)) == Some(base)).collect();
        self.remove_unless(|path| path.last().is_some_and(|hash| kept.contains(hash)))
    }
}

impl Execute {
    /// Answers a request, or keeps it until every executed block is durable.
    pub(super) fn answer(&mut self, request: BlockRequest) -> Result<Progress, Fault> {
        if self.head.hash.is_none() {
            // The head is being sealed. Without seal no hash will arrive.
            let over = self.headers.is_finished();
            self.request = Some(request);
            return Ok(if over { Progress::Finished } else { Progress::Idle });
        }
        match request {
            BlockRequest::Undo(request) => return self.undo_when_durable(request),
            BlockRequest::Give(given) => self.execute_given(*given)?,
            BlockRequest::Choose { hash, transactions, answer } => {
                return self.choose(hash, transactions, answer);
            }
            BlockRequest::Abandon(hash) => {
                let dropped = self.unfinished.remove_branch(hash);
                self.out.send(InOrder::Drop(dropped));
            }
        }
        Ok(Progress::Worked)
    }

    /// Executes a given block on the state of its parent.
    fn execute_given(&mut self, given: GivenBlock) -> Result<(), Fault> {
        let GivenBlock { block, txs, answer } = given;
        let (hash, parent) = (block.hash, block.header.parent_hash);
        if self.unfinished.0.contains_key(&hash) || self.head.hash == Some(hash) {
            answer.give(Ok(()));
            return Ok(());
        }
        if self.unfinished.0.len() >= MAX_UNFINISHED_BLOCKS {
            answer.give(Err(GiveError::Busy("too many blocks are unfinished")));
            return Ok(());
        }
        let Some(on) = self.head_of(parent, block.header.number)? else {
            answer.give(Err(GiveError::UnknownParent(parent)));
            return Ok(());
        };
        self.meter.take(block.transactions.len());
        let on_head = self.head.hash == Some(parent);
        let head = mem::replace(&mut self.head, on);
        let roots = ReceiptRoots::new(self.roots.bytes());
        let roots = mem::replace(&mut self.roots, roots);
        // The caches have the state of the head.
        let recent = (!on_head).then(|| mem::take(&mut self.recent));
        let block = RecoveredBlock { seq: 0, block, txs };
        let executed = self.execute_imported(block, Origin::Given(Arc::clone(&answer)));
        let after = mem::replace(&mut self.head, head);
        self.roots = roots;
        if let Some(recent) = recent {
            self.recent = recent;
        }
        match executed {
            Ok(executed) => {
                let layer = Arc::clone(&executed.layer);
                let unfinished = UnfinishedBlock { parent, head: after, layer };
                self.unfinished.0.insert(hash, unfinished);
                self.out.send(InOrder::Block(executed));
            }
            Err(Fault::Block(fault)) if is_invalid(&fault) => {
                answer.give(Err(GiveError::Invalid(fault)));
            }
            Err(fault) => return Err(fault),
        }
        Ok(())
    }

    /// The execution head at block `hash`, the parent of block `child`, if it is the head, unfinished, or can
    /// become the head again.
    fn head_of(&self, hash: B256, child: u64) -> Result<Option<ExecutionHead>, Fault> {
        if self.head.hash == Some(hash) {
            return Ok(Some(self.head.clone()));
        }
        if let Some(block) = self.unfinished.0.get(&hash) {
            return Ok(Some(block.head.clone()));
        }
        let Some(number) = child.checked_sub(1) else { return Ok(None) };
        let is_stored = self.head.chain.reader()?.hash(number)? == Some(hash);
        let Some(state) = self.head.state.as_of(child).filter(|_| is_stored) else {
            return Ok(None);
        };
        let view = self.stored_view(number, state)?;
        Ok(Some(ExecutionHead::load(&view, self.head.caches()).map_err(super::undo::unreadable)?))
    }

    /// Makes an unfinished block the head. If the oldest unfinished block before it does not follow the head, the
    /// head is undone first.
    fn choose(
        &mut self,
        hash: B256,
        transactions: UndoneTransactions,
        answer: HeadAnswer,
    ) -> Result<Progress, Fault> {
        if self.head.hash == Some(hash) {
            drop(answer.send(Ok(hash)));
            return Ok(Progress::Worked);
        }
        let chosen = self.unfinished.path_to(hash);
        let Some(base) = self.unfinished.base(&chosen) else {
            drop(answer.send(Err(UndoError::Unknown(hash))));
            return Ok(Progress::Worked);
        };
        if self.head.hash != Some(base) {
            let to = self.unfinished.0[&chosen[0]].head.header.number - 1;
            return self.undo_for(to, hash, transactions, answer);
        }
        for hash in &chosen {
            let block = self.unfinished.0.remove(hash).expect("it is on the path");
            self.head = block.head;
            self.recent.apply(&block.layer);
        }
        // It is opened again when a block needs it.
        self.roots = ReceiptRoots::new(self.roots.bytes());
        let dropped = self.unfinished.remove_others(hash);
        let choice = Choice::new(chosen, dropped, Some(answer));
        self.out.send(InOrder::Choose(Arc::new(choice)));
        Ok(Progress::Worked)
    }
}

/// Whether the block is at fault, and not this node.
fn is_invalid(fault: &BlockFault) -> bool {
    !matches!(fault.reason, BlockReason::Execution(ExecutionError::State { .. }))
}
