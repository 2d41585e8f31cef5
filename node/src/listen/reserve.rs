//! Connections above the limit of a server, for health checks only. The oldest one gives way to a new one, so
//! a health check is answered even while one client keeps all connections and opens more.

use crate::budget::Evictable;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Connections of the reserve at a time.
const MAX_RESERVED: usize = 16;
/// Time after which a connection of the reserve is closed. A health check takes milliseconds.
pub(super) const MAX_TIME: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Reserve(Mutex<VecDeque<Arc<Evictable>>>);

/// A connection's place in the reserve, given up when dropped.
#[derive(Debug)]
pub(super) struct Reserved<'a> {
    reserve: &'a Reserve,
    connection: Arc<Evictable>,
}

impl Reserve {
    /// Takes a connection in, and closes the oldest one if there are too many.
    pub(super) fn enter(&self, connection: &Arc<Evictable>) -> Reserved<'_> {
        let mut connections = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if connections.len() >= MAX_RESERVED
            && let Some(oldest) = connections.pop_front()
        {
            oldest.evict();
        }
        connections.push_back(Arc::clone(connection));
        Reserved { reserve: self, connection: Arc::clone(connection) }
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        let mut connections = self.reserve.0.lock().unwrap_or_else(PoisonError::into_inner);
        connections.retain(|other| !Arc::ptr_eq(other, &self.connection));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_connection_gives_way() {
        let reserve = Reserve::default();
        let connections: Vec<_> =
            (0..=MAX_RESERVED).map(|_| Arc::new(Evictable::default())).collect();
        let mut reserved: Vec<_> = connections.iter().map(|one| reserve.enter(one)).collect();
        let evicted = |at: usize| connections[at].is_evicted();
        assert!(evicted(0) && (1..=MAX_RESERVED).all(|at| !evicted(at)));
        drop(reserved.remove(0));
        drop(reserved.pop());
        let another = Arc::default();
        let _place = reserve.enter(&another);
        assert!(!evicted(1), "one has left");
        drop(reserved);
        assert_eq!(reserve.0.lock().unwrap().len(), 1);
    }
}
