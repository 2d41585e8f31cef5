//! Checks that the system clock is synchronized.

use home::doctor::Failure;
use platform::clock::{self, Clock};

/// Checks the clock, because a producer takes block timestamps from it and other nodes refuse blocks from the future.
pub(super) fn synchronized() -> Result<String, Failure> {
    match clock::state() {
        Clock::Synchronized => Ok("the system clock is synchronized".to_owned()),
        Clock::Unknown => {
            Ok("this system does not say whether its clock is synchronized".to_owned())
        }
        Clock::Unsynchronized => Err(Failure::new(
            "the kernel does not know of a program that synchronizes the system clock",
            "run an NTP client, such as chrony or systemd-timesyncd; in a container, on the host",
        )),
    }
}
