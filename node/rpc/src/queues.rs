//! Runs calls that may take long in two queues, each with its own threads, which do not serve sockets. One queue is for
//! work that takes milliseconds (`eth_call`, large blocks), and the other is for scans and traces, so that long calls
//! do not delay short ones.
//!
//! Input: calls with their client. Output: their results. State: the waiting calls in a [`FairQueue`], which limits
//! their number and determines their order. The threads have a lower priority than those of the pipeline and of the
//! sockets, so that scans do not delay blocks and reads.

use crate::client::Client;
use rpc_eth::method::QueueClass;
use rpc_types::error::Error;
use server::{
    fair_queue::FairQueue,
    interrupt::{Caller, Interrupt},
};
use std::{
    net::{IpAddr, Ipv4Addr},
    panic::AssertUnwindSafe,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::oneshot;

/// Niceness of the threads of each queue, as in `nice(1)`.
const SHORT_NICE: i32 = 5;
const LONG_NICE: i32 = 15;

/// The decision about a waiting call.
#[derive(Clone, Copy, Debug)]
enum Decision {
    /// The call runs.
    Run,
    /// The call is refused in favour of another address, because this limit was reached.
    Refused(usize),
}

type Job = Box<dyn FnOnce(Decision) + Send>;

/// The work of a call that has not started. It is dropped with its caller, because the parameters may be large.
#[derive(Debug)]
struct CancellableWork<W>(Arc<Mutex<Option<W>>>);

impl<W> CancellableWork<W> {
    fn take(&self) -> Option<W> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<W> Drop for CancellableWork<W> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

#[derive(Default)]
struct QueueState {
    waiting: FairQueue<Job>,
    is_closed: bool,
}

/// A queue that several threads serve.
#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    wake: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs calls until the queue is closed.
    fn serve(&self) {
        let mut state = self.lock();
        loop {
            match state.waiting.pop() {
                _ if state.is_closed => return,
                Some(job) => {
                    drop(state);
                    job(Decision::Run);
                    state = self.lock();
                }
                None => state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// The two queues. When they are dropped, their threads finish the current call and end.
pub(crate) struct CallQueues {
    short: Arc<Queue>,
    long: Arc<Queue>,
}

impl CallQueues {
    /// Starts one thread per core, but at least two, for short calls, and one thread per two cores for long calls.
    pub(crate) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let short = start("rpc-short", cores.max(2), SHORT_NICE);
        let long = start("rpc-long", cores.div_ceil(2), LONG_NICE);
        Self { short, long }
    }

    /// Returns the number of waiting calls in each queue.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        (self.short.lock().waiting.len(), self.long.lock().waiting.len())
    }

    /// Runs `work` in a queue. If the caller disconnects, work that has not started is dropped, and work that has
    /// started can check the interrupt.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        class: QueueClass,
        client: &Client,
        work: impl FnOnce(&Interrupt) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.run_for(class, client.address, client.id, work).await
    }

    /// Does the same as [`Self::run`] for work whose result several clients share. The work is queued under a separate
    /// address, so that earlier calls of one client do not delay the others.
    pub(crate) async fn run_shared<T: Send + 'static>(
        &self,
        class: QueueClass,
        work: impl FnOnce(&Interrupt) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.run_for(class, Ipv4Addr::UNSPECIFIED.into(), 0, work).await
    }

    async fn run_for<T: Send + 'static>(
        &self,
        class: QueueClass,
        address: IpAddr,
        connection: u64,
        work: impl FnOnce(&Interrupt) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let queue = match class {
            QueueClass::Short => &self.short,
            QueueClass::Long => &self.long,
        };
        let (caller, interrupt) = Caller::waiting();
        let (reply, answer) = oneshot::channel();
        let of_caller = CancellableWork(Arc::new(Mutex::new(Some(work))));
        let of_queue = CancellableWork(Arc::clone(&of_caller.0));
        let job = move |decision| {
            let Some(work) = of_queue.take() else { return };
            let result = match decision {
                Decision::Run => std::panic::catch_unwind(AssertUnwindSafe(|| work(&interrupt)))
                    .unwrap_or_else(|_| Err(Error::internal("a call panicked"))),
                Decision::Refused(limit) => Err(Error::busy(limit)),
            };
            // This fails if the caller has disconnected.
            let _ = reply.send(result);
        };
        let pushed = queue.lock().waiting.push(address, connection, Box::new(job));
        if let Some((job, limit)) = pushed.map_err(Error::busy)? {
            job(Decision::Refused(limit));
        }
        queue.wake.notify_one();
        let result = answer.await;
        drop((caller, of_caller));
        result.unwrap_or_else(|_| Err(Error::server("the node is stopping")))
    }
}

