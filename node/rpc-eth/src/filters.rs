//! Filters that clients install and poll: new blocks, pending transactions, logs.
//!
//! A filter remembers where its client has read to and nothing else but, for pending transactions,
//! what has arrived since, within a bound. One that is not polled is forgotten.

use crate::{
    eth::{LogQuery, find_first_logs, find_logs_at_once},
    method::{Answer, Call, json},
};
use alloy_primitives::{B256, U128, map::HashMap};
use budget::{Budget, Evictable, Held, Resource};
use config::JsonRpc;
use pipeline::Arrival;
use rpc_types::{error::Error, object::TransactionObject, params::wide_quantity, text::Json};
use state::stored;
use std::{
    hash::{BuildHasher, RandomState},
    net::IpAddr,
    ops::RangeInclusive,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::broadcast::{Receiver, error::TryRecvError};

/// Blocks looked through where the socket is served; a client that polls meets fewer.
const BLOCKS_AT_ONCE: u64 = 8;
/// Maximum number of blocks in one answer of a block filter. The next poll continues after them.
const MAX_BLOCKS: u64 = 10_000;

/// What a filter is about.
enum Kind {
    Blocks,
    Pending {
        arrivals: Receiver<Arrival>,
        /// Whole transactions are returned, not their hashes.
        full: bool,
    },
    Logs(Box<LogQuery>),
}

impl Kind {
    /// Bytes of memory that a filter of this kind takes.
    fn memory_bytes(&self) -> usize {
        let query = match self {
            Self::Blocks | Self::Pending { .. } => 0,
            Self::Logs(query) => query.memory_bytes(),
        };
        size_of::<Installed>() + query
    }
}

struct Installed {
    kind: Kind,
    /// The last block its client knows of.
    seen: u64,
    polled: Instant,
    /// Set when another client needs the filter's place or memory.
    evictable: Arc<Evictable>,
    _place: Held,
    _memory: Held,
}

impl Installed {
    fn is_alive(&self, lifetime: Duration) -> bool {
        self.polled.elapsed() < lifetime && !self.evictable.is_evicted()
    }
}

/// The filters of all clients.
pub struct Filters {
    installed: Mutex<HashMap<u128, Installed>>,
    /// Filters, which the clients share by the rule of all resources.
    places: Arc<Resource>,
    memory: Arc<Resource>,
    /// A filter that is not polled for this long is forgotten.
    lifetime: Duration,
    ids: RandomState,
}

impl std::fmt::Debug for Filters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Filters").field("installed", &self.lock().len()).finish_non_exhaustive()
    }
}

impl Filters {
    /// None yet.
    pub fn new(config: &JsonRpc, budget: &Budget) -> Self {
        let lifetime = Duration::from_secs(config.filter_lifetime_s);
        let (places, memory) = (Arc::clone(&budget.filters), Arc::clone(&budget.memory));
        Self { installed: Mutex::default(), places, memory, lifetime, ids: RandomState::new() }
    }

    /// Forgets the filters that were evicted or not polled for their lifetime. To do so with each new filter
    /// would cost as much as all filters there are.
    pub fn sweep(&self) {
        self.lock().retain(|_, filter| filter.is_alive(self.lifetime));
    }

    /// The filters that are still wanted.
    fn lock(&self) -> MutexGuard<'_, HashMap<u128, Installed>> {
        self.installed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn install(&self, kind: Kind, seen: u64, client: IpAddr) -> Result<U128, Error> {
        let mut installed = self.lock();
        let evictable = Arc::<Evictable>::default();
        let place = self.places.acquire(client, 1, &evictable).map_err(|_| {
            let limit = self.places.limit();
            let message =
                format!("too many filters: at most {limit} at a time for all clients together");
            Error::limit(message, limit, None)
        })?;
        let bytes = kind.memory_bytes() as u64;
        let memory = self.memory.acquire(client, bytes, &evictable);
        let memory = memory.map_err(|refused| Error::client_memory(refused.limit()))?;
        let id = loop {
            // Not to be guessed, so that clients do not read each other's.
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
            Installed { kind, seen, polled, evictable, _place: place, _memory: memory },
        );
        Ok(U128::from(id))
    }

