//! The signal that a server stops.

use tokio::sync::watch;

/// Tells the tasks of a server to stop. Dropping it stops them too.
#[derive(Debug)]
pub struct Stop(watch::Sender<bool>);

/// For tasks of a server, and for those that outlive their HTTP request, such as WebSockets: the shutdown of the server
/// waits for them, up to a limit, so that they can complete a response or send a close frame.
#[derive(Clone, Debug)]
pub struct Stopping(watch::Receiver<bool>);

impl Stop {
    /// The two ends of a signal that has not been given.
    pub fn new() -> (Self, Stopping) {
        let (sender, receiver) = watch::channel(false);
        (Self(sender), Stopping(receiver))
    }

    /// Gives the signal.
    pub fn signal(&self) {
        self.0.send_replace(true);
    }

    /// Waits until no task can wait for the signal any more.
    pub async fn all_stopped(&self) {
        self.0.closed().await;
    }
}

impl Stopping {
    /// Ready when the server is shutting down.
    pub async fn wait(&mut self) {
        // An error means that the server was dropped, which also stops it.
        let _ = self.0.wait_for(|stop| *stop).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn tasks_wait_until_the_signal_or_the_end_of_the_server() {
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
