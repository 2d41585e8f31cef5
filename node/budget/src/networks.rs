//! Assigns clients to networks, and finds the networks with the highest use.
//!
//! An IPv6 host usually has a whole /64, so a /64 counts as one client. The owner of a /48, such as an office,
//! has 65,536 of them. IPv6 clients are therefore compared network by network: first the /48 networks with each
//! other and with the IPv4 addresses, then the /56 networks within one /48, then the /64 networks within one
//! /56.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    ops::RangeInclusive,
};

/// Prefix lengths by which IPv6 clients are compared, level by level. The last one is that of a client.
const LEVELS: [u32; 3] = [48, 56, 64];

/// Returns the address under which a client is accounted: an IPv4 address, or an IPv6 /64.
pub fn client_key(address: IpAddr) -> IpAddr {
    network(address.to_canonical(), LEVELS.len() - 1)
}

/// Returns the number of levels of a client's address.
pub(super) const fn levels(client: IpAddr) -> usize {
    match client {
        IpAddr::V4(_) => 1,
        IpAddr::V6(_) => LEVELS.len(),
    }
}

/// Returns the first address of the client's network at a level. An IPv4 address is a network of its own.
fn network(client: IpAddr, level: usize) -> IpAddr {
    match client {
        IpAddr::V4(_) => client,
        IpAddr::V6(long) => Ipv6Addr::from_bits(long.to_bits() & !host_bits(level)).into(),
    }
}

/// Returns the bits of an IPv6 address below the prefix of a level.
const fn host_bits(level: usize) -> u128 {
    u128::MAX >> LEVELS[level]
}

/// Returns all addresses of the client's network at a level.
fn addresses(client: IpAddr, level: usize) -> RangeInclusive<IpAddr> {
    match client {
        IpAddr::V4(_) => client..=client,
        IpAddr::V6(long) => {
            network(client, level)..=Ipv6Addr::from_bits(long.to_bits() | host_bits(level)).into()
        }
    }
}

/// Returns the addresses of the client's network at a level and of the networks with which it is compared.
fn surroundings(client: IpAddr, level: usize) -> RangeInclusive<IpAddr> {
    match level {
        0 => Ipv4Addr::UNSPECIFIED.into()..=Ipv6Addr::from_bits(u128::MAX).into(),
        _ => addresses(client, level - 1),
    }
}

/// The use of clients, by [`client_key`]. The clients of a network are adjacent in this order.
#[derive(Debug)]
pub struct Networks<'a, H> {
    /// The use of each client.
    pub clients: &'a BTreeMap<IpAddr, H>,
    /// The amount that counts for the client.
    pub held: fn(&H) -> u64,
    /// The amount that can be evicted.
    pub evictable: fn(&H) -> u64,
}

