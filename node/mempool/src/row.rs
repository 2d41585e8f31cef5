//! Stores the pending transactions of a sender, which have consecutive nonces. Most senders have one, which needs
//! no separate allocation.

use super::Pooled;
use std::collections::{VecDeque, vec_deque};

/// The row; see the module documentation.
#[derive(Clone, Debug, Default)]
pub struct Row {
    first: Option<Pooled>,
    /// Empty if there is no first transaction.
    rest: VecDeque<Pooled>,
}

impl Row {
    /// Returns the number of transactions.
    pub fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    /// Returns whether there are no transactions.
    pub const fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Returns the transaction at a position.
    pub fn get(&self, index: usize) -> Option<&Pooled> {
        match index.checked_sub(1) {
            None => self.first.as_ref(),
            Some(index) => self.rest.get(index),
        }
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Pooled> {
        match index.checked_sub(1) {
            None => self.first.as_mut(),
            Some(index) => self.rest.get_mut(index),
        }
    }

    /// Returns the first transaction.
    pub const fn front(&self) -> Option<&Pooled> {
        self.first.as_ref()
    }

    /// Returns the last transaction.
    pub fn back(&self) -> Option<&Pooled> {
        self.rest.back().or(self.first.as_ref())
    }

    /// Returns all transactions, in order.
    pub fn iter(
        &self,
    ) -> std::iter::Chain<std::option::Iter<'_, Pooled>, vec_deque::Iter<'_, Pooled>> {
        self.first.iter().chain(&self.rest)
    }

    /// Returns the transactions at and after a position.
    pub(super) fn range_mut(&mut self, from: usize) -> impl Iterator<Item = &mut Pooled> {
        let first = self.first.as_mut().filter(|_| from == 0);
        first.into_iter().chain(self.rest.range_mut(from.saturating_sub(1)..))
    }

    pub(super) fn push_back(&mut self, pooled: Pooled) {
        if self.first.is_none() {
            self.first = Some(pooled);
        } else {
            self.rest.push_back(pooled);
        }
    }

    pub(super) fn pop_front(&mut self) -> Option<Pooled> {
        let next = self.rest.pop_front();
        std::mem::replace(&mut self.first, next)
    }

    pub(super) fn pop_back(&mut self) -> Option<Pooled> {
        self.rest.pop_back().or_else(|| self.first.take())
    }

    /// Frees the memory for transactions after the first, if there are none.
    pub(super) fn shrink(&mut self) {
        if self.rest.is_empty() && self.rest.capacity() > 0 {
            self.rest = VecDeque::new();
        }
    }

    /// Removes and returns the transactions at and after a position.
    pub(super) fn split_off(&mut self, from: usize) -> VecDeque<Pooled> {
        match from.checked_sub(1) {
            Some(from) => self.rest.split_off(from),
            None => {
                let mut all = std::mem::take(&mut self.rest);
                if let Some(first) = self.first.take() {
                    all.push_front(first);
                }
                all
            }
        }
    }
}

impl<'a> IntoIterator for &'a Row {
    type Item = &'a Pooled;
    type IntoIter = std::iter::Chain<std::option::Iter<'a, Pooled>, vec_deque::Iter<'a, Pooled>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
