//! Reads the monotonic clock, and whether the system clock is synchronized with a reference clock.
#![allow(unsafe_code)]

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// The monotonic clock that counts the time in which the machine is suspended; the ordinary one outside Linux.
#[cfg(target_os = "linux")]
const SINCE_START: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const SINCE_START: ClockId = ClockId::Monotonic;

/// Returns the time since an instant that does not change while the machine runs. This clock cannot be set.
///
/// # Panics
/// If the system returns a negative time.
pub fn since_start() -> Duration {
    let time = clock_gettime(SINCE_START);
    let seconds = u64::try_from(time.tv_sec).expect("a machine was not started in the future");
    Duration::new(seconds, u32::try_from(time.tv_nsec).expect("below a second"))
}

/// The state of the system clock, as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// A program such as an NTP client keeps the clock correct.
    Synchronized,
    /// No program has kept the clock correct for some time.
    Unsynchronized,
    /// The system does not report the state.
    Unknown,
}

/// Reads the state from the kernel (`adjtimex(2)` with no changes).
pub fn state() -> Clock {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: all fields of `timex` are integers, for which zero is a valid value.
        let mut query: libc::timex = unsafe { std::mem::zeroed() };
        // SAFETY: the call writes to `query`, which outlives it. `modes` is 0, so that it changes nothing.
        match unsafe { libc::adjtimex(&raw mut query) } {
            libc::TIME_ERROR => Clock::Unsynchronized,
            -1 => Clock::Unknown,
            _ => Clock::Synchronized,
        }
    }
    #[cfg(not(target_os = "linux"))]
    Clock::Unknown
}

#[cfg(test)]
mod tests {
    #[test]
    fn reading_the_state_does_not_change_it() {
        assert_eq!(super::state(), super::state());
    }
}
