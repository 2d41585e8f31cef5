//! Accepts a few connections above the limit of a server, for health checks only. If there are too many, the
//! oldest connection of the network and client with the most of them is closed. Health checks are therefore
//! answered even if one client uses all connections and continues to open more.

use budget::{Evictable, Networks, client_key};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, VecDeque},
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Maximum number of reserve connections of a server.
pub const MAX_RESERVED: usize = 8;
/// Time after which a reserve connection is closed. A health check takes milliseconds.
pub(super) const MAX_TIME: Duration = Duration::from_secs(2);

/// The reserve connections of a server.
#[derive(Debug, Default)]
pub(super) struct Reserve(Mutex<VecDeque<(IpAddr, Arc<Evictable>)>>);

/// The entry of a connection in the reserve, removed when dropped.
#[derive(Debug)]
pub(super) struct Reserved<'a> {
    reserve: &'a Reserve,
    connection: Arc<Evictable>,
}

impl Reserve {
    /// Adds a connection. If there are too many afterwards, closes one of them, which may be the new one.
    pub(super) fn enter(&self, from: IpAddr, connection: &Arc<Evictable>) -> Reserved<'_> {
        let mut connections = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        connections.push_back((client_key(from), Arc::clone(connection)));
        if connections.len() > MAX_RESERVED
            && let Some((_, closed)) =
                excess_connection(&connections).and_then(|at| connections.remove(at))
        {
            closed.evict();
        }
        Reserved { reserve: self, connection: Arc::clone(connection) }
    }
}

/// The oldest connection of the client with the most connections, within the networks with the most
/// connections.
fn excess_connection(connections: &VecDeque<(IpAddr, Arc<Evictable>)>) -> Option<usize> {
    let mut counts = BTreeMap::<_, u64>::new();
    for (client, _) in connections {
        *counts.entry(*client).or_default() += 1;
    }
    let held = |count: &u64| *count;
    let networks = Networks { clients: &counts, held, evictable: held };
    let (at, _) = connections
        .iter()
        .enumerate()
        .max_by_key(|(at, (client, _))| (networks.held_by_levels(*client), Reverse(*at)))?;
    Some(at)
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        let mut connections = self.reserve.0.lock().unwrap_or_else(PoisonError::into_inner);
        connections.retain(|(_, other)| !Arc::ptr_eq(other, &self.connection));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_connection_of_a_client_is_closed() {
        let (reserve, from) = (Reserve::default(), IpAddr::from([10, 0, 0, 1]));
        let connections: Vec<_> =
            (0..=MAX_RESERVED).map(|_| Arc::new(Evictable::default())).collect();
        let mut reserved: Vec<_> = connections.iter().map(|c| reserve.enter(from, c)).collect();
        let evicted = |at: usize| connections[at].is_evicted();
        assert!(evicted(0) && (1..=MAX_RESERVED).all(|at| !evicted(at)));
        drop(reserved.remove(0));
        drop(reserved.pop());
        let another = Arc::default();
        let _reserved = reserve.enter(from, &another);
        assert!(!evicted(1), "another connection has ended");
        drop(reserved);
        assert_eq!(reserve.0.lock().unwrap().len(), 1);
    }

    /// New connections of a client replace its own older ones, whichever addresses of its /64 it uses.
    #[test]
    fn client_with_the_most_connections_loses_its_oldest() {
        let reserve = Reserve::default();
        let probe = Arc::<Evictable>::default();
        let _reserved = reserve.enter("2001:db8:0:1::1".parse().unwrap(), &probe);
        let mut flood = Vec::new();
        for number in 0..10 * MAX_RESERVED {
            let connection = Arc::<Evictable>::default();
            let from = format!("2001:db8::{number:x}").parse().unwrap();
            flood.push((reserve.enter(from, &connection), connection));
        }
        assert!(!probe.is_evicted());
        let left = flood.iter().filter(|(_, connection)| !connection.is_evicted()).count();
        assert_eq!(left, MAX_RESERVED - 1);
        assert!(!flood[10 * MAX_RESERVED - 1].1.is_evicted(), "the newest one stays open");
    }

    /// If clients in one /48 fill the reserve with one connection each, their connections are closed first.
    #[test]
    fn network_with_the_most_connections_loses_its_oldest() {
        let reserve = Reserve::default();
        let probe = Arc::<Evictable>::default();
        let _reserved = reserve.enter("2001:db8:1::1".parse().unwrap(), &probe);
        let mut flood = Vec::new();
        for number in 0..10 * MAX_RESERVED {
            let connection = Arc::<Evictable>::default();
            let from = format!("2001:db8:0:{number:x}::1").parse().unwrap();
            flood.push((reserve.enter(from, &connection), connection));
        }
        assert!(!probe.is_evicted());
        let left = flood.iter().filter(|(_, connection)| !connection.is_evicted()).count();
        assert_eq!(left, MAX_RESERVED - 1);
    }
}
