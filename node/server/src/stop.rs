//! Signals the tasks of a server to stop, and waits for them.

use tokio::sync::watch;

/// Signals the tasks of a server to stop, with [`Self::signal`] or when dropped.
#[derive(Debug)]
pub struct Stop(watch::Sender<bool>);

/// Held by the tasks of a server, and by those that outlive their HTTP request, such as WebSockets. The shutdown waits
/// for them, up to a limit, so that they can complete a response or send a close frame.
#[derive(Clone, Debug)]
pub struct Stopping(watch::Receiver<bool>);

impl Stop {
    /// The two ends of a signal that has not been sent.
    pub fn new() -> (Self, Stopping) {
        let (sender, receiver) = watch::channel(false);
        (Self(sender), Stopping(receiver))
    }

    /// Sends the signal.
    pub fn signal(&self) {
        self.0.send_replace(true);
    }

    /// Waits until every task has dropped its [`Stopping`].
    pub async fn all_stopped(&self) {
        self.0.closed().await;
    }
}

impl Stopping {
    /// Waits until the server shuts down.
    pub async fn wait(&mut self) {
        // An error means that the `Stop` was dropped, which is a signal too.
        let _ = self.0.wait_for(|stop| *stop).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn tasks_wait_until_the_signal_is_sent_or_dropped() {
        let (stop, mut stopping) = Stop::new();
        let mut other = stopping.clone();
        assert!(stopping.wait().now_or_never().is_none());
        stop.signal();
        assert!(stopping.wait().now_or_never().is_some());
        drop(stopping);
        assert!(stop.all_stopped().now_or_never().is_none(), "one task is left");
        assert!(other.wait().now_or_never().is_some());
        drop(other);
        assert!(stop.all_stopped().now_or_never().is_some());
        let (stop, mut stopping) = Stop::new();
        drop(stop);
        assert!(stopping.wait().now_or_never().is_some());
    }
}
