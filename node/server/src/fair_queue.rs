//! A bounded queue of requests that is served round-robin by address, and within an address by connection.
//!
//! Limits: [`MAX_WAITING`] entries, half of them from one address, and [`MAX_WAITING_PER_CONNECTION`] from one
//! connection. A full queue refuses the newest entry of the address that has the most, or the new entry. A client with
//! a thousand waiting entries therefore delays another one by one entry.

use budget::{Networks, client_key};
use std::{
    collections::{BTreeMap, VecDeque},
    net::IpAddr,
};

/// Maximum number of waiting calls in a queue. At 10 ms each, they are some seconds of work for two cores.
const MAX_WAITING: usize = 1024;
/// Maximum number of waiting calls from one address, which leaves space for other clients.
const MAX_WAITING_PER_ADDRESS: usize = MAX_WAITING / 2;
/// Maximum number of waiting calls from one connection.
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

    /// Takes an item from the next queue with `take`, which also returns whether the queue is empty then.
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

/// The calls of one address.
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

/// A fair queue of requests; see the module documentation.
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

    /// Adds a call. Returns the call that was displaced, if any, with the limit for which it is refused.
    ///
    /// # Errors
    /// The limit that was reached.
    pub fn push(
        &mut self,
        address: IpAddr,
        connection: u64,
        job: T,
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
        of_address.connections.queue(connection).push_back(job);
        of_address.waiting += 1;
        self.count += 1;
        Ok(displaced)
    }

    /// Returns the number of waiting calls of an address and of a connection.
    fn waiting_of(&self, address: IpAddr, connection: u64) -> (usize, usize) {
        let Some(of_address) = self.addresses.queues.get(&address) else { return (0, 0) };
        let of_connection = of_address.connections.queues.get(&connection);
        (of_address.waiting, of_connection.map_or(0, VecDeque::len))
    }

    /// Removes the newest call of the connection with the most calls, of the address that must yield to this one.
    /// Networks of several sizes are compared, because an attacker may have many addresses.
    fn displace_for(&mut self, address: IpAddr) -> Option<T> {
        let held = |of_address: &AddressQueue<T>| of_address.waiting as u64;
        let networks = Networks { clients: &self.addresses.queues, held, evictable: held };
        let rival = networks.rival(address, 1, 0)?;
        let of_address = self.addresses.queues.get_mut(&rival)?;
        let connections = &mut of_address.connections;
        let most = connections.queues.iter_mut().max_by_key(|(_, jobs)| jobs.len());
        let (&connection, jobs) = most?;
        let job = jobs.pop_back()?;
        if jobs.is_empty() {
            connections.remove(connection);
        }
        of_address.waiting -= 1;
        if of_address.waiting == 0 {
            self.addresses.remove(rival);
        }
        self.count -= 1;
        Some(job)
    }

    /// Takes the next call.
    pub fn pop(&mut self) -> Option<T> {
        let job = self.addresses.next(|address| {
            let job = address.connections.next(|jobs| {
                let job = jobs.pop_front();
                (job, jobs.is_empty())
            });
            address.waiting -= usize::from(job.is_some());
            (job, address.waiting == 0)
        });
        self.count -= usize::from(job.is_some());
        job
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
        for job in 0..4 {
            waiting.push(address(1), 1, ("flood", job)).unwrap();
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

    /// With any number of addresses, the one with the most calls yields.
    #[test]
    fn addresses_that_fill_a_queue_do_not_keep_another_out() {
        let mut waiting = FairQueue::default();
        for client in [1, 2] {
            for job in 0..MAX_WAITING_PER_ADDRESS {
                let connection = (job / MAX_WAITING_PER_CONNECTION) as u64;
                assert_eq!(waiting.push(address(client), connection, (client, job)), Ok(None));
            }
        }
        assert_eq!(waiting.count, MAX_WAITING);
        let mut refused = Vec::new();
        // Address 3 gets a third of the queue, and displaces calls of both others. Then all three have the same number.
        for job in 0..MAX_WAITING / 3 {
            let connection = 10 + (job / MAX_WAITING_PER_CONNECTION) as u64;
            let (displaced, limit) =
                waiting.push(address(3), connection, (3, job)).unwrap().expect("another one");
            assert_eq!((waiting.count, limit), (MAX_WAITING, MAX_WAITING));
            refused.push(displaced);
        }
        assert!(refused.iter().all(|(client, _)| *client != 3));
        assert_eq!(waiting.push(address(3), 99, (3, 999)), Err(MAX_WAITING), "it has as many");
        let mut counts = [0_usize; 4];
        while let Some((client, _)) = waiting.pop() {
            counts[usize::from(client)] += 1;
        }
        assert_eq!((counts[1] + counts[2], counts[3]), (683, 341));
        assert!(counts[1].abs_diff(counts[2]) <= 1, "{counts:?}");
        assert!(waiting.addresses.queues.is_empty() && waiting.addresses.order.is_empty());
        assert_eq!(waiting.count, 0);
    }

    /// Each /64 is a client with one call. All of them are in the same /48.
    #[test]
    fn clients_of_one_network_that_fill_a_queue_do_not_keep_another_out() {
        let mut waiting = FairQueue::default();
        let from = |number: usize| format!("2001:db8:0:{number:x}::1").parse::<IpAddr>().unwrap();
        for number in 0..MAX_WAITING {
            assert_eq!(waiting.push(from(number), number as u64, number), Ok(None));
        }
        let displaced = waiting.push(address(1), 5_000, MAX_WAITING).unwrap();
        assert!(displaced.is_some_and(|(job, _)| job < MAX_WAITING), "one of theirs");
        assert_eq!(waiting.addresses.queues.len(), MAX_WAITING, "an address without calls is gone");
        assert_eq!(waiting.count, MAX_WAITING);
        assert_eq!(waiting.push(from(1_000), 1_000, 0), Err(MAX_WAITING), "it has as many");
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
