//! The RPC side of the pipeline: passes transactions to `submit` and queries about the pool to `ante`, and
//! waits for the result.

use super::{
    ante::{
        BlockPart, Candidates, CombiningStage, Found, KnownTransactions, PoolQuery, SenderTxs,
        TakenTransactions,
    },
    batch::Submitted,
    development::{Develop, DevelopError, Developed, NextBlockSettings},
    ring::Outbox,
    submit::Submissions,
};
use alloy_primitives::{Address, B256, Bytes};
use mempool::{Arrival, Level, PriceBand, Reject, Submitter};
use std::{
    fmt,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::{broadcast, oneshot, watch};

/// A handle for submitting transactions and querying the mempool, from any thread.
#[derive(Clone)]
pub struct PoolClient {
    pub(super) submissions: Arc<Submissions>,
    pub(super) queries: Outbox<PoolQuery>,
    pub(super) combining: CombiningStage,
    pub(super) arrivals: broadcast::Sender<Arrival>,
    pub(super) settings: watch::Receiver<NextBlockSettings>,
    /// The mempool to which transactions are submitted instead of this node's own.
    pub(super) forwarder: Option<Arc<dyn TransactionForwarder>>,
    pub(super) stop: Arc<AtomicBool>,
}

/// Submits transactions to the mempool of another node.
pub trait TransactionForwarder: fmt::Debug + Send + Sync {
    /// Submits a raw transaction and waits for the answer of that mempool.
    fn submit(&self, raw: Bytes) -> Pin<Box<dyn Future<Output = Submitted> + Send + '_>>;
    /// Returns [`PoolClient::nonce`] of that mempool; `None` if queries are not forwarded.
    fn nonce(&self, sender: Address) -> Pin<Box<dyn Future<Output = PooledNonce> + Send + '_>>;
    /// Returns [`PoolClient::counts`] of that mempool; `None` if queries are not forwarded.
    fn counts(&self) -> Pin<Box<dyn Future<Output = PoolCounts> + Send + '_>>;
}

/// The sender's next nonce after its pooled transactions.
pub type PooledNonce = Result<Option<u64>, Reject>;
/// The numbers of executable transactions, and of those behind a nonce gap.
pub type PoolCounts = Result<Option<(usize, usize)>, Reject>;

impl PoolClient {
    /// Submits a raw transaction and waits for the mempool's answer.
    pub async fn submit(&self, raw: Bytes) -> Submitted {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Reject::Busy("the node is stopping").into());
        }
        if let Some(forwarder) = &self.forwarder {
            return forwarder.submit(raw).await;
        }
        self.submissions.submit(raw, Submitter::Client).await
    }

    /// Submits a transaction that another validator has sent. Unlike [`Self::submit`], never forwards it.
    pub async fn submit_of_validator(&self, raw: Bytes) -> Submitted {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Reject::Busy("the node is stopping").into());
        }
        self.submissions.submit(raw, Submitter::Validator).await
    }

    /// Subscribes to every transaction that the pool accepts from now on. A receiver that is too slow loses the
    /// oldest ones.
    pub fn arrivals(&self) -> broadcast::Receiver<Arrival> {
        self.arrivals.subscribe()
    }

    /// Returns the sender's next nonce after its pooled transactions and the newest executed block, which may not
    /// be published yet; `None` if there is no pool.
    ///
    /// # Errors
    /// If too many queries are waiting. The same applies to the following methods.
    pub async fn nonce(&self, sender: Address) -> PooledNonce {
        if let Some(forwarder) = &self.forwarder {
            return forwarder.nonce(sender).await;
        }
        self.ask(|reply| PoolQuery::Nonce(sender, reply)).await
    }

    /// Returns [`Self::nonce`] of this node's own pool and blocks the thread until it is known.
    ///
    /// # Errors
    /// See [`Self::nonce`].
    ///
    /// # Panics
    /// If called on a thread that runs futures.
    pub fn wait_for_nonce(&self, sender: Address) -> Result<Option<u64>, Reject> {
        let answer = self.put(|reply| PoolQuery::Nonce(sender, reply))?;
        Ok(answer.and_then(|answer| answer.blocking_recv().ok()))
    }

    /// Returns the pooled transaction with this hash.
    ///
    /// # Errors
    /// See [`Self::nonce`].
    pub async fn transaction(&self, hash: B256) -> Result<Found, Reject> {
        let found = self.ask(|reply| PoolQuery::Transaction(hash, reply)).await?;
        Ok(found.unwrap_or(Found::NotPooled { built: 0 }))
    }

    /// Returns the pooled transactions with these hashes, in the same order; `None` for a hash that is not pooled, and
    /// for every hash if there is no pool.
    ///
    /// # Errors
    /// See [`Self::nonce`].
    pub async fn known(&self, hashes: Vec<B256>) -> Result<KnownTransactions, Reject> {
        let count = hashes.len();
        let known = self.ask(|reply| PoolQuery::Known(hashes, reply)).await?;
        Ok(known.unwrap_or_else(|| vec![None; count]))
    }

    /// Returns the pooled transactions of `sender`, or of all senders in any order.
    ///
    /// # Errors
    /// See [`Self::nonce`].
    pub async fn content(&self, sender: Option<Address>) -> Result<Vec<SenderTxs>, Reject> {
        Ok(self.ask(|reply| PoolQuery::Content(sender, reply)).await?.unwrap_or_default())
    }

    /// Returns the best transactions for a part of the next block; `None` if there is no pool.
    ///
    /// # Errors
    /// See [`Self::nonce`].
    pub async fn candidates(&self, part: BlockPart) -> Result<Option<Candidates>, Reject> {
        self.candidates_without(part, Vec::new()).await
    }

    /// Does the same as [`Self::candidates`] for a block whose recent ancestors are not part of the chain yet. `taken`
    /// holds the hashes of their transactions, which are not selected.
    ///
    /// # Errors
    /// See [`Self::nonce`].
    pub async fn candidates_without(
        &self,
        part: BlockPart,
        taken: TakenTransactions,
    ) -> Result<Option<Candidates>, Reject> {
        self.ask(|reply| PoolQuery::Candidates(part, taken, reply)).await
    }

    /// Wakes the ante stage to reschedule block production after a change of
    /// [`MiningControl`](super::MiningControl).
    pub fn wake(&self) {
        self.combining.wake();
    }

    /// Sends a request from a client of a development chain, and waits until it has taken effect. Requested blocks are
    /// produced afterwards.
    ///
    /// # Errors
    /// [`DevelopError`].
    pub async fn develop(&self, request: Develop) -> Result<Developed, DevelopError> {
        let answer = self.ask(|reply| PoolQuery::Develop(request, reply)).await?;
        answer.unwrap_or(Err(DevelopError::NoProduction))
    }

    /// Returns what clients of a development chain have set for the next block. On other chains, nothing is set.
    pub fn next_block_settings(&self) -> NextBlockSettings {
        *self.settings.borrow()
    }

    /// Returns how full the pool is.
    ///
    /// # Errors
    /// See [`Self::nonce`].
    pub async fn level(&self) -> Result<Level, Reject> {
        Ok(self.ask(PoolQuery::Level).await?.unwrap_or_default())
    }

    /// Returns the numbers of executable transactions and of those behind a nonce gap, in the mempool to which this
    /// node submits transactions.
    ///
    /// # Errors
    /// See [`Self::nonce`].
    pub async fn counts(&self) -> Result<(usize, usize), Reject> {
        if let Some(forwarder) = &self.forwarder {
            return Ok(forwarder.counts().await?.unwrap_or_default());
        }
        let level = self.level().await?;
        Ok((level.pending, level.queued))
    }

    /// Returns whether the node is stopping: it finishes the transactions that it has accepted, and accepts no more.
    pub fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns the executable transactions, grouped by price. This reads the whole pool, which takes some milliseconds.
    ///
    /// # Errors
    /// See [`Self::nonce`].
    pub async fn price_bands(&self) -> Result<Vec<PriceBand>, Reject> {
        Ok(self.ask(PoolQuery::Prices).await?.unwrap_or_default())
    }

    /// Sends a query and waits for its result; `None` if there is no pool.
    async fn ask<T>(
        &self,
        query: impl FnOnce(oneshot::Sender<T>) -> PoolQuery,
    ) -> Result<Option<T>, Reject> {
        match self.put(query)? {
            // If the pipeline ends, the query is dropped.
            Some(answer) => Ok(answer.await.ok()),
            None => Ok(None),
        }
    }

    /// Puts a query into ante's ring and runs or wakes the stage; `None` if ante has ended.
    fn put<T>(
        &self,
        query: impl FnOnce(oneshot::Sender<T>) -> PoolQuery,
    ) -> Result<Option<oneshot::Receiver<T>>, Reject> {
        let (reply, answer) = oneshot::channel();
        match self.queries.offer(query(reply)) {
            Ok(()) => {
                self.combining.run_combined();
                Ok(Some(answer))
            }
            Err(_) if self.queries.is_abandoned() => Ok(None),
            Err(_) => Err(Reject::Busy("too many pool queries are waiting, try again")),
        }
    }
}

impl fmt::Debug for PoolClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolClient").finish_non_exhaustive()
    }
}