impl<H> Networks<'_, H> {
    /// Returns the use of the client's network at a level. Visits each client of the network.
    pub(super) fn held(&self, client: IpAddr, level: usize) -> u64 {
        self.clients.range(addresses(client, level)).map(|(_, held)| (self.held)(held)).sum()
    }

    /// Returns the use of the largest other network with which the client's network is compared at a level; 0 if there
    /// is none. May visit each client.
    pub(super) fn held_by_others(&self, client: IpAddr, level: usize) -> u64 {
        let own = network(client, level);
        let around = surroundings(client, level);
        self.largest(around, level, Some(own), self.held).map_or(0, |(_, held)| held)
    }

    /// Returns the client that has to release `amount` for this one. It is in the largest other network at the first
    /// level from `from` on at which that network uses more than this client's network would use with `amount`. May
    /// visit each client at each level.
    pub fn rival(&self, client: IpAddr, amount: u64, from: usize) -> Option<IpAddr> {
        (from..levels(client)).find_map(|level| {
            let own = network(client, level);
            let around = surroundings(client, level);
            let (largest, held) = self.largest(around, level, Some(own), self.evictable)?;
            let own = self.held(client, level).saturating_add(amount);
            (held > own).then(|| self.largest_client(largest, level))
        })
    }

    /// Returns the use of the client's network at each level, from the largest network down.
    pub fn held_by_levels(&self, client: IpAddr) -> [u64; LEVELS.len()] {
        std::array::from_fn(|level| self.held(client, level))
    }

    /// Returns the client found by descending into the largest network at each further level.
    fn largest_client(&self, mut network: IpAddr, mut level: usize) -> IpAddr {
        while level + 1 < levels(network) {
            let within = addresses(network, level);
            level += 1;
            let Some((largest, _)) = self.largest(within, level, None, self.evictable) else {
                break;
            };
            network = largest;
        }
        network
    }

    /// Returns the network with the highest use at a level, and its use.
    fn largest(
        &self,
        within: RangeInclusive<IpAddr>,
        level: usize,
        except: Option<IpAddr>,
        counted: fn(&H) -> u64,
    ) -> Option<(IpAddr, u64)> {
        let mut largest: Option<(IpAddr, u64)> = None;
        let mut current: Option<(IpAddr, u64)> = None;
        for (client, held) in self.clients.range(within) {
            let (network, held) = (network(*client, level), counted(held));
            if Some(network) == except {
                continue;
            }
            let before = current.filter(|(known, _)| *known == network).map_or(0, |(_, sum)| sum);
            current = Some((network, before + held));
            if current.map(|(_, sum)| sum) > largest.map(|(_, sum)| sum) {
                largest = current;
            }
        }
        largest.filter(|(_, held)| *held > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn ipv6_slash_64_counts_as_one_client() {
        let key = |text: &str| client_key(address(text));
        assert_eq!(key("2001:db8::1"), key("2001:db8::ffff:1"));
        assert_ne!(key("2001:db8::1"), key("2001:db8:0:1::1"));
        assert_eq!(key("::ffff:10.0.0.1"), key("10.0.0.1"));
        assert_ne!(key("10.0.0.1"), key("10.0.0.2"));
    }

    #[test]
    fn networks_are_compared_level_by_level() {
        let held = [
            ("10.0.0.1", 3),
            // A /48 that uses 7 in total: 4 and 1 in one /56, 2 in another.
            ("2001:db8:1::", 4),
            ("2001:db8:1:ff::", 1),
            ("2001:db8:1:100::", 2),
            ("2001:db8:2::", 5),
        ];
        let clients: BTreeMap<_, u64> =
            held.iter().map(|(text, held)| (client_key(address(text)), *held)).collect();
        let networks = Networks { clients: &clients, held: |held| *held, evictable: |held| *held };
        let held = |text: &str| networks.held_by_levels(address(text));
        assert_eq!(held("10.0.0.1"), [3; 3]);
        assert_eq!(held("2001:db8:1::"), [7, 5, 4]);
        assert_eq!(held("2001:db8:1:100::"), [7, 2, 2]);
        let others =
            |text: &str| [0, 1, 2].map(|level| networks.held_by_others(address(text), level));
        assert_eq!(others("2001:db8:1:ff::"), [5, 2, 4]);
        assert_eq!(others("2001:db8:2::"), [7, 0, 0]);
        assert_eq!(networks.held_by_others(address("10.0.0.1"), 0), 7);
        let rival = |text: &str, amount| networks.rival(address(text), amount, 0);
        assert_eq!(rival("10.0.0.1", 3), Some(address("2001:db8:1::")));
        assert_eq!(rival("10.0.0.1", 4), None);
        assert_eq!(rival("10.0.0.9", 6), Some(address("2001:db8:1::")));
        // Within its own /48 another /56 uses more, then another /64.
        assert_eq!(rival("2001:db8:1:100::", 2), Some(address("2001:db8:1::")));
        assert_eq!(rival("2001:db8:1:100::", 3), None);
        assert_eq!(rival("2001:db8:1:ff::", 2), Some(address("2001:db8:1::")));
        assert_eq!(rival("2001:db8:1:ff::", 3), None);
    }
}
