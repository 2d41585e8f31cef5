//! Parses and answers large bodies on separate threads. On a thread that serves sockets, one large body would delay
//! all other connections for tens of milliseconds.
//!
//! Input: bodies. Output: responses. State: the queue of bodies, by address and connection. Limits: each thread parses
//! one body at a time, and [`FairPermits`] bounds the queue. If it is full, the body is refused.
//!
//! A thread is released when the body has been parsed, so a call that waits for the pipeline does not delay the next
//! body.

use crate::client::Client;
use rpc_types::error::Error;
use server::fair_permits::{FairPermit, FairPermits, NoPermit};
use std::{future::Future, sync::Arc};
use tokio::{runtime::Handle, task::JoinSet};

/// A body of at least this many bytes is large. A smaller one is parsed in tens of microseconds. With hundreds of
/// connections on a thread, each may have to wait for one body from every other connection.
pub(crate) const LARGE_BODY_BYTES: usize = 16 * 1024;

/// The threads for large bodies, and the queue for them.
#[derive(Debug)]
pub(crate) struct LargeBodies {
    threads: Vec<Handle>,
    /// A permit for each thread.
    permits: Arc<FairPermits>,
}

impl LargeBodies {
    pub(crate) fn new(threads: Vec<Handle>) -> Self {
        let permits = FairPermits::new(threads.len());
        Self { threads, permits }
    }

    /// Runs `answer` on a thread when this client receives a permit. `answer` releases the thread by dropping the permit.
    ///
    /// # Errors
    /// Returns an error if too many bodies wait, `answer` panics, or the node stops.
    pub(crate) async fn answer<T, F>(
        &self,
        client: &Client,
        answer: impl FnOnce(FairPermit) -> F,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let permit = self.permit(client).await?;
        let thread = &self.threads[permit.number()];
        // The set ends the task if the caller is dropped.
        let mut task = JoinSet::new();
        task.spawn_on(answer(permit), thread);
        match task.join_next().await {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(error)) if error.is_panic() => Err(Error::internal(error)),
            _ => Err(Error::server("the node is stopping")),
        }
    }

    async fn permit(&self, client: &Client) -> Result<FairPermit, Error> {
        let permit = self.permits.acquire(client.address, client.id).await;
        permit.map_err(|refused| match refused {
            NoPermit::Full(limit) => Error::busy(limit),
            NoPermit::Stopping => Error::server(refused.to_string()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::Threads;
    use std::{
        net::IpAddr,
        pin::Pin,
        sync::mpsc,
        task::{Context, Poll, Waker},
    };

    fn client(id: u64, last: u8) -> Client {
        Client { id, address: IpAddr::from([10, 0, 0, last]), ..Client::for_tests() }
    }

    fn poll<F: Future>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
        future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test]
    async fn addresses_are_served_round_robin_while_a_thread_is_busy() {
        let threads = Threads::start(1).unwrap();
        let bodies = Arc::new(LargeBodies::new(threads.large()));
        let flood = client(1, 1);
        let other = client(2, 2);
        let (begun, begins) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let begun_by = |name: &'static str| {
            let begun = begun.clone();
            move |permit: FairPermit| async move {
                begun.send((name, std::thread::current().name().map(str::to_owned))).unwrap();
                drop(permit);
            }
        };
        // This body holds the only thread, as a body of many megabytes would.
        let blocking = bodies.answer(&flood, |permit| async move {
            ended.recv().unwrap();
            drop(permit);
        });
        let mut blocking = Box::pin(blocking);
        assert!(poll(&mut blocking).is_pending());
        let mut all = Vec::new();
        for (client, name, count) in [(&flood, "flood", 100), (&other, "other", 1)] {
            for _ in 0..count {
                let mut answer = Box::pin(bodies.answer(client, begun_by(name)));
                assert!(poll(&mut answer).is_pending());
                all.push(answer);
            }
        }
        // This thread plays the role of one that serves sockets, so no body may run on it.
        assert!(begins.try_recv().is_err());
        end.send(()).unwrap();
        blocking.await.unwrap();
        for answered in futures_util::future::join_all(all).await {
            answered.unwrap();
        }
        let order: Vec<_> = begins.try_iter().collect();
        assert!(order.iter().all(|(_, thread)| thread.as_deref() == Some("large-0")));
        assert_eq!(order.len(), 101);
        assert_eq!(order[1].0, "other", "it waits for one body of the flood");
    }

    #[tokio::test]
    async fn callers_that_disconnect_leave_the_queue() {
        let threads = Threads::start(1).unwrap();
        let bodies = Arc::new(LargeBodies::new(threads.large()));
        let client = client(1, 1);
        let permit = bodies.permit(&client).await.unwrap();
        let mut waiting = Vec::new();
        let refused = loop {
            let mut next = Box::pin(bodies.permit(&client));
            match poll(&mut next) {
                Poll::Pending => waiting.push(next),
                Poll::Ready(permit) => {
                    break permit.expect_err("the number of waiting bodies is limited");
                }
            }
        };
        assert_eq!(refused.code(), -32005);
        let last = waiting.pop().unwrap();
        drop(waiting);
        drop(permit);
        drop(last.await.unwrap());
        assert_eq!(bodies.permits.free(), 1);
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_frees_the_thread() {
        let threads = Threads::start(1).unwrap();
        let bodies = Arc::new(LargeBodies::new(threads.large()));
        let client = client(1, 1);
        let failed = bodies.answer(&client, |permit| async move {
            let _permit = permit;
            panic!("on purpose")
        });
        let failed: Result<(), _> = failed.await;
        assert_eq!(failed.expect_err("it failed").code(), -32603);
        assert_eq!(bodies.permits.free(), 1);
    }
}
