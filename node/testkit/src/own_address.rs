//! Addresses that no other test and no other process uses.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::atomic::{AtomicU16, Ordering},
};

/// The first port of these addresses.
const FIRST_PORT: u16 = 10_000;

/// An address of the loopback interface that nothing listens on until the test lets a program listen there.
///
/// A port that the kernel chose does not stay free: after it is closed, the kernel may give it to another test, or to an
/// outgoing connection, before the program under test listens on it. These addresses therefore have a different host for
/// each process, which contains its id. A program that listens on all hosts can still use the same port. All of
/// 127.0.0.0/8 is on the loopback interface of Linux (RFC 1122, section 3.2.1.3); ids of processes have at most 22 bits
/// there.
///
/// # Panics
/// If a process takes more than 55,535 addresses.
pub fn own_address() -> SocketAddr {
    own_addresses(1)
}

/// The first of `count` addresses with consecutive ports, each of which is as [`own_address`] describes.
///
/// # Panics
/// If a process takes more than 55,535 addresses.
pub fn own_addresses(count: u16) -> SocketAddr {
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let taken = TAKEN.fetch_add(count, Ordering::Relaxed);
    assert!(taken < u16::MAX - FIRST_PORT - count, "one process uses too many addresses");
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    // Hosts from 127.64.0.0 on, so that none is 127.0.0.1.
    let host = Ipv4Addr::new(127, 64 | (high & 63), middle, low);
    SocketAddr::new(IpAddr::V4(host), FIRST_PORT + taken)
}
