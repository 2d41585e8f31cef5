//! Waits for the signals that shut down the node.

use std::{future::Future, pin::pin, time::Duration};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Receives SIGINT, SIGTERM and, unless it is ignored, SIGHUP.
pub(super) struct Interrupts {
    /// Sent by Ctrl-C.
    interrupt: Signal,
    terminate: Signal,
    /// Sent when the terminal is closed. `None` if the node was started with `nohup`.
    hangup: Option<Signal>,
}

impl Interrupts {
    pub(super) fn listen() -> std::io::Result<Self> {
        let interrupt = signal(SignalKind::interrupt())?;
        let terminate = signal(SignalKind::terminate())?;
        let hangup = (!is_hangup_ignored()).then(|| signal(SignalKind::hangup())).transpose()?;
        Ok(Self { interrupt, terminate, hangup })
    }

    /// Waits for any of the signals.
    pub(super) async fn recv(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = hangup => {}
        }
    }
}

/// Returns whether the process was started with SIGHUP ignored, for example by `nohup`. Detected on Linux only.
fn is_hangup_ignored() -> bool {
    const SIGHUP_BIT: u64 = 1;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & SIGHUP_BIT != 0)
}

/// Waits for a signal, until `is_over` is true or until `superseded` completes; in that last case, returns its output.
pub(super) async fn until_over<T>(
    is_over: impl Fn() -> bool,
    mut interrupts: Interrupts,
    superseded: impl Future<Output = T>,
) -> Option<T> {
    let mut tick = tokio::time::interval(Duration::from_millis(200));
    let mut superseded = pin!(superseded);
    loop {
        tokio::select! {
            () = interrupts.recv() => return None,
            reason = &mut superseded => return Some(reason),
            _ = tick.tick() => if is_over() { return None },
        }
    }
}
