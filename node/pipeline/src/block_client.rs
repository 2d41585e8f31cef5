//! The interface through which validators, replicas and development methods give blocks to the pipeline, have blocks
//! built, and choose the head.

use super::{
    ante::KnownTransactions,
    branch::{
        BlockRequest, BuildError, BuildRequest, BuiltAnswer, GiveError, GivenBlock, RecoveredTxs,
        VerdictAnswer,
    },
    received::ReceivedParts,
    recover::recover_unknown,
    ring::Outbox,
    undo::{HeadAnswer, UndoError, UndoRequest, UndoneTransactions},
};
use alloy_primitives::{Address, B256, Bytes};
use chain::block::Block;
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::oneshot;
use transactions::{RecoveredTx, Senders};
use verify::{Backend, Recoverer};

/// A handle for giving and building blocks and for choosing the head, from any thread.
#[derive(Clone)]
pub struct BlockClient {
    requests: Outbox<BlockRequest>,
    backend: Backend,
    chain_id: u64,
    stop: Arc<AtomicBool>,
}

impl BlockClient {
    pub(super) const fn new(
        requests: Outbox<BlockRequest>,
        backend: Backend,
        chain_id: u64,
        stop: Arc<AtomicBool>,
    ) -> Self {
        Self { requests, backend, chain_id, stop }
    }

    /// Executes and seals a block on its parent. A valid block waits until it is chosen or dropped.
    ///
    /// # Errors
    /// [`GiveError`]; the chain is unchanged in any case.
    pub async fn give(&self, block: Block) -> Result<(), GiveError> {
        let known = vec![None; block.transactions.len()];
        self.give_with(block, known).await
    }

    /// Does the same as [`Self::give`], but does not recover the senders of `known` transactions again. `known` must
    /// have one entry per transaction of the block; an entry that is not `None` must have the same hash.
    ///
    /// # Errors
    /// Those of [`Self::give`].
    pub async fn give_with(&self, block: Block, known: KnownTransactions) -> Result<(), GiveError> {
        let (backend, chain_id) = (self.backend, self.chain_id);
        let recover = move || {
            let mut senders = Senders::of_chain(Recoverer::new(backend), chain_id);
            let txs = recover_unknown(&mut senders, &block, known);
            (block, txs)
        };
        let recovered = tokio::task::spawn_blocking(recover).await;
        let (block, txs) = recovered.map_err(|_| GiveError::Stopping)?;
        let answered = self.give_recovered(block, txs, None, None)?;
        answered.await.unwrap_or(Err(GiveError::Stopping))
    }

    /// Gives a block whose senders are known. The certificate is stored with the block and not checked here. If
    /// `received` holds its results, they are checked against the header and the block is not executed. A parent
    /// must be given before its children. The returned receiver yields the verdict, or closes if the pipeline ends.
    ///
    /// # Errors
    /// If too many requests are waiting, or the pipeline is ending.
    pub fn give_recovered(
        &self,
        block: Block,
        txs: RecoveredTxs,
        received: Option<ReceivedParts>,
        certificate: Option<Bytes>,
    ) -> Result<oneshot::Receiver<Result<(), GiveError>>, GiveError> {
        let (answer, answered) = oneshot::channel();
        let (answer, received) = (VerdictAnswer::new(answer), received.map(Box::new));
        let given = GivenBlock { block, txs, received, certificate, answer };
        match self.send(BlockRequest::Give(Box::new(given))) {
            Ok(()) => Ok(answered),
            Err(UndoError::Busy) => {
                Err(GiveError::Busy("too many requests for blocks are waiting"))
            }
            Err(_) => Err(GiveError::Stopping),
        }
    }

    /// Builds a block on `parent`, which must be the head or unfinished. `txs` are the candidates, best first; invalid
    /// ones are left out. The block waits until it is chosen or dropped. If `beneficiary` is `None`, the fee recipient
    /// is that of the parent.
    ///
    /// # Errors
    /// [`BuildError`]; the chain is unchanged then.
    pub async fn build(
        &self,
        parent: B256,
        timestamp: u64,
        beneficiary: Option<Address>,
        txs: Vec<Arc<RecoveredTx>>,
    ) -> Result<Block, BuildError> {
        let (answer, answered) = oneshot::channel();
        let answer = BuiltAnswer::new(answer);
        let request = BuildRequest { parent, timestamp, beneficiary, txs, answer };
        match self.send(BlockRequest::Build(Box::new(request))) {
            Ok(()) => answered.await.unwrap_or(Err(BuildError::Stopping)),
            Err(UndoError::Busy) => {
                Err(BuildError::Busy("too many requests for blocks are waiting"))
            }
            Err(_) => Err(BuildError::Stopping),
        }
    }

    /// Makes a block the head: either an unfinished one, or an ancestor that can become the head again. Waits until the
    /// block is published, and returns its hash. `transactions` decides what happens to those of undone blocks.
    ///
    /// # Errors
    /// [`UndoError`]; the chain is unchanged then.
    pub async fn choose(
        &self,
        hash: B256,
        transactions: UndoneTransactions,
    ) -> Result<B256, UndoError> {
        self.ask(|answer| BlockRequest::Choose { hash, transactions, answer }).await
    }

    /// Drops an unfinished block and its descendants.
    ///
    /// # Errors
    /// If too many requests are waiting, or the pipeline is ending.
    pub fn abandon(&self, hash: B256) -> Result<(), UndoError> {
        self.send(BlockRequest::Abandon(hash))
    }

    /// Makes block `to` the head again, waits until it is published, and returns its hash.
    ///
    /// # Errors
    /// [`UndoError`]; the chain is unchanged then.
    pub async fn undo(&self, to: u64, transactions: UndoneTransactions) -> Result<B256, UndoError> {
        let rebuilds = false;
        let request = |answer| UndoRequest { to, rebuilds, transactions, answer };
        self.ask(|answer| BlockRequest::Undo(request(answer))).await
    }

    /// Does the same as [`Self::undo`] for any earlier block, and drops the transactions of the undone blocks. If the
    /// index already contains a later block, it is rebuilt from the chain, which takes about as long as `evmd reindex`.
    /// Meanwhile, requests that read the state fail with [`ReadError::Renewed`](storage::ReadError::Renewed), and new
    /// transactions wait.
    ///
    /// # Errors
    /// [`UndoError`], but not [`UndoError::TooDeep`]; the chain is unchanged then.
    pub async fn undo_to_any(&self, to: u64) -> Result<B256, UndoError> {
        let (rebuilds, transactions) = (true, UndoneTransactions::Drop);
        let request = |answer| UndoRequest { to, rebuilds, transactions, answer };
        self.ask(|answer| BlockRequest::Undo(request(answer))).await
    }

    async fn ask(
        &self,
        request: impl FnOnce(HeadAnswer) -> BlockRequest,
    ) -> Result<B256, UndoError> {
        let (answer, answered) = oneshot::channel();
        self.send(request(answer))?;
        answered.await.unwrap_or(Err(UndoError::Stopping))
    }

    fn send(&self, request: BlockRequest) -> Result<(), UndoError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(UndoError::Stopping);
        }
        match self.requests.offer(request) {
            Ok(()) => Ok(()),
            Err(_) if self.requests.is_abandoned() => Err(UndoError::Stopping),
            Err(_) => Err(UndoError::Busy),
        }
    }
}

impl fmt::Debug for BlockClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockClient").finish_non_exhaustive()
    }
}
