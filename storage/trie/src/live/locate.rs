//! Loads the nodes on the paths to a list of keys before their entries are changed.
//!
//! All keys descend together, one level per pass. The steps of a pass are independent, so the processor loads
//! many cache lines concurrently. Descending key by key would load them one after the other.

use alloy_primitives::B256;

use super::RecordRead;
use super::apply::{load, shared_prefix};
use super::arena::{Arena, Slot};
use super::path::{Key, Path, nibble};
use crate::TrieError;

/// Number of keys between the prefetch for a step and the step.
const AHEAD: usize = 8;

/// The position of one descending key.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    branch: u32,
    key: u32,
    depth: u32,
}

/// Buffers that are reused for all blocks.
#[derive(Debug, Default)]
pub(super) struct Locate {
    cursors: Vec<Cursor>,
    next: Vec<Cursor>,
    cold: Vec<Cursor>,
}

impl Locate {
    /// Loads the nodes on the paths from `root` to `keys`, which must be ascending, and marks them as used.
    /// Returns the new root slot.
    ///
    /// # Errors
    /// If a record is missing, damaged or cannot be read.
    pub(super) fn run<S: RecordRead>(
        &mut self,
        arena: &mut Arena,
        source: &S,
        owner: Option<B256>,
        root: Slot,
        keys: &[Key],
        used: u32,
    ) -> Result<Slot, TrieError<S::Error>> {
        let root = match root {
            Slot::Cold => load(arena, source, owner, &Path::ROOT, used)?,
            root => root,
        };
        let Slot::Branch(branch) = root else { return Ok(root) };
        self.cursors.clear();
        self.cursors.extend((0..keys.len() as u32).map(|key| Cursor { branch, key, depth: 0 }));
        while !self.cursors.is_empty() {
            self.step(arena, keys, used);
            self.load(arena, source, owner, keys, used)?;
            std::mem::swap(&mut self.cursors, &mut self.next);
        }
        Ok(root)
    }

    /// Moves every key down by one branch.
    fn step(&mut self, arena: &mut Arena, keys: &[Key], used: u32) {
        self.next.clear();
        self.cold.clear();
        for (at, &cursor) in self.cursors.iter().enumerate() {
            if let Some(ahead) = self.cursors.get(at + AHEAD) {
                arena.prefetch_links(ahead.branch);
            }
            let key = &keys[cursor.key as usize];
            let branch = arena.branch_mut(cursor.branch);
            branch.used = used;
            let branch = *branch;
            let length = arena.prefix_len(&branch);
            let depth = cursor.depth as usize;
            if length > 0 && shared_prefix(arena, cursor.branch, depth, key) < length {
                continue;
            }
            match arena.child(cursor.branch, nibble(key, depth + length)) {
                Slot::Empty => {}
                Slot::Leaf(leaf) => arena.prefetch_leaf(leaf),
                Slot::Cold => self.cold.push(cursor),
                Slot::Branch(branch) => {
                    arena.prefetch_branch(branch);
                    let depth = (depth + length + 1) as u32;
                    self.next.push(Cursor { branch, depth, ..cursor });
                }
            }
        }
    }

    /// Loads the cold children that keys have reached, each once, in path order.
    fn load<S: RecordRead>(
        &mut self,
        arena: &mut Arena,
        source: &S,
        owner: Option<B256>,
        keys: &[Key],
        used: u32,
    ) -> Result<(), TrieError<S::Error>> {
        for &cursor in &self.cold {
            let key = &keys[cursor.key as usize];
            let base = cursor.depth as usize + arena.prefix_len(arena.branch(cursor.branch));
            let at = nibble(key, base);
            let branch = match arena.child(cursor.branch, at) {
                Slot::Cold => match load(arena, source, owner, &Path::of(key, base + 1), used)? {
                    Slot::Branch(branch) => branch,
                    _ => unreachable!("only the root record may be a leaf"),
                },
                Slot::Branch(branch) => branch,
                slot => unreachable!("a cold child became {slot:?}"),
            };
            arena.set_child(cursor.branch, at, Slot::Branch(branch));
            self.next.push(Cursor { branch, depth: (base + 1) as u32, ..cursor });
        }
        Ok(())
    }
}