    /// Records that the client knows the blocks up to `last`. Polls of one filter may end in another
    /// order than that of their views, so the position never moves back: blocks would be delivered twice.
    fn see(&self, id: u128, last: u64) {
        if let Some(filter) = self.lock().get_mut(&id) {
            filter.seen = filter.seen.max(last);
        }
    }
}

/// `eth_newBlockFilter`.
pub fn new_block_filter(call: &Call) -> Answer {
    call.no_arguments()?;
    json(&call.services.filters.install(Kind::Blocks, call.view.number(), call.caller.address)?)
}

/// `eth_newPendingTransactionFilter`.
pub fn new_pending_filter(call: &Call) -> Answer {
    let full = call.arguments()?.optional()?.unwrap_or(false);
    let kind = Kind::Pending { arrivals: call.context.pool.arrivals(), full };
    json(&call.services.filters.install(kind, call.view.number(), call.caller.address)?)
}

/// `eth_newFilter`.
pub fn new_filter(call: &Call) -> Answer {
    let query: LogQuery = call.arguments()?.nullable()?;
    query.check()?;
    let kind = Kind::Logs(Box::new(query));
    json(&call.services.filters.install(kind, call.view.number(), call.caller.address)?)
}

/// `eth_uninstallFilter`.
pub fn uninstall_filter(call: &Call) -> Answer {
    let filters = &call.services.filters;
    let removed = given_id(call)?.and_then(|id| filters.lock().remove(&id));
    json(&removed.is_some_and(|filter| filter.is_alive(filters.lifetime)))
}

/// The id that is given; `None` for a text that cannot be one of ours, and null, which geth takes as well.
fn given_id(call: &Call) -> Result<Option<u128>, Error> {
    let text: String = call.arguments()?.nullable()?;
    Ok(wide_quantity(&text).ok().and_then(|id| u128::try_from(id).ok()))
}

fn id(call: &Call) -> Result<u128, Error> {
    given_id(call)?.ok_or_else(not_found)
}

fn not_found() -> Error {
    Error::server("filter not found")
}

/// What to look for once the filters are unlocked, and after which block.
enum Wanted {
    Arrived(Vec<B256>),
    /// Whole transactions that have arrived: not taken from the filter yet.
    Whole,
    Blocks(u64),
    Logs(Box<LogQuery>, u64),
}

/// What is new since the last poll, unless that has to be looked for long.
pub fn changes_at_once(call: &Call) -> Result<Option<Json>, Error> {
    let id = id(call)?;
    match wanted(call, id)? {
        Wanted::Arrived(hashes) => json(&hashes).map(Some),
        Wanted::Whole => Ok(None),
        Wanted::Blocks(seen) | Wanted::Logs(_, seen)
            if call.view.number().saturating_sub(seen) > BLOCKS_AT_ONCE =>
        {
            Ok(None)
        }
        Wanted::Blocks(seen) => new_blocks(call, id, seen).map(Some),
        Wanted::Logs(query, seen) => {
            let Some((first, last)) = new_range(call, &query, seen) else {
                return Ok(Some(Json::fixed("[]")));
            };
            let answer = find_logs_at_once(call, &query.filter, first, last)?;
            if answer.is_some() {
                see(call, id, last);
            }
            Ok(answer)
        }
    }
}

