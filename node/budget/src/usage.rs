//! The memory that one connection or one request of a client uses.

use super::{Evictable, Held, Refused, Resource};
use bytes::Bytes;
use std::{net::IpAddr, sync::Arc};

/// Memory is acquired in multiples of this, so that the lock is taken once for many reads from a socket.
const STEP_BYTES: u64 = 64 * 1024;

/// The client whose memory is used, and the connection that is closed if another client needs the memory.
#[derive(Debug)]
pub struct Account {
    /// The memory of all clients.
    pub memory: Arc<Resource>,
    /// The client.
    pub client: IpAddr,
    /// The connection that is closed if another client needs the memory.
    pub owner: Arc<Evictable>,
}

impl Account {
    /// Acquires exactly this many bytes.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn hold(&self, bytes: usize) -> Result<Held, Refused> {
        self.memory.acquire(self.client, bytes as u64, &self.owner)
    }

    /// Returns the usage of a growing buffer. Its first `allowance` bytes are not accounted.
    pub fn buffer(self: &Arc<Self>, allowance: usize) -> Usage {
        Usage { account: Arc::clone(self), allowance, held: None }
    }

    /// Returns a separate account, for tests.
    pub fn with_limit(limit: u64) -> Arc<Self> {
        let memory = Arc::new(Resource::new("memory_bytes", limit));
        Arc::new(Self { memory, client: IpAddr::from([127, 0, 0, 1]), owner: Arc::default() })
    }
}

/// The memory of a growing buffer; see [`Account::buffer`].
#[derive(Debug)]
pub struct Usage {
    account: Arc<Account>,
    allowance: usize,
    held: Option<Held>,
}

impl Usage {
    /// Acquires enough memory for a buffer of this many bytes.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), Refused> {
        let held = self.held.as_ref().map_or(0, Held::amount);
        let bytes = bytes as u64;
        if bytes <= held || held == 0 && bytes <= self.allowance as u64 {
            return Ok(());
        }
        let wanted = bytes.next_multiple_of(STEP_BYTES);
        match &mut self.held {
            Some(held) => held.grow(wanted - held.amount()),
            None => {
                self.held = Some(self.account.hold(wanted as usize)?);
                Ok(())
            }
        }
    }

    /// Appends to a buffer whose final length is at most `max` bytes, and accounts for its capacity.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn extend(&mut self, buffer: &mut Vec<u8>, data: &[u8], max: usize) -> Result<(), Refused> {
        let length = buffer.len() + data.len();
        if length > buffer.capacity() {
            // The capacity doubles, so that each byte is copied about once on average, but does not exceed `max`.
            let capacity = length.max(max.min(2 * buffer.capacity()));
            self.grow_to(capacity)?;
            buffer.reserve_exact(capacity - buffer.len());
        }
        buffer.extend_from_slice(data);
        Ok(())
    }

    /// Returns the number of bytes that are held.
    pub fn held_bytes(&self) -> usize {
        self.held.as_ref().map_or(0, Held::amount) as usize
    }

    /// Evicts the owner, which then closes its connection.
    pub fn evict_owner(&self) {
        self.account.owner.evict();
    }

    /// Returns the accounted memory, for a caller that stores the buffer itself.
    pub fn into_held(self) -> Option<Held> {
        self.held
    }

    /// Releases the memory that a buffer of this many bytes does not need.
    pub fn shrink_to(&mut self, bytes: usize) {
        if let Some(held) = &mut self.held {
            held.shrink(held.amount().saturating_sub((bytes as u64).next_multiple_of(STEP_BYTES)));
        }
    }
}

/// Returns the bytes with a guard that is dropped with their last reference, which is when they have been written.
pub fn accounted(bytes: Bytes, guard: impl Send + 'static) -> Bytes {
    Bytes::from_owner(Accounted { bytes, _guard: guard })
}

struct Accounted<G> {
    bytes: Bytes,
    _guard: G,
}

impl<G> AsRef<[u8]> for Accounted<G> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_acquires_memory_in_steps_above_its_allowance() {
        let account = Account::with_limit(4 * STEP_BYTES);
        let used = || account.memory.reading().used;
        let mut buffer = account.buffer(1000);
        buffer.grow_to(1000).unwrap();
        assert_eq!(used(), 0);
        buffer.grow_to(1001).unwrap();
        assert_eq!(used(), STEP_BYTES);
        buffer.grow_to(3 * STEP_BYTES as usize - 1).unwrap();
        assert_eq!(used(), 3 * STEP_BYTES);
        assert!(buffer.grow_to(4 * STEP_BYTES as usize + 1).is_err());
        buffer.shrink_to(1);
        assert_eq!(used(), STEP_BYTES);
        buffer.shrink_to(0);
        assert_eq!(used(), 0);
        buffer.grow_to(1).unwrap();
        drop(buffer);
        assert_eq!(used(), 0);
    }

    #[test]
    fn bytes_are_accounted_until_their_last_part_is_dropped() {
        let account = Account::with_limit(2000);
        let used = || account.memory.reading().used;
        let whole = Bytes::from(vec![7; 1000]);
        let mut piece = accounted(whole.clone(), account.hold(1000).unwrap());
        assert_eq!((&piece, piece.as_ptr()), (&whole, whole.as_ptr()), "they are not copied");
        let rest = piece.split_off(10);
        drop(piece);
        assert_eq!(used(), 1000);
        drop(rest);
        assert_eq!(used(), 0);
    }
}
