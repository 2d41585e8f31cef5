//! Stores the filters that clients have installed: for new blocks, pending transactions, or logs.
//!
//! A filter stores the last block that its client has received. A filter for pending transactions also stores a
//! limited number of new transactions. Filters that are not polled are removed.

use crate::log_query::LogQuery;
use alloy_primitives::{U128, map::HashMap};
use budget::{Budget, Evictable, Held, Resource};
use config::JsonRpc;
use pipeline::Arrival;
use rpc_types::error::Error;
use state::View;
use std::{
    hash::{BuildHasher, RandomState},
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::broadcast::Receiver;

/// What a filter returns.
pub(crate) enum Kind {
    /// The hashes of new blocks.
    Blocks,
    /// The transactions that entered the pool.
    Pending {
        arrivals: Receiver<Arrival>,
        /// Whether the filter returns transactions instead of hashes.
        full: bool,
    },
    /// The logs of new blocks.
    Logs(Box<LogQuery>),
}

impl Kind {
    /// Returns the memory that a filter of this type uses.
    fn memory_bytes(&self) -> usize {
        let query = match self {
            Self::Blocks | Self::Pending { .. } => 0,
            Self::Logs(query) => query.memory_bytes(),
        };
        size_of::<InstalledFilter>() + query
    }
}

/// The position up to which the client of a filter knows the chain. A later position is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Delivered {
    /// The number of undone branches, see [`View::undone`].
    pub(crate) undone: u64,
    /// The last block that the client knows.
    pub(crate) last: u64,
}

impl Delivered {
    /// Returns the position of the head of a view.
    pub(crate) fn all(view: &View) -> Self {
        Self { undone: view.undone, last: view.number() }
    }
}

/// A filter of a client.
pub(crate) struct InstalledFilter {
    pub(crate) kind: Kind,
    pub(crate) delivered: Delivered,
    polled: Instant,
    /// Set when another client needs the permit or memory of the filter.
    evictable: Arc<Evictable>,
    _permit: Held,
    _memory: Held,
}

impl InstalledFilter {
    fn is_alive(&self, lifetime: Duration) -> bool {
        self.polled.elapsed() < lifetime && !self.evictable.is_evicted()
    }
}

/// The filters of all clients.
pub struct Filters {
    installed: Mutex<HashMap<u128, InstalledFilter>>,
    /// Limits the number of filters. The clients share the permits like all resources.
    permits: Arc<Resource>,
    memory: Arc<Resource>,
    /// A filter that is not polled for this long is removed.
    lifetime: Duration,
    ids: RandomState,
}

impl std::fmt::Debug for Filters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Filters").field("installed", &self.lock().len()).finish_non_exhaustive()
    }
}

impl Filters {
    /// Creates an empty set of filters.
    pub fn new(config: &JsonRpc, budget: &Budget) -> Self {
        let lifetime = Duration::from_secs(config.filter_lifetime_s);
        let (permits, memory) = (Arc::clone(&budget.filters), Arc::clone(&budget.memory));
        Self { installed: Mutex::default(), permits, memory, lifetime, ids: RandomState::new() }
    }

