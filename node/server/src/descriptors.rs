//! Raises the limit of file descriptors, and divides the descriptors among the connections of all servers.
//!
//! A process without free descriptors cannot accept connections, rewrite its journal or read a key. The connection
//! limits of all servers together therefore leave descriptors for the node's own files.

use crate::listen::MAX_RESERVED;
use budget::MAX_METRICS_CONNECTIONS;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors for the node's own files: standard streams, the home lock, two environments with their lock
/// files, the journal and its next file, listeners, the runtimes of the servers, signals, and files that are
/// open for a short time, such as keyrings.
const OWN_FILES: u64 = 72;
/// Connections of the metrics server. They are few, and their limit is not lowered, because monitors must be
/// able to observe a node that runs out of descriptors.
const METRICS_CONNECTIONS: u64 = MAX_METRICS_CONNECTIONS as u64;
/// Connections for health checks that REST, gRPC, CometBFT RPC, metrics and pages accept above their limits.
const RESERVED_CONNECTIONS: u64 = 5 * MAX_RESERVED as u64;
/// Descriptors of a thread that serves JSON-RPC: two for its epoll instance, one for wake-ups and one for signals.
const FILES_PER_THREAD: u64 = 4;
/// The assumed limit if the system has none. It exceeds the connection limits of all servers.
const UNLIMITED: u64 = 1 << 30;

/// Raises the limit of open files to the hard limit of the process, as Go's runtime does, and
/// returns it. The usual limit of 1,024 is lower than the connection limits of the servers.
pub fn raise_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "cannot raise the open-files limit (ulimit -n)");
    }
    getrlimit(Resource::Nofile).current.unwrap_or(UNLIMITED)
}

/// The number of descriptors for connections, except those of the metrics server, in a process that may have
/// `open_files` descriptors and serves JSON-RPC with `threads` threads. It is at least 1.
pub fn for_connections(open_files: u64, threads: usize) -> u64 {
    let own = own_files(threads);
    // If the limit is very low, connections get half of the descriptors above half of the reserve, because the node
    // rarely needs the whole reserve.
    open_files.saturating_sub(own).max(open_files.saturating_sub(own / 2) / 2).max(1)
}

const fn own_files(threads: usize) -> u64 {
    OWN_FILES + METRICS_CONNECTIONS + RESERVED_CONNECTIONS + FILES_PER_THREAD * threads as u64
}

/// Divides `available` connections among servers that want these numbers. A server that wants less than an equal
/// share gets what it wants, and the others get equal shares of the rest. Each gets at least 1.
pub fn share(available: u64, wanted: &[u32]) -> Vec<u32> {
    let mut by_size: Vec<_> = (0..wanted.len()).collect();
    by_size.sort_by_key(|at| wanted[*at]);
    let mut shares = vec![0; wanted.len()];
    let mut rest = available;
    for (done, at) in by_size.into_iter().enumerate() {
        let equal = rest / (wanted.len() - done) as u64;
        let share = u64::from(wanted[at]).min(equal).max(1);
        shares[at] = u32::try_from(share).expect("it is at most the wanted number, or 1");
        rest = rest.saturating_sub(share);
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The default limits of JSON-RPC, REST, gRPC, CometBFT RPC, pages and TCP ingest, and a low one.
    const DEFAULTS: [u32; 7] = [1000, 1000, 1000, 1000, 500, 1024, 64];

    #[test]
    fn servers_keep_their_limits_if_the_open_files_limit_allows() {
        let all = DEFAULTS.iter().sum::<u32>().into();
        assert_eq!(share(all, &DEFAULTS), DEFAULTS);
        assert_eq!(share(UNLIMITED, &DEFAULTS), DEFAULTS);
        assert_eq!(share(all - 1, &DEFAULTS), [1000, 1000, 1000, 1000, 500, 1023, 64]);
    }

    #[test]
    fn connections_and_own_files_stay_within_the_limit() {
        for open_files in [600, 1023, 1024, 1025, 4096, 65_536] {
            for threads in [1, 2, 16] {
                let available = for_connections(open_files, threads);
                let shares = share(available, &DEFAULTS);
                let sum: u64 = shares.iter().map(|share| u64::from(*share)).sum();
                assert!(sum <= available, "{shares:?} of {available}");
                assert!(available + own_files(threads) <= open_files);
            }
        }
        assert_eq!(for_connections(1024, 2), 1024 - 72 - 32 - 40 - 8);
        assert_eq!(share(888, &DEFAULTS), [137, 137, 137, 138, 137, 138, 64]);
    }

    #[test]
    fn every_server_gets_at_least_one_connection() {
        for open_files in 0..200 {
            let available = for_connections(open_files, 2);
            assert!(share(available, &DEFAULTS).iter().all(|share| *share >= 1));
        }
        assert_eq!(share(7, &[]), Vec::<u32>::new());
    }
}
