//! Runs blocking work on Tokio's threads for it. If a client disconnects, its work keeps its permit until it has ended,
//! so disconnecting does not allow more work.

use crate::error::PageError;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Runs work within a limit of concurrent calls.
#[derive(Debug)]
pub(crate) struct Workers(Arc<Semaphore>);

impl Workers {
    pub(crate) fn new(count: usize) -> Self {
        Self(Arc::new(Semaphore::new(count)))
    }

    /// Waits for a permit and runs `work`. If the caller is dropped while it waits, `work` does not run.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, PageError> + Send + 'static,
    ) -> Result<T, PageError> {
        let permit = Arc::clone(&self.0).acquire_owned().await.map_err(PageError::failed)?;
        let work = move || {
            let _permit = permit;
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
    async fn work_keeps_its_permit_after_its_caller_is_dropped() {
        let workers = Arc::new(Workers::new(1));
        let (started, has_started) = oneshot::channel();
        let (release, released) = mpsc::channel::<()>();
        let caller = tokio::spawn({
            let workers = Arc::clone(&workers);
            async move {
                let work = move || {
                    started.send(()).unwrap();
                    // The work ends when the test drops the sender.
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
