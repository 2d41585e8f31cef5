//! How much governance keeps. All of it is rewritten in each block that changes it.

/// Most proposals that wait for deposits or votes. Each holds a deposit back.
pub const MAX_ACTIVE: usize = 64;
/// Most proposals kept after their end, the newest. Older ones are answered at the height they had.
pub const MAX_FINISHED: usize = 256;
/// Most deposits for one proposal: each is paid back when it ends.
pub(super) const MAX_DEPOSITS: usize = 100;