fn start(name: &str, threads: usize, nice: i32) -> Arc<Queue> {
    let queue = Arc::<Queue>::default();
    for number in 0..threads {
        let queue = Arc::clone(&queue);
        let builder = std::thread::Builder::new().name(format!("{name}-{number}"));
        let started = builder.spawn(move || {
            // On Linux this sets the priority of the calling thread. If it fails, the thread has the normal priority.
            let _ = rustix::process::setpriority_process(None, nice);
            queue.serve();
        });
        started.expect("a few threads can be started");
    }
    queue
}

impl Drop for CallQueues {
    fn drop(&mut self) {
        for queue in [&self.short, &self.long] {
            let mut state = queue.lock();
            state.is_closed = true;
            // The waiting callers receive an error.
            state.waiting = FairQueue::default();
            drop(state);
            queue.wake.notify_all();
        }
    }
}

impl std::fmt::Debug for CallQueues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallQueues").field("waiting", &self.waiting()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        future::Future,
        task::{Context, Waker},
        time::Duration,
    };

    /// Otherwise clients that connect, send a call and disconnect could fill the memory with parameters.
    #[tokio::test]
    async fn a_waiting_call_is_dropped_with_its_caller() {
        let (queues, client) = (CallQueues::new(), Client::for_tests());
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let ended = Arc::new(Mutex::new(ended));
        let mut busy = Vec::new();
        for _ in 0..threads {
            let ended = Arc::clone(&ended);
            busy.push(Box::pin(queues.run(QueueClass::Long, &client, move |_| {
                // This fails when the test has ended.
                let _ = ended.lock().unwrap().recv();
                Ok(())
            })));
        }
        let parameters = Arc::new(vec![7_u8; 1000]);
        let held = Arc::clone(&parameters);
        let mut call = Box::pin(queues.run(QueueClass::Long, &client, move |_| Ok(held.len())));
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(busy.iter_mut().all(|busy| busy.as_mut().poll(cx).is_pending()));
        assert!(call.as_mut().poll(cx).is_pending());
        assert_eq!(Arc::strong_count(&parameters), 2);
        drop(call);
        assert_eq!(Arc::strong_count(&parameters), 1);
        drop(end);
        for busy in busy {
            busy.await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_frees_its_thread() {
        let (queues, client) = (CallQueues::new(), Client::for_tests());
        for _ in 0..64 {
            let answer =
                queues.run::<()>(QueueClass::Long, &client, |_| panic!("on purpose")).await;
            assert_eq!(answer.expect_err("failed").code(), -32603);
        }
        assert_eq!(queues.run(QueueClass::Long, &client, |_| Ok(7)).await.expect("runs"), 7);
    }

    #[tokio::test]
    async fn running_work_is_interrupted_when_its_caller_disconnects() {
        let (queues, client) = (CallQueues::new(), Client::for_tests());
        let (send_begun, begun) = oneshot::channel();
        let (send_ended, ended) = oneshot::channel();
        let mut call = Box::pin(queues.run(QueueClass::Short, &client, move |interrupt| {
            let deadline = interrupt.within(Duration::from_secs(3600));
            send_begun.send(()).unwrap();
            while !deadline.passed() {
                std::thread::yield_now();
            }
            send_ended.send(()).unwrap();
            Ok(())
        }));
        tokio::select! {
            _ = &mut call => panic!("the call does not end by itself"),
            begun = begun => begun.unwrap(),
        }
        drop(call);
        ended.await.expect("the work ends");
    }
}
