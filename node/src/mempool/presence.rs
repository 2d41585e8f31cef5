//! Which senders may have a lane, told without looking into the map of lanes. The map is in no near
//! cache, and of the accounts that a block changes, half are receivers without a lane.

use alloy_primitives::Address;

/// Counters, a power of two of a byte each: they fit a second cache, and of 40,000 senders one account
/// in seven without a lane has a counter above zero.
const PLACES: usize = 1 << 18;
/// A counter that has come so far stays: it has lost count. Many senders at one place only cost looks.
const FULL: u8 = u8::MAX;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Presence {
    counts: Box<[u8]>,
}

impl Default for Presence {
    fn default() -> Self {
        Self { counts: vec![0; PLACES].into() }
    }
}

impl Presence {
    /// A sender has a lane now.
    pub(super) fn add(&mut self, sender: &Address) {
        let count = &mut self.counts[place(sender)];
        *count = count.saturating_add(1);
    }

    /// A sender that was added has none any more.
    pub(super) fn remove(&mut self, sender: &Address) {
        let count = &mut self.counts[place(sender)];
        if *count != FULL {
            *count -= 1;
        }
    }

    /// Whether a sender may have a lane; true of all that have one.
    pub(super) fn may_have(&self, sender: &Address) -> bool {
        self.counts[place(sender)] != 0
    }
}

/// Addresses are parts of hashes: any of their bits will do.
fn place(sender: &Address) -> usize {
    let [.., a, b, c, d] = sender.0.0;
    u32::from_be_bytes([a, b, c, d]) as usize % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_added_and_not_removed_may_have_a_lane() {
        let mut presence = Presence::default();
        let sender = |n: u64| Address::left_padding_from(&(n * 0x1f_0001).to_be_bytes());
        (0..5_000).for_each(|n| presence.add(&sender(n)));
        assert!((0..5_000).all(|n| presence.may_have(&sender(n))));
        (0..2_500).for_each(|n| presence.remove(&sender(n)));
        assert!((2_500..5_000).all(|n| presence.may_have(&sender(n))));
        (2_500..5_000).for_each(|n| presence.remove(&sender(n)));
        assert!((0..5_000).all(|n| !presence.may_have(&sender(n))));
    }

    /// However many share a place, none of them is forgotten.
    #[test]
    fn a_full_counter_stays() {
        let mut presence = Presence::default();
        let sender = |n: u32| {
            let mut bytes = [0; 20];
            bytes[..4].copy_from_slice(&n.to_be_bytes());
            Address::new(bytes)
        };
        (0..1_000).for_each(|n| presence.add(&sender(n)));
        (0..999).for_each(|n| presence.remove(&sender(n)));
        assert!(presence.may_have(&sender(999)));
    }
}