/// What is new since the last poll; of logs as many blocks as an answer may hold.
pub fn changes(call: &Call) -> Answer {
    let id = id(call)?;
    match wanted(call, id)? {
        Wanted::Arrived(hashes) => json(&hashes),
        Wanted::Whole => arrived_whole(call, id),
        Wanted::Blocks(seen) => new_blocks(call, id, seen),
        Wanted::Logs(query, seen) => {
            let Some((first, last)) = new_range(call, &query, seen) else {
                return Ok(Json::fixed("[]"));
            };
            let (answer, last) = find_first_logs(call, &query.filter, first, last)?;
            see(call, id, last);
            Ok(answer)
        }
    }
}

fn wanted(call: &Call, id: u128) -> Result<Wanted, Error> {
    let lifetime = call.services.filters.lifetime;
    let mut installed = call.services.filters.lock();
    let filter = alive(&mut installed, id, lifetime)?;
    Ok(match &mut filter.kind {
        Kind::Pending { full: true, .. } => Wanted::Whole,
        Kind::Pending { arrivals, .. } => Wanted::Arrived(drain(arrivals)),
        Kind::Blocks => Wanted::Blocks(filter.seen),
        Kind::Logs(query) => Wanted::Logs(query.clone(), filter.seen),
    })
}

/// A filter that was polled within its lifetime, which begins anew. One that was not may still be there,
/// until room is made for another.
fn alive(
    installed: &mut HashMap<u128, Installed>,
    id: u128,
    lifetime: Duration,
) -> Result<&mut Installed, Error> {
    let filter = installed.get_mut(&id).filter(|filter| filter.is_alive(lifetime));
    let filter = filter.ok_or_else(not_found)?;
    filter.polled = Instant::now();
    filter.evictable.touch();
    Ok(filter)
}

/// Records what a successful poll has delivered.
fn see(call: &Call, id: u128, last: u64) {
    call.services.filters.see(id, last);
}

fn new_blocks(call: &Call, id: u128, seen: u64) -> Answer {
    let new = first_new_blocks(seen, call.view.number());
    let last = *new.end();
    let blocks = call.view.blocks()?;
    let hashes = new.map(|number| Ok(stored::header(&blocks, number)?.0));
    let answer = json(&hashes.collect::<Result<Vec<B256>, Error>>()?)?;
    see(call, id, last);
    Ok(answer)
}

/// The oldest blocks after `seen` that one answer may hold; an empty range if there are none.
fn first_new_blocks(seen: u64, head: u64) -> RangeInclusive<u64> {
    seen + 1..=head.min(seen.saturating_add(MAX_BLOCKS))
}

/// The blocks of a log filter that are new.
fn new_range(call: &Call, query: &LogQuery, seen: u64) -> Option<(u64, u64)> {
    let (first, last) = query.bounds(&call.view);
    let (first, last) = (first.max(seen + 1), last.min(call.view.number()));
    (first <= last).then_some((first, last))
}

/// The next transaction that has arrived; those lost to a slow client are left out.
fn next_arrival(arrivals: &mut Receiver<Arrival>) -> Option<Arrival> {
    loop {
        match arrivals.try_recv() {
            Ok(arrival) => return Some(arrival),
            Err(TryRecvError::Lagged(_)) => {}
            Err(TryRecvError::Empty | TryRecvError::Closed) => return None,
        }
    }
}

/// Hashes of all that has arrived.
fn drain(arrivals: &mut Receiver<Arrival>) -> Vec<B256> {
    std::iter::from_fn(|| next_arrival(arrivals)).map(|arrival| arrival.hash).collect()
}

/// Most characters of JSON that come of a byte of a transaction, and besides.
const CHARS_A_BYTE: usize = 4;
const CHARS_BESIDES: usize = 1_500;

