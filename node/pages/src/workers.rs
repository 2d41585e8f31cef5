//! Work that may block, on threads of its own. A client that disconnects does not make room for more work: its place is
//! free when the work has ended.

use crate::error::PageError;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Runs a limited number of pieces of work at a time.
#[derive(Debug)]
pub(crate) struct Workers(Arc<Semaphore>);

impl Workers {
    pub(crate) fn new(count: usize) -> Self {
        Self(Arc::new(Semaphore::new(count)))
    }

    /// Waits for a place and runs `work`. A caller that is dropped while it waits leaves nothing behind.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, PageError> + Send + 'static,
    ) -> Result<T, PageError> {
        let place = Arc::clone(&self.0).acquire_owned().await.map_err(PageError::failed)?;
        let work = move || {
            let _place = place;
            work()
        };
        tokio::task::spawn_blocking(work).await.map_err(PageError::failed)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn work_of_a_caller_that_is_gone_keeps_its_place() {
        let workers = Arc::new(Workers::new(1));
        let (started, has_started) = oneshot::channel();
        let (release, released) = mpsc::channel::<()>();
        let caller = tokio::spawn({
            let workers = Arc::clone(&workers);
            async move {
                let work = move || {
                    started.send(()).unwrap();
                    // It ends when the test drops the sender.
                    let _ = released.recv();
                    Ok(())
                };
                workers.run(work).await
            }
        });
        has_started.await.unwrap();
        caller.abort();
        assert!(caller.await.unwrap_err().is_cancelled());
        assert_eq!(workers.0.available_permits(), 0);
        drop(release);
        assert_eq!(workers.run(|| Ok(7)).await.unwrap(), 7);
    }
}