    /// Removes the filters that were evicted or not polled for their lifetime. This visits all filters, so it is not
    /// done whenever a filter is added.
    pub fn sweep(&self) {
        self.lock().retain(|_, filter| filter.is_alive(self.lifetime));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u128, InstalledFilter>> {
        self.installed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a filter of a client that knows the chain up to `delivered`, and returns its id.
    pub(crate) fn install(
        &self,
        kind: Kind,
        delivered: Delivered,
        client: IpAddr,
    ) -> Result<U128, Error> {
        let mut installed = self.lock();
        let evictable = Arc::<Evictable>::default();
        let permit = self.permits.acquire(client, 1, &evictable).map_err(|_| {
            let limit = self.permits.limit();
            let message =
                format!("too many filters: at most {limit} at a time for all clients together");
            Error::limit(message, limit, None)
        })?;
        let bytes = kind.memory_bytes() as u64;
        let memory = self.memory.acquire(client, bytes, &evictable);
        let memory = memory.map_err(|refused| Error::client_memory(refused.limit()))?;
        let id = loop {
            // Ids are random, so that clients cannot read each other's filters.
            let now = Instant::now();
            let (low, high) = (self.ids.hash_one(now), self.ids.hash_one((now, "high")));
            let id = u128::from(high) << 64 | u128::from(low);
            if id != 0 && !installed.contains_key(&id) {
                break id;
            }
        };
        let polled = Instant::now();
        installed.insert(
            id,
            InstalledFilter {
                kind,
                delivered,
                polled,
                evictable,
                _permit: permit,
                _memory: memory,
            },
        );
        Ok(U128::from(id))
    }

    /// Records what the client has received. Concurrent polls of one filter may finish in a different order from their
    /// views, so the position never moves back. Otherwise blocks would be delivered twice.
    pub(crate) fn set_delivered(&self, id: u128, delivered: Delivered) {
        if let Some(filter) = self.lock().get_mut(&id) {
            filter.delivered = filter.delivered.max(delivered);
        }
    }

    /// Removes a filter, and returns whether it existed and had not expired.
    pub(crate) fn remove(&self, id: u128) -> bool {
        self.lock().remove(&id).is_some_and(|filter| filter.is_alive(self.lifetime))
    }

    /// Polls a filter, which renews its lifetime. The lock of all filters is held while `read` runs.
    pub(crate) fn poll<T>(
        &self,
        id: u128,
        read: impl FnOnce(&mut InstalledFilter) -> T,
    ) -> Result<T, Error> {
        Ok(read(alive(&mut self.lock(), id, self.lifetime)?))
    }
}

/// Returns the error for a filter that does not exist or has expired.
pub(crate) fn not_found() -> Error {
    Error::server("filter not found")
}

/// Returns a filter that was polled within its lifetime, and renews the lifetime. Expired filters are stored until the
/// next sweep.
fn alive(
    installed: &mut HashMap<u128, InstalledFilter>,
    id: u128,
    lifetime: Duration,
) -> Result<&mut InstalledFilter, Error> {
    let filter = installed.get_mut(&id).filter(|filter| filter.is_alive(lifetime));
    let filter = filter.ok_or_else(not_found)?;
    filter.polled = Instant::now();
    filter.evictable.touch();
    Ok(filter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::Config;

    #[test]
    fn polling_an_expired_filter_does_not_renew_it() {
        let filters = filters(1);
        let id = filters.install(Kind::Blocks, at(0, 0), IpAddr::from([10, 0, 0, 1])).unwrap();
        let filter = filters.lock().remove(&u128::try_from(id).unwrap()).unwrap();
        let mut installed = HashMap::from_iter([(1, filter)]);
        assert!(alive(&mut installed, 1, Duration::MAX).is_ok());
        assert!(alive(&mut installed, 2, Duration::MAX).is_err(), "never created");
        // The lifetime is zero, so the filter has always expired. Polling it again does not renew it.
        for _ in 0..2 {
            assert!(alive(&mut installed, 1, Duration::ZERO).is_err());
        }
    }

    fn at(undone: u64, last: u64) -> Delivered {
        Delivered { undone, last }
    }

    fn filters(cap: usize) -> Filters {
        let mut config = Config::default();
        config.json_rpc.filter_cap = cap;
        Filters::new(&config.json_rpc, &Budget::new(&config))
    }

    /// One address can have all filters while no other client needs one, but it cannot exclude others.
    #[test]
    fn the_filter_of_another_client_evicts_one_of_the_client_with_all_filters() {
        let filters = filters(10);
        let install =
            |last| filters.install(Kind::Blocks, at(0, 0), IpAddr::from([10, 0, 0, last]));
        let first: Vec<_> = (0..10).map(|_| install(1).unwrap()).collect();
        assert_eq!(install(1).unwrap_err().code(), -32005);
        let second = install(2).unwrap();
        let alive = |id: &U128| {
            alive(&mut filters.lock(), u128::try_from(*id).unwrap(), filters.lifetime).is_ok()
        };
        assert!(alive(&second));
        assert_eq!(first.iter().filter(|id| alive(id)).count(), 9);
        assert_eq!(filters.lock().len(), 11);
        filters.sweep();
        assert_eq!((filters.lock().len(), filters.permits.reading().used), (10, 10));
        filters.lock().clear();
        assert_eq!((filters.permits.reading().used, filters.memory.reading().used), (0, 0));
    }

    #[test]
    fn a_poll_that_finishes_with_an_older_view_does_not_move_a_filter_back() {
        let filters = filters(10);
        let id = filters
            .install(Kind::Blocks, at(0, 7), IpAddr::from([10, 0, 0, 1]))
            .expect("installed")
            .to::<u128>();
        let delivered = || filters.lock()[&id].delivered;
        for (polled, expected) in [
            ((0, 7), (0, 7)),
            ((0, 9), (0, 9)),
            ((0, 8), (0, 9)),
            ((0, 10), (0, 10)),
            ((0, 0), (0, 10)),
            // Blocks 6 to 10 were undone.
            ((1, 5), (1, 5)),
            ((0, 11), (1, 5)),
            ((1, 6), (1, 6)),
        ] {
            filters.set_delivered(id, at(polled.0, polled.1));
            assert_eq!(delivered(), at(expected.0, expected.1), "after a poll up to {polled:?}");
        }
        // A filter that was removed during the poll stays removed.
        filters.set_delivered(id ^ 1, at(2, 11));
        assert_eq!((delivered(), filters.lock().len()), (at(1, 6), 1));
    }
}
