//! Runs calls that may take long, away from the threads that serve sockets, a few at a time. The
//! others wait in line up to a bound, so that a flood of heavy calls cannot take the memory or the
//! cores of light ones.

use super::error::Error;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};
use tokio::sync::Semaphore;

/// Heavy calls that may wait for a worker: at a second each, half a minute's work of eight cores.
const WAITING_MAX: usize = 256;
/// Fewest heavy calls run at once, so that one slow call does not stop all others.
const RUNNING_MIN: usize = 2;

/// The line before the workers.
#[derive(Clone, Debug)]
pub(super) struct Workers {
    running: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
}

/// A place in the line, given up when dropped.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Workers {
    /// As many workers as there are cores.
    pub(super) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let running = Arc::new(Semaphore::new(cores.max(RUNNING_MIN)));
        Self { running, waiting: Arc::default() }
    }

    /// Runs `work` on a worker. A caller that goes away leaves the line, but work that has begun
    /// is finished and keeps its worker until then.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let place = Place(Arc::clone(&self.waiting));
        if place.0.fetch_add(1, Relaxed) >= WAITING_MAX {
            return Err(Error::busy(WAITING_MAX));
        }
        let permit = Arc::clone(&self.running).acquire_owned().await;
        drop(place);
        let permit = permit.map_err(Error::internal)?;
        let work = move || {
            let answer = work();
            drop(permit);
            answer
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(answer) => answer,
            Err(error) => Err(Error::internal(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error_and_frees_its_worker() {
        let workers = Workers::new();
        for _ in 0..64 {
            let answer = workers.run::<()>(|| panic!("on purpose")).await;
            assert_eq!(answer.expect_err("failed").code(), -32603);
        }
        assert_eq!(workers.run(|| Ok(7)).await.expect("runs"), 7);
        assert_eq!(workers.waiting.load(Relaxed), 0);
    }

    #[tokio::test]
    async fn the_line_is_bounded() {
        let workers = Workers::new();
        workers.waiting.store(WAITING_MAX, Relaxed);
        assert_eq!(workers.run(|| Ok(7)).await.expect_err("refused").code(), -32005);
        assert_eq!(workers.waiting.load(Relaxed), WAITING_MAX);
    }
}
