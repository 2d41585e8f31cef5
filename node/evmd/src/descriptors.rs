//! File descriptors: the limit of the process, and how many of them connections may take.
//!
//! A process without free descriptors cannot accept connections, rewrite its journal or read a key. So the
//! limits of all servers together leave a reserve for the node's own files.

use budget::MAX_METRICS_CONNECTIONS;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use server::listen::MAX_RESERVED;

/// Descriptors for the node's own files: standard streams, the home lock, two environments with their
/// lock files, the journal and its next file, listeners, the runtime of the servers, signals, and some
/// files that are open for a moment, such as keyrings.
const OWN_FILES: u64 = 64;
/// Connections of the metrics server, which are few and are not lowered: monitors must see a node that is
/// short of descriptors.
const METRICS_CONNECTIONS: u64 = MAX_METRICS_CONNECTIONS as u64;
/// Connections that REST, gRPC, CometBFT RPC and metrics accept above their limits, for health checks.
const RESERVED_CONNECTIONS: u64 = 4 * MAX_RESERVED as u64;
/// Descriptors of a thread that serves JSON-RPC: its epoll instance, its wake-up, and its signals.
const FILES_PER_THREAD: u64 = 4;
/// The limit that is assumed if the system has none: more than all servers accept.
const UNLIMITED: u64 = 1 << 30;

/// Raises the limit of open files to the highest value that the system allows (as Go's runtime does), and
/// returns it. The usual limit of 1,024 is less than the connections that servers accept.
pub fn raise_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files cannot be raised (ulimit -n)");
    }
    getrlimit(Resource::Nofile).current.unwrap_or(UNLIMITED)
}

/// The number of descriptors that connections may use, apart from those of the metrics server, in a process that
/// may have `open_files` descriptors and serves JSON-RPC with `threads` threads. At least 1, so that [`share`] has
/// something to share.
pub fn for_connections(open_files: u64, threads: usize) -> u64 {
    let own = own_files(threads);
    // With a very low limit the reserve is halved: the node rarely needs all of it.
    open_files.saturating_sub(own).max(open_files.saturating_sub(own / 2) / 2).max(1)
}

const fn own_files(threads: usize) -> u64 {
    OWN_FILES + METRICS_CONNECTIONS + RESERVED_CONNECTIONS + FILES_PER_THREAD * threads as u64
}

/// Shares `available` connections among servers that want this many each. A server that wants little gets
/// it; the others get the same number. Each gets at least 1.
pub fn share(available: u64, wanted: &[u32]) -> Vec<u32> {
    let mut by_size: Vec<_> = (0..wanted.len()).collect();
    by_size.sort_by_key(|at| wanted[*at]);
    let mut shares = vec![0; wanted.len()];
    let mut rest = available;
    for (done, at) in by_size.into_iter().enumerate() {
        let equal = rest / (wanted.len() - done) as u64;
        let share = u64::from(wanted[at]).min(equal).max(1);
        shares[at] = u32::try_from(share).expect("at most what was wanted, or 1");
        rest = rest.saturating_sub(share);
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    /// JSON-RPC, REST, gRPC, CometBFT and TCP ingest as they are by default, and a small one.
    const DEFAULTS: [u32; 6] = [1000, 1000, 1000, 1000, 1024, 64];

    #[test]
    fn servers_get_what_they_want_if_the_limit_allows_it() {
        let all = DEFAULTS.iter().sum::<u32>().into();
        assert_eq!(share(all, &DEFAULTS), DEFAULTS);
        assert_eq!(share(UNLIMITED, &DEFAULTS), DEFAULTS);
        assert_eq!(share(all - 1, &DEFAULTS), [1000, 1000, 1000, 1000, 1023, 64]);
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
        assert_eq!(for_connections(1024, 2), 1024 - 64 - 32 - 32 - 8);
        assert_eq!(share(888, &DEFAULTS), [164, 165, 165, 165, 165, 64]);
    }

    #[test]
    fn every_server_gets_something_whatever_the_limit() {
        for open_files in 0..200 {
            let available = for_connections(open_files, 2);
            assert!(share(available, &DEFAULTS).iter().all(|share| *share >= 1));
        }
        assert_eq!(share(7, &[]), Vec::<u32>::new());
    }
}
