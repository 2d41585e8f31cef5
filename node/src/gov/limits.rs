//! How much governance keeps. All of it is in memory.

/// Maximum number of proposals that wait for deposits or votes. Each holds a deposit back.
pub const MAX_ACTIVE: usize = 64;
/// Maximum number of proposals kept after their end, the newest. Older ones are answered at the height they had.
pub const MAX_FINISHED: usize = 256;
/// Maximum number of proposals that exist at once.
pub const MAX_PROPOSALS: usize = MAX_ACTIVE + MAX_FINISHED;
/// Maximum number of deposits for one proposal: each is paid back when it ends.
pub(super) const MAX_DEPOSITS: usize = 100;
