//! Implements a bounded queue that is served round-robin by address, and within an address round-robin by connection.
//!
//! Limits: [`MAX_WAITING`] entries, at most half of them from one address, and [`MAX_WAITING_PER_CONNECTION`] from one
//! connection. If the queue is full, an entry of the network and address with the most entries is displaced, or the new
//! entry is refused if no other network or address has more. A client with hundreds of waiting entries therefore delays
//! the next entry of another client by one entry.

use budget::{Networks, client_key};
use std::{
    collections::{BTreeMap, VecDeque},
    net::IpAddr,
};

/// Maximum number of waiting entries in a queue. At 10 ms each, they are some five seconds of work for two cores.
const MAX_WAITING: usize = 1024;
/// Maximum number of waiting entries from one address, so that a single client cannot fill the queue.
const MAX_WAITING_PER_ADDRESS: usize = MAX_WAITING / 2;
/// Maximum number of waiting entries from one connection.
const MAX_WAITING_PER_CONNECTION: usize = 128;

/// Queues that are served round-robin.
#[derive(Debug)]
struct RoundRobin<K, Q> {
    order: VecDeque<K>,
    queues: BTreeMap<K, Q>,
}

impl<K, Q> Default for RoundRobin<K, Q> {
    fn default() -> Self {
        Self { order: VecDeque::new(), queues: BTreeMap::new() }
    }
}

impl<K: Copy + Ord, Q: Default> RoundRobin<K, Q> {
    fn queue(&mut self, key: K) -> &mut Q {
        let Self { order, queues } = self;
        queues.entry(key).or_insert_with(|| {
            order.push_back(key);
            Q::default()
        })
    }

    fn remove(&mut self, key: K) {
        self.queues.remove(&key);
        self.order.retain(|other| *other != key);
    }

    /// Takes an item from the next queue with `take`, which also returns whether that queue is empty afterwards.
    fn next<T>(&mut self, take: impl FnOnce(&mut Q) -> (Option<T>, bool)) -> Option<T> {
        let key = self.order.pop_front()?;
        let (taken, empty) = take(self.queues.get_mut(&key)?);
        if empty {
            self.queues.remove(&key);
        } else {
            self.order.push_back(key);
        }
        taken
    }
}

/// The entries of one address.
#[derive(Debug)]
struct AddressQueue<T> {
    connections: RoundRobin<u64, VecDeque<T>>,
    waiting: usize,
}

impl<T> Default for AddressQueue<T> {
    fn default() -> Self {
        Self { connections: RoundRobin::default(), waiting: 0 }
    }
}

/// See the module documentation.
#[derive(Debug)]
pub struct FairQueue<T> {
    addresses: RoundRobin<IpAddr, AddressQueue<T>>,
    count: usize,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self { addresses: RoundRobin::default(), count: 0 }
    }
}

impl<T> FairQueue<T> {
    /// Returns the number of waiting entries.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Returns whether nothing waits.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds an entry. Returns the entry that was displaced, if any, and the limit that was reached.
    ///
    /// # Errors
    /// Returns the limit that was reached.
    pub fn push(
        &mut self,
        address: IpAddr,
        connection: u64,
        entry: T,
    ) -> Result<Option<(T, usize)>, usize> {
        let address = client_key(address);
        let (of_address, of_connection) = self.waiting_of(address, connection);
        if of_address >= MAX_WAITING_PER_ADDRESS {
            return Err(MAX_WAITING_PER_ADDRESS);
        }
        if of_connection >= MAX_WAITING_PER_CONNECTION {
            return Err(MAX_WAITING_PER_CONNECTION);
        }
        let displaced = match self.count {
            0..MAX_WAITING => None,
            _ => Some((self.displace_for(address).ok_or(MAX_WAITING)?, MAX_WAITING)),
        };
        let of_address = self.addresses.queue(address);
        of_address.connections.queue(connection).push_back(entry);
        of_address.waiting += 1;
        self.count += 1;
        Ok(displaced)
    }

    /// Returns the numbers of waiting entries of an address and of a connection.
    fn waiting_of(&self, address: IpAddr, connection: u64) -> (usize, usize) {
        let Some(of_address) = self.addresses.queues.get(&address) else { return (0, 0) };
        let of_connection = of_address.connections.queues.get(&connection);
        (of_address.waiting, of_connection.map_or(0, VecDeque::len))
    }

    /// Removes and returns the newest entry of the connection with the most entries, at the address that must yield to
    /// this one. Networks of several sizes are compared, because an attacker may have many addresses.
    fn displace_for(&mut self, address: IpAddr) -> Option<T> {
        let held = |of_address: &AddressQueue<T>| of_address.waiting as u64;
        let networks = Networks { clients: &self.addresses.queues, held, evictable: held };
        let rival = networks.rival(address, 1, 0)?;
        let of_address = self.addresses.queues.get_mut(&rival)?;
        let connections = &mut of_address.connections;
        let most = connections.queues.iter_mut().max_by_key(|(_, entries)| entries.len());
        let (&connection, entries) = most?;
        let entry = entries.pop_back()?;
        if entries.is_empty() {
            connections.remove(connection);
        }
        of_address.waiting -= 1;
        if of_address.waiting == 0 {
            self.addresses.remove(rival);
        }
        self.count -= 1;
        Some(entry)
    }