/// Transactions that have arrived, as many as an answer may hold; the next poll tells the others. Large ones that
/// have left the pool are left out.
fn arrived_whole(call: &Call, id: u128) -> Answer {
    let mut txs = Vec::new();
    if let Some(filter) = call.services.filters.lock().get_mut(&id)
        && let Kind::Pending { arrivals, .. } = &mut filter.kind
    {
        let mut chars = 0;
        while let Some(arrival) = next_arrival(arrivals) {
            let Some(tx) = arrival.tx() else { continue };
            chars += CHARS_A_BYTE * tx.raw.len() + CHARS_BESIDES;
            txs.push(tx);
            // Room is left, for the next one may be large.
            if 2 * chars > call.services.limits.bytes {
                break;
            }
        }
    }
    json(&txs.iter().map(|tx| TransactionObject::pooled(tx)).collect::<Vec<_>>())
}

/// All logs of a log filter.
pub fn filter_logs(call: &Call) -> Answer {
    let id = id(call)?;
    let query = {
        let lifetime = call.services.filters.lifetime;
        let mut installed = call.services.filters.lock();
        let filter = alive(&mut installed, id, lifetime)?;
        match &filter.kind {
            Kind::Logs(query) => query.clone(),
            _ => return Err(not_found()),
        }
    };
    crate::eth::query_logs(call, &query)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_poll_of_a_block_filter_continues_with_the_oldest_block() {
        assert!(first_new_blocks(5, 5).is_empty());
        assert_eq!(first_new_blocks(5, 6), 6..=6);
        for (new, last) in [
            (MAX_BLOCKS - 1, MAX_BLOCKS - 1),
            (MAX_BLOCKS, MAX_BLOCKS),
            (MAX_BLOCKS + 1, MAX_BLOCKS),
        ] {
            assert_eq!(first_new_blocks(7, 7 + new), 8..=7 + last);
        }
        assert_eq!(
            first_new_blocks(7 + MAX_BLOCKS, 8 + MAX_BLOCKS),
            8 + MAX_BLOCKS..=8 + MAX_BLOCKS
        );
    }
    use config::Config;

    #[test]
    fn a_forgotten_filter_does_not_come_back() {
        let filters = filters(1);
        let id = filters.install(Kind::Blocks, 0, IpAddr::from([10, 0, 0, 1])).unwrap();
        let filter = filters.lock().remove(&u128::try_from(id).unwrap()).unwrap();
        let mut installed = HashMap::from_iter([(1, filter)]);
        assert!(alive(&mut installed, 1, Duration::MAX).is_ok());
        assert!(alive(&mut installed, 2, Duration::MAX).is_err(), "never installed");
        // Its lifetime is over whenever this is asked, and asking again does not renew it.
        for _ in 0..2 {
            assert!(alive(&mut installed, 1, Duration::ZERO).is_err());
        }
    }

    fn filters(cap: usize) -> Filters {
        let mut config = Config::default();
        config.json_rpc.filter_cap = cap;
        Filters::new(&config.json_rpc, &Budget::new(&config))
    }

    /// One address can install all filters while no other needs one, and cannot keep others out.
    #[test]
    fn another_clients_filter_takes_the_place_of_the_least_recently_polled() {
        let filters = filters(10);
        let install = |last| filters.install(Kind::Blocks, 0, IpAddr::from([10, 0, 0, last]));
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
        assert_eq!((filters.lock().len(), filters.places.reading().used), (10, 10));
        filters.lock().clear();
        assert_eq!((filters.places.reading().used, filters.memory.reading().used), (0, 0));
    }

    #[test]
    fn late_poll_on_an_older_view_does_not_move_a_filter_back() {
        let filters = filters(10);
        let id = filters
            .install(Kind::Blocks, 7, IpAddr::from([10, 0, 0, 1]))
            .expect("installed")
            .to::<u128>();
        let seen = || filters.lock()[&id].seen;
        for (last, expected) in [(7, 7), (9, 9), (8, 9), (9, 9), (10, 10), (0, 10)] {
            filters.see(id, last);
            assert_eq!(seen(), expected, "after a poll up to block {last}");
        }
        // A filter that was removed during the poll stays removed.
        filters.see(id ^ 1, 11);
        assert_eq!((seen(), filters.lock().len()), (10, 1));
    }
}
