//! Watches a node from outside: its memory, and its health check, which uses a new connection each time.

use crate::cpu::Process;
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// Interval between observations.
const PERIOD: Duration = Duration::from_millis(100);
/// Timeout of a health check.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(2);

/// Observes the health and the memory of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Monitor {
    metrics: Option<SocketAddr>,
    process: Option<Process>,
}

/// The observations of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Observed {
    /// Maximum anonymous memory in bytes; 0 if the process is unknown.
    pub(super) memory: u64,
    pub(super) health_answered: u64,
    pub(super) health_failed: u64,
    pub(super) health_slowest: Duration,
}

impl Monitor {
    pub(super) const fn new(metrics: Option<SocketAddr>, process: Option<Process>) -> Self {
        Self { metrics, process }
    }

    /// Observes the node until `stop` is set.
    pub(super) fn run(&self, stop: &AtomicBool) -> Observed {
        let mut observed = Observed::default();
        while !stop.load(Relaxed) {
            let memory = self.process.and_then(|process| process.memory("RssAnon:"));
            observed.memory = observed.memory.max(memory.unwrap_or(0));
            if let Some(metrics) = self.metrics {
                let begun = Instant::now();
                let healthy = is_healthy(metrics);
                observed.health_slowest = observed.health_slowest.max(begun.elapsed());
                match healthy {
                    Ok(true) => observed.health_answered += 1,
                    Ok(false) | Err(_) => observed.health_failed += 1,
                }
            }
            std::thread::park_timeout(PERIOD);
        }
        observed
    }
}

fn is_healthy(metrics: SocketAddr) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect_timeout(&metrics, HEALTH_TIMEOUT)?;
    stream.set_read_timeout(Some(HEALTH_TIMEOUT))?;
    stream.set_write_timeout(Some(HEALTH_TIMEOUT))?;
    write!(stream, "GET /health HTTP/1.1\r\nHost: {metrics}\r\nConnection: close\r\n\r\n")?;
    let mut response = Vec::new();
    stream.take(64 * 1024).read_to_end(&mut response)?;
    Ok(response.starts_with(b"HTTP/1.1 200"))
}
