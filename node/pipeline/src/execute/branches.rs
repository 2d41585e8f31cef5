//! Given and built blocks: execute runs them on their parents, and makes a chosen one the head.

use super::{Execute, head::ExecutionHead, roots::ReceiptRoots, undo::unreadable};
use crate::{
    batch::{ExecutedBlock, InOrder, Origin, Proposal, RecoveredBlock, SealedHeader},
    branch::{
        BlockRequest, BuildError, BuildRequest, Choice, GiveError, GivenBlock,
        MAX_UNFINISHED_BLOCKS,
    },
    fault::{BlockFault, BlockReason, Fault},
    stage::Progress,
    undo::{HeadAnswer, UndoError, UndoRequest, UndoneTransactions},
};
use alloy_primitives::{B256, map::B256Map};
use evm::{ExecutionError, ExecutionHost, StateError};
use state::{Layer, LayerId};
use std::{mem, sync::Arc};

/// The given and built blocks that have not been chosen yet, by hash.
#[derive(Debug, Default)]
pub(super) struct Unfinished(B256Map<UnfinishedBlock>);

/// A given or built block that was executed.
#[derive(Debug)]
pub(super) struct UnfinishedBlock {
    parent: B256,
    /// The execution head after it.
    head: ExecutionHead,
    pub(super) layer: Arc<Layer>,
    /// Whether seal has accepted the block. Until then it may be refused.
    is_sealed: bool,
}

impl Unfinished {
    /// Returns the unfinished blocks from the oldest unfinished ancestor of block `hash` to that block; empty if the
    /// block is not unfinished.
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

    pub(super) fn set_sealed(&mut self, hash: B256) {
        if let Some(block) = self.0.get_mut(&hash) {
            block.is_sealed = true;
        }
    }

    /// Returns whether seal has yet to accept or refuse one of these blocks.
    fn are_being_sealed(&self, path: &[B256]) -> bool {
        path.iter().any(|hash| self.0.get(hash).is_some_and(|block| !block.is_sealed))
    }

    /// Returns the parent of the first block of a path. The parent is part of the chain.
    fn base(&self, path: &[B256]) -> Option<B256> {
        Some(self.0.get(path.first()?)?.parent)
    }

    /// Removes a block and its descendants. Like the following methods, returns the post-states of removed blocks.
    pub(super) fn remove_branch(&mut self, hash: B256) -> Vec<LayerId> {
        self.remove_unless(|path| !path.contains(&hash))
    }

    /// Removes the blocks for whose path (see [`Self::path_to`]) `keeps` returns false.
    fn remove_unless(&mut self, keeps: impl Fn(&[B256]) -> bool) -> Vec<LayerId> {
        let mut removed: Vec<B256> = self.0.keys().copied().collect();
        removed.retain(|hash| !keeps(&self.path_to(*hash)));
        let removed = removed.iter().filter_map(|hash| self.0.remove(hash));
        removed.map(|block| block.layer.id()).collect()
    }

    pub(super) fn remove_all(&mut self) -> Vec<LayerId> {
        self.remove_unless(|_| false)
    }

    /// Removes the blocks that do not descend from the finished block `base`.
    pub(super) fn remove_others(&mut self, base: B256) -> Vec<LayerId> {
        let mut kept: Vec<B256> = self.0.keys().copied().collect();
        kept.retain(|hash| self.base(&self.path_to(*hash)) == Some(base));
        self.remove_unless(|path| path.last().is_some_and(|hash| kept.contains(hash)))
    }
}

