//! Eviction: frees nodes that no update has used for a long time and whose records are in the index.
//!
//! As in the clock algorithm, a hand moves around the account trie, one subtrie of two nibbles per step, and
//! then over all storage tries. Updates start at the root, so a branch was last used and changed no earlier than
//! any node below it. Therefore, an old branch is freed together with everything below it.

use super::LiveTrie;
use super::arena::{Arena, COLD, Slot, nibbles, position};

/// Number of steps per revolution of the hand: the subtries, and one step for the storage tries.
const STEPS: u32 = 257;
/// Initial minimum age of evicted nodes, in updates. It is halved after each revolution that does not free enough.
const MAX_AGE: u32 = 1 << 12;

/// Position of the hand.
#[derive(Debug)]
pub(super) struct Hand {
    step: u32,
    /// Minimum age of evicted branches, in updates.
    age: u32,
    /// Set if a complete revolution with age 0 did not free enough: the last durable checkpoint at that time.
    /// Eviction is not tried again until a later checkpoint is durable.
    stuck: Option<u32>,
}

impl Hand {
    pub(super) const fn new() -> Self {
        Self { step: 0, age: MAX_AGE, stuck: None }
    }
}

/// Condition for eviction.
#[derive(Clone, Copy)]
struct Old {
    /// Only nodes that were last used before this update are evicted.
    before: u32,
    /// Only nodes that have not changed after this checkpoint are evicted.
    durable: u32,
}

impl LiveTrie {
    /// Evicts old nodes until the cache is within its limit, or until no more nodes may be evicted.
    pub(super) fn evict(&mut self) {
        if self.bytes() <= self.limit {
            self.hand.age = MAX_AGE;
            return;
        }
        if self.hand.stuck == Some(self.durable) {
            return;
        }
        self.hand.stuck = None;
        // Slightly more than necessary is freed, so that the next updates do not have to evict.
        let target = self.limit - self.limit / 64;
        let mut steps = 0;
        while self.bytes() > target {
            self.step(Old {
                before: self.now.saturating_sub(self.hand.age),
                durable: self.durable,
            });
            steps += 1;
            if steps == STEPS {
                steps = 0;
                if self.hand.age == 0 {
                    self.hand.stuck = Some(self.durable);
                    return;
                }
                self.hand.age /= 2;
            }
        }
    }

    fn step(&mut self, old: Old) {
        let step = self.hand.step;
        self.hand.step = (step + 1) % STEPS;
        if step == STEPS - 1 {
            return self.evict_storages(old);
        }
        let Slot::Branch(root) = self.accounts.slot else { return };
        // If the root has a prefix, the trie is small, and one step is enough for all of it.
        let nibbles = [(step >> 4) as u8, (step & 0x0f) as u8];
        if self.arena.prefix_len(self.arena.branch(root)) > 0 {
            return evict_below(&mut self.arena, root, old);
        }
        let Slot::Branch(first) = self.arena.child(root, nibbles[0]) else { return };
        evict_child(&mut self.arena, first, nibbles[1], old);
    }

    fn evict_storages(&mut self, old: Old) {
        let arena = &mut self.arena;
        self.storages.retain(|_, tree| {
            if tree.used < old.before && tree.epoch <= old.durable {
                free(arena, tree.slot);
                return false;
            }
            if let Slot::Branch(root) = tree.slot {
                evict_below(arena, root, old);
            }
            true
        });
    }
}

fn evict_below(arena: &mut Arena, index: u32, old: Old) {
    let branch = *arena.branch(index);
    for nibble in nibbles(branch.mask & !branch.leaves) {
        evict_child(arena, index, nibble, old);
    }
}

fn evict_child(arena: &mut Arena, index: u32, nibble: u8, old: Old) {
    let Slot::Branch(child) = arena.child(index, nibble) else { return };
    let branch = arena.branch(child);
    if branch.used < old.before && branch.epoch <= old.durable {
        free(arena, Slot::Branch(child));
        arena.set_child(index, nibble, Slot::Cold);
    } else {
        evict_below(arena, child, old);
    }
}

/// Frees a slot with everything below it.
pub(super) fn free(arena: &mut Arena, slot: Slot) {
    match slot {
        Slot::Empty | Slot::Cold => {}
        Slot::Leaf(leaf) => arena.free_leaf(leaf),
        Slot::Branch(index) => {
            let branch = *arena.branch(index);
            for nibble in nibbles(branch.mask) {
                let link = arena.links(&branch)[position(branch.mask, nibble)];
                if branch.leaves & (1 << nibble) != 0 {
                    arena.free_leaf(link);
                } else if link != COLD {
                    free(arena, Slot::Branch(link));
                }
            }
            arena.free_branch(index);
        }
    }
}
