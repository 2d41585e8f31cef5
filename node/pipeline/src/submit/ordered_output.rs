//! Sends recovered batches to ante in the order in which they were taken from the queue, and runs ante.

use crate::{
    ante::CombiningStage,
    batch::{Recovered, Reply},
    reorder::Reorder,
    ring::Outbox,
    sync::{Mutex, MutexGuard},
};
use mempool::Reject;
use std::sync::PoisonError;

/// The error at shutdown.
pub(super) const STOPPING: Reject = Reject::Busy("the node is stopping");
/// The error if too many transactions are waiting.
pub(super) const FULL: Reject =
    Reject::Busy("too many transactions are being submitted, try again");

/// Passes batches on to ante from the tasks that recover submissions.
#[derive(Debug)]
pub(super) struct OrderedOutput {
    output: Mutex<Output>,
    combining: CombiningStage,
}

#[derive(Debug)]
struct Output {
    /// `None` after shutdown.
    out: Option<Outbox<Vec<Recovered>>>,
    order: Reorder<Vec<Recovered>>,
}

impl OrderedOutput {
    /// Creates an output that sends to `out`, which `combining` reads, until [`Self::close`].
    pub(super) fn new(out: Outbox<Vec<Recovered>>, combining: CombiningStage) -> Self {
        Self { output: Mutex::new(Output { out: Some(out), order: Reorder::new() }), combining }
    }

    /// Sends a batch, and the batches that waited for it, once all earlier batches have been sent. Then runs ante if
    /// no other thread is running it, and answers the calls in batches that ante cannot receive.
    pub(super) fn send(&self, seq: u64, recovered: Vec<Recovered>) {
        let mut refused = Vec::new();
        {
            let mut output = self.output();
            output.order.put(seq, recovered);
            while let Some(batch) = output.order.take() {
                refused.extend(output.offer(batch).err());
            }
        }
        self.combining.run_combined();
        for (refused, why) in refused {
            for (_, reply) in refused {
                if let Reply::Rpc(caller) = reply {
                    caller.answer(Err(why.clone().into()));
                }
            }
        }
    }

    /// Shuts down: sends no further batches, so that the later stages drain.
    pub(super) fn close(&self) {
        drop(self.output().out.take());
        self.combining.wake();
    }

    fn output(&self) -> MutexGuard<'_, Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Output {
    /// Puts a batch into the ring, or returns it with the reason.
    fn offer(&self, recovered: Vec<Recovered>) -> Result<(), (Vec<Recovered>, Reject)> {
        match &self.out {
            Some(_) if recovered.is_empty() => Ok(()),
            None => Err((recovered, STOPPING)),
            Some(out) => out
                .offer(recovered)
                .map_err(|recovered| (recovered, if out.is_abandoned() { STOPPING } else { FULL })),
        }
    }
}