    /// Takes the next entry.
    pub fn pop(&mut self) -> Option<T> {
        let entry = self.addresses.next(|address| {
            let entry = address.connections.next(|entries| {
                let entry = entries.pop_front();
                (entry, entries.is_empty())
            });
            address.waiting -= usize::from(entry.is_some());
            (entry, address.waiting == 0)
        });
        self.count -= usize::from(entry.is_some());
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn addresses_and_their_connections_are_served_round_robin() {
        let mut waiting = FairQueue::default();
        for entry in 0..4 {
            waiting.push(address(1), 1, ("flood", entry)).unwrap();
        }
        waiting.push(address(1), 2, ("neighbour", 0)).unwrap();
        waiting.push(address(2), 3, ("other", 0)).unwrap();
        waiting.push(address(2), 3, ("other", 1)).unwrap();
        let order: Vec<_> = std::iter::from_fn(|| waiting.pop()).collect();
        let expected = [
            ("flood", 0),
            ("other", 0),
            ("neighbour", 0),
            ("other", 1),
            ("flood", 1),
            ("flood", 2),
            ("flood", 3),
        ];
        assert_eq!(order, expected);
        assert!(waiting.addresses.queues.is_empty() && waiting.addresses.order.is_empty());
        assert_eq!(waiting.count, 0);
    }

    #[test]
    fn a_flood_leaves_space_for_other_clients() {
        let mut waiting = FairQueue::default();
        let mut taken = 0;
        for connection in 0..100 {
            while waiting.push(address(1), connection, ()).is_ok() {
                taken += 1;
            }
        }
        assert_eq!(taken, MAX_WAITING_PER_ADDRESS);
        assert_eq!(waiting.push(address(1), 0, ()), Err(MAX_WAITING_PER_ADDRESS));
        assert_eq!(waiting.push(address(2), 200, ()), Ok(None));
        for _ in 1..MAX_WAITING_PER_CONNECTION {
            waiting.push(address(2), 200, ()).unwrap();
        }
        assert_eq!(waiting.push(address(2), 200, ()), Err(MAX_WAITING_PER_CONNECTION));
    }

    #[test]
    fn queue_that_two_addresses_fill_accepts_a_third() {
        let mut waiting = FairQueue::default();
        for client in [1, 2] {
            for entry in 0..MAX_WAITING_PER_ADDRESS {
                let connection = (entry / MAX_WAITING_PER_CONNECTION) as u64;
                assert_eq!(waiting.push(address(client), connection, (client, entry)), Ok(None));
            }
        }
        assert_eq!(waiting.count, MAX_WAITING);
        let mut refused = Vec::new();
        // Address 3 gets a third of the queue and displaces entries of both others, until all three have about as many.
        for entry in 0..MAX_WAITING / 3 {
            let connection = 10 + (entry / MAX_WAITING_PER_CONNECTION) as u64;
            let (displaced, limit) =
                waiting.push(address(3), connection, (3, entry)).unwrap().expect("displaced");
            assert_eq!((waiting.count, limit), (MAX_WAITING, MAX_WAITING));
            refused.push(displaced);
        }
        assert!(refused.iter().all(|(client, _)| *client != 3));
        assert_eq!(waiting.push(address(3), 99, (3, 999)), Err(MAX_WAITING), "none has more");
        let mut counts = [0_usize; 4];
        while let Some((client, _)) = waiting.pop() {
            counts[usize::from(client)] += 1;
        }
        assert_eq!((counts[1] + counts[2], counts[3]), (683, 341));
        assert!(counts[1].abs_diff(counts[2]) <= 1, "{counts:?}");
        assert!(waiting.addresses.queues.is_empty() && waiting.addresses.order.is_empty());
        assert_eq!(waiting.count, 0);
    }

    /// Each /64 is a client with one entry. All of them are in the same /48.
    #[test]
    fn queue_that_one_network_fills_accepts_another() {
        let mut waiting = FairQueue::default();
        let from = |number: usize| format!("2001:db8:0:{number:x}::1").parse::<IpAddr>().unwrap();
        for number in 0..MAX_WAITING {
            assert_eq!(waiting.push(from(number), number as u64, number), Ok(None));
        }
        let displaced = waiting.push(address(1), 5_000, MAX_WAITING).unwrap();
        assert!(displaced.is_some_and(|(entry, _)| entry < MAX_WAITING), "one of the network");
        assert_eq!(waiting.addresses.queues.len(), MAX_WAITING, "an empty address is removed");
        assert_eq!(waiting.count, MAX_WAITING);
        assert_eq!(waiting.push(from(1_000), 1_000, 0), Err(MAX_WAITING), "none has more");
        let taken = std::iter::from_fn(|| waiting.pop()).count();
        assert_eq!((taken, waiting.count), (MAX_WAITING, 0));
    }

    #[test]
    fn a_network_of_ipv6_addresses_is_one_client() {
        let mut waiting = FairQueue::default();
        let from = |number: usize| format!("2001:db8::{number:x}").parse::<IpAddr>().unwrap();
        for number in 0..MAX_WAITING_PER_ADDRESS {
            waiting.push(from(number), number as u64, ()).unwrap();
        }
        assert_eq!(waiting.push(from(9999), 9999, ()), Err(MAX_WAITING_PER_ADDRESS));
        assert_eq!(waiting.push("2001:db8:0:1::1".parse().unwrap(), 10_000, ()), Ok(None));
    }
}