impl Execute {
    /// Answers a request, or holds it until it can be answered.
    pub(super) fn answer(&mut self, request: BlockRequest) -> Result<Progress, Fault> {
        if self.head.hash.is_none() {
            // The head is being sealed. If seal has ended, no hash will arrive.
            let over = self.headers.is_finished();
            self.request = Some(request);
            return Ok(if over { Progress::Finished } else { Progress::Idle });
        }
        match request {
            BlockRequest::Undo(request) => return self.undo_when_durable(request),
            BlockRequest::UndoAfter(request, rebuild) => return self.undo_after(request, rebuild),
            BlockRequest::Give(given) => return self.execute_given(*given),
            BlockRequest::Build(build) => self.build_on_request(*build)?,
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

    /// Executes a given block on the state of its parent. A block that is already unfinished or part of the chain is
    /// reported as valid without executing it, which would create a second state for the same hash.
    fn execute_given(&mut self, given: GivenBlock) -> Result<Progress, Fault> {
        let (hash, header) = (given.block.hash, &given.block.header);
        let (number, parent) = (header.number, header.parent_hash);
        if self.unfinished.are_being_sealed(&[hash]) {
            return Ok(self.wait_with(BlockRequest::Give(Box::new(given))));
        }
        if self.unfinished.0.contains_key(&hash) || self.is_on_chain(number, hash)? {
            given.answer.give(Ok(()));
            return Ok(Progress::Worked);
        }
        if self.unfinished.0.len() >= MAX_UNFINISHED_BLOCKS {
            given.answer.give(Err(GiveError::Busy("too many blocks are unfinished")));
            return Ok(Progress::Worked);
        }
        if !self.is_durable() && self.head.hash != Some(parent) && !self.is_unfinished(parent) {
            // The parent may be a block of the chain that is not durable yet.
            return Ok(self.wait_with(BlockRequest::Give(Box::new(given))));
        }
        match self.head_of(parent, number)? {
            Some(on) => self.execute_on(on, given)?,
            None => given.answer.give(Err(GiveError::UnknownParent(parent))),
        }
        Ok(Progress::Worked)
    }

    fn is_unfinished(&self, hash: B256) -> bool {
        self.unfinished.0.contains_key(&hash)
    }

    /// Returns whether the block is the head or one of its ancestors.
    fn is_on_chain(&self, number: u64, hash: B256) -> Result<bool, Fault> {
        let known = number <= self.head.header.number;
        let found = known.then(|| self.head.block_hash(number)).transpose();
        let found = found.map_err(|error| unreadable_hash(number, hash, error))?;
        Ok(found.flatten() == Some(hash))
    }

    /// Executes a given block on the state of its parent, whose execution head is `on`.
    fn execute_on(&mut self, on: ExecutionHead, given: GivenBlock) -> Result<(), Fault> {
        let GivenBlock { block, txs, received, certificate, answer } = given;
        let (hash, parent) = (block.hash, block.header.parent_hash);
        self.meter.count_received(block.transactions.len());
        let on_head = self.head.hash == Some(parent);
        let head = mem::replace(&mut self.head, on);
        let roots = ReceiptRoots::new(self.roots.bytes());
        let roots = mem::replace(&mut self.roots, roots);
        // The caches hold the state of the head.
        let recent = (!on_head).then(|| mem::take(&mut self.recent));
        let block = RecoveredBlock { seq: 0, block, txs, received };
        let executed = self.execute_imported(block, Origin::Given(Arc::clone(&answer)));
        let after = mem::replace(&mut self.head, head);
        self.roots = roots;
        if let Some(recent) = recent {
            self.recent = recent;
        }
        match executed {
            Ok(executed) => {
                let layer = Arc::clone(&executed.layer);
                let unfinished = UnfinishedBlock { parent, head: after, layer, is_sealed: false };
                self.unfinished.0.insert(hash, unfinished);
                self.out.send(InOrder::Block(ExecutedBlock { certificate, ..executed }));
            }
            Err(Fault::Block(fault)) if is_invalid(&fault) => {
                answer.give(Err(GiveError::Invalid(fault)));
            }
            Err(fault) => return Err(fault),
        }
        Ok(())
    }

    /// Executes candidates on the state of their parent, and sends the block to be sealed.
    fn build_on_request(&mut self, request: BuildRequest) -> Result<(), Fault> {
        let BuildRequest { parent, timestamp, beneficiary, txs, answer } = request;
        if self.unfinished.0.len() >= MAX_UNFINISHED_BLOCKS {
            answer.give(Err(BuildError::Busy("too many blocks are unfinished")));
            return Ok(());
        }
        let on_head = self.head.hash == Some(parent);
        let on = match self.unfinished.0.get(&parent) {
            Some(block) => block.head.clone(),
            None if on_head => self.head.clone(),
            None => {
                answer.give(Err(BuildError::UnknownParent(parent)));
                return Ok(());
            }
        };
        self.meter.count_received(txs.len());
        let number = on.header.number + 1;
        let state = on.state.id();
        let head = mem::replace(&mut self.head, on);
        // The caches hold the state of the head.
        let recent = (!on_head).then(|| mem::take(&mut self.recent));
        let proposal =
            Proposal { parent: state, number, timestamp, beneficiary, txs, settings: None };
        let executed = self
            .build(&proposal)
            .map(|produced| self.complete(produced, parent, Origin::Built(answer)));
        let after = mem::replace(&mut self.head, head);
        if let Some(recent) = recent {
            self.recent = recent;
        }
        let unreadable =
            |error: ExecutionError| BlockFault { number, hash: parent, reason: error.into() };
        let executed = executed.map_err(unreadable)?;
        let layer = Arc::clone(&executed.layer);
        self.being_built = Some(UnfinishedBlock { parent, head: after, layer, is_sealed: true });
        self.out.send(InOrder::Block(executed));
        Ok(())
    }

    /// Takes the sealed header of the block that is being built.
    pub(super) fn finish_build(&mut self, sealed: SealedHeader) {
        let mut block = self.being_built.take().expect("a block is being built");
        let hash = sealed.hash;
        if self.is_unfinished(hash) {
            // The other block is identical and may already have children, so the later stages drop this one.
            self.refused.push(block.layer.id());
            return;
        }
        block.head.seal(sealed);
        self.unfinished.0.insert(hash, block);
    }

    /// Returns the execution head at block `hash`, whose child has the number `child`, if the block is the head, is
    /// unfinished, or can become the head again.
    fn head_of(&self, hash: B256, child: u64) -> Result<Option<ExecutionHead>, Fault> {
        if self.head.hash == Some(hash) {
            return Ok(Some(self.head.clone()));
        }
        if let Some(block) = self.unfinished.0.get(&hash) {
            return Ok(Some(block.head.clone()));
        }
        let Some(number) = child.checked_sub(1) else { return Ok(None) };
        let on_chain = self.is_on_chain(number, hash)?;
        let Some(state) = self.head.state.as_of(child).filter(|_| on_chain) else {
            return Ok(None);
        };
        let view = self.stored_view(number, state)?;
        Ok(Some(ExecutionHead::load(&view, self.head.caches()).map_err(unreadable)?))
    }

    /// Returns the number of block `hash` if it is an ancestor of the head and its successor is not in the index.
    fn undoable_ancestor(&self, hash: B256) -> Result<Option<u64>, Fault> {
        for layer in self.head.state.layers().iter().rev() {
            let Some(number) = layer.number().checked_sub(1) else { break };
            if self.is_on_chain(number, hash)? {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    /// Makes an unfinished block, or an ancestor of the head, the new head. If the unfinished branch does not begin
    /// at the head, execution first returns to the block where the branch begins.
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
        if self.unfinished.are_being_sealed(&chosen) {
            let request = BlockRequest::Choose { hash, transactions, answer };
            return Ok(self.wait_with(request));
        }
        let Some(base) = self.unfinished.base(&chosen) else {
            return match self.undoable_ancestor(hash)? {
                Some(to) => {
                    let rebuilds = false;
                    self.undo_when_durable(UndoRequest { to, rebuilds, transactions, answer })
                }
                None => {
                    drop(answer.send(Err(UndoError::Unknown(hash))));
                    Ok(Progress::Worked)
                }
            };
        };
        if self.head.hash != Some(base) {
            let to = self.unfinished.0[&chosen[0]].head.header.number - 1;
            return self.undo_for(to, hash, transactions, answer);
        }
        let mut states = Vec::with_capacity(chosen.len());
        for hash in &chosen {
            let block = self.unfinished.0.remove(hash).expect("the block is on the path");
            self.head = block.head;
            self.recent.apply(&block.layer);
            states.push(block.layer.id());
        }
        // The trie is opened again when a block needs it.
        self.roots = ReceiptRoots::new(self.roots.bytes());
        let dropped = self.unfinished.remove_others(hash);
        let choice = Choice::new(hash, states, dropped, answer);
        self.out.send(InOrder::Choose(Arc::new(choice)));
        Ok(Progress::Worked)
    }
}

fn unreadable_hash(number: u64, hash: B256, source: StateError) -> Fault {
    let reason = ExecutionError::State { number, source }.into();
    BlockFault { number, hash, reason }.into()
}

/// Returns whether the block is at fault rather than this node.
fn is_invalid(fault: &BlockFault) -> bool {
    match &fault.reason {
        BlockReason::Execution(ExecutionError::State { .. }) => false,
        BlockReason::Received(error) => error.is_source_at_fault(),
        _ => true,
    }
}
