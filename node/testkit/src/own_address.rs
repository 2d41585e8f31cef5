//! Addresses that no other test and no other process uses.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::atomic::{AtomicU16, Ordering},
};

const FIRST_PORT: u16 = 10_000;

/// An address of the loopback interface that nothing listens on until the test lets a program listen there.
///
/// A port that the kernel chose does not stay free: after the test has closed it, the kernel may assign it to another
/// test, or to an outgoing connection, before the program under test listens on it. The host of these addresses
/// therefore contains the id of the process, and differs between processes. A program that listens on all hosts can
/// still use the same port. On Linux, all of 127.0.0.0/8 is on the loopback interface (RFC 1122, section 3.2.1.3), and
/// process ids have at most 22 bits.
///
/// # Panics
/// If a process takes more than 55,534 addresses in total.
pub fn own_address() -> SocketAddr {
    own_addresses(1)
}

/// Reserves `count` addresses like that of [`own_address`] with consecutive ports; returns the first.
///
/// # Panics
/// If a process takes more than 55,534 addresses in total.
pub fn own_addresses(count: u16) -> SocketAddr {
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let taken = TAKEN.fetch_add(count, Ordering::Relaxed);
    assert!(taken < u16::MAX - FIRST_PORT - count, "one process uses too many addresses");
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    // The second byte is at least 64, so that no host is 127.0.0.1.
    let host = Ipv4Addr::new(127, 64 | (high & 63), middle, low);
    SocketAddr::new(IpAddr::V4(host), FIRST_PORT + taken)
}
