//! The pipeline's side of an RPC call: hands a transaction to `submit`, a question about the pool to
//! `ante`, and waits for the answer.

use super::{
    ante::{BlockPart, Candidates, Desk, Found, PoolQuery, SenderTxs},
    arrival::Arrival,
    batch::Submitted,
    ring::Outbox,
    submit::Submissions,
};
use alloy_primitives::{Address, B256, Bytes};
use mempool::{Level, Reject};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::{broadcast, oneshot};

/// Submits transactions and asks about the mempool, from any thread.
#[derive(Clone)]
pub struct PoolClient {
    pub(super) submissions: Arc<Submissions>,
    pub(super) queries: Outbox<PoolQuery>,
    pub(super) desk: Desk,
    pub(super) arrivals: broadcast::Sender<Arrival>,
    pub(super) stop: Arc<AtomicBool>,
}

impl PoolClient {
    /// Submits a raw transaction and waits for the mempool's answer.
    pub async fn submit(&self, raw: Bytes) -> Submitted {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Reject::Busy("the node is stopping").into());
        }
        self.submissions.submit(raw).await
    }

    /// Every transaction the pool takes from now on. Who does not keep up loses the oldest.
    pub fn arrivals(&self) -> broadcast::Receiver<Arrival> {
        self.arrivals.subscribe()
    }

    /// The sender's next nonce after what it has pooled and the newest block built, which may not be
    /// published yet; `None` when there is no pool.
    ///
    /// # Errors
    /// When the pool is too busy to be asked; so with all that follow.
    pub async fn nonce(&self, sender: Address) -> Result<Option<u64>, Reject> {
        self.ask(|reply| PoolQuery::Nonce(sender, reply)).await
    }

    /// As [`Self::nonce`], for a thread that may wait.
    ///
    /// # Errors
    /// See [`Self::nonce`].
    ///
    /// # Panics
    /// On a thread that runs futures.
    pub fn wait_for_nonce(&self, sender: Address) -> Result<Option<u64>, Reject> {
        let answer = self.put(|reply| PoolQuery::Nonce(sender, reply))?;
        Ok(answer.and_then(|answer| answer.blocking_recv().ok()))
    }

    /// The pooled transaction with this hash.
    ///
    /// # Errors
    /// See [`Self::nonce`].
    pub async fn transaction(&self, hash: B256) -> Result<Found, Reject> {
        let found = self.ask(|reply| PoolQuery::Transaction(hash, reply)).await?;
        Ok(found.unwrap_or(Found::NotPooled { built: 0 }))
    }

    /// What `sender` has pooled, or everybody has. In no order of senders.
    ///
    /// # Errors
    /// See [`Self::nonce`].
    pub async fn content(&self, sender: Option<Address>) -> Result<Vec<SenderTxs>, Reject> {
        Ok(self.ask(|reply| PoolQuery::Content(sender, reply)).await?.unwrap_or_default())
    }

    /// The best transactions for a part of the next block; `None` when there is no pool.
    ///
    /// # Errors
    /// See [`Self::nonce`].
    pub async fn candidates(&self, part: BlockPart) -> Result<Option<Candidates>, Reject> {
        self.ask(|reply| PoolQuery::Candidates(part, reply)).await
    }

    /// How full the pool is.
    ///
    /// # Errors
    /// See [`Self::nonce`].
    pub async fn level(&self) -> Result<Level, Reject> {
        Ok(self.ask(PoolQuery::Level).await?.unwrap_or_default())
    }

    /// `None` when there is no pool.
    async fn ask<T>(
        &self,
        query: impl FnOnce(oneshot::Sender<T>) -> PoolQuery,
    ) -> Result<Option<T>, Reject> {
        match self.put(query)? {
            // The end of the pipeline drops the question.
            Some(answer) => Ok(answer.await.ok()),
            None => Ok(None),
        }
    }

    /// Puts a question where ante finds it, who may be the asker himself; `None` once ante has ended.
    fn put<T>(
        &self,
        query: impl FnOnce(oneshot::Sender<T>) -> PoolQuery,
    ) -> Result<Option<oneshot::Receiver<T>>, Reject> {
        let (reply, answer) = oneshot::channel();
        match self.queries.offer(query(reply)) {
            Ok(()) => {
                self.desk.attend();
                Ok(Some(answer))
            }
            Err(_) if self.queries.is_abandoned() => Ok(None),
            Err(_) => Err(Reject::Busy("the pool is asked too much, try again")),
        }
    }
}

impl fmt::Debug for PoolClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolClient").finish_non_exhaustive()
    }
}
