//! The mode in which a single node produces blocks. Clients of a development chain can change it at run time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// When blocks are produced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mining {
    /// As soon as a transaction can be included.
    Instant,
    /// Only when a client of a development chain requests a block.
    OnRequest,
    /// At this interval, and at once when a block is full.
    Every(Duration),
}

/// The values that stand for [`Mining::Instant`] and [`Mining::OnRequest`]; others are intervals in nanoseconds.
const INSTANT: u64 = 0;
const ON_REQUEST: u64 = u64::MAX;

/// The mode in use, which all clones share.
#[derive(Clone, Debug)]
pub struct MiningControl(Arc<AtomicU64>);

impl MiningControl {
    /// Creates a control with this mode.
    pub fn new(mining: Mining) -> Self {
        let control = Self(Arc::new(AtomicU64::new(INSTANT)));
        control.set(mining);
        control
    }

    /// Returns the current mode.
    pub fn get(&self) -> Mining {
        match self.0.load(Ordering::Relaxed) {
            INSTANT => Mining::Instant,
            ON_REQUEST => Mining::OnRequest,
            nanos => Mining::Every(Duration::from_nanos(nanos)),
        }
    }

    /// Changes the mode from the next block on. A zero interval becomes one nanosecond.
    pub fn set(&self, mining: Mining) {
        let value = match mining {
            Mining::Instant => INSTANT,
            Mining::OnRequest => ON_REQUEST,
            Mining::Every(interval) => {
                u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).clamp(1, ON_REQUEST - 1)
            }
        };
        self.0.store(value, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_returns_what_was_set() {
        let control = MiningControl::new(Mining::Instant);
        let shared = control.clone();
        let interval = Mining::Every(Duration::from_millis(1500));
        for mining in [interval, Mining::OnRequest, Mining::Instant] {
            control.set(mining);
            assert_eq!(shared.get(), mining);
        }
        control.set(Mining::Every(Duration::ZERO));
        assert_eq!(shared.get(), Mining::Every(Duration::from_nanos(1)));
    }
}
