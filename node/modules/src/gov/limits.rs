//! The limits of governance, all of whose state is in memory.

/// Version 0 of the rules: maximum number of proposals that wait for deposits or votes. Each has a deposit.
pub const MAX_ACTIVE: usize = 64;
/// From version 1 of the rules on: maximum number of proposals that wait for deposits. A further one takes the place of
/// the one with the smallest deposit, if its own deposit is larger.
pub const MAX_WAITING: usize = 64;
/// From version 1 on: maximum number of proposals that are voted on at once. Further ones with the minimum deposit wait
/// among those of [`MAX_WAITING`] until a vote ends.
pub const MAX_VOTING: usize = 256;
/// Maximum number of proposals kept after their end, newest first. Older ones are available at the height
/// they had.
pub const MAX_FINISHED: usize = 256;
/// Maximum number of proposals that exist at once.
pub const MAX_PROPOSALS: usize = MAX_WAITING + MAX_VOTING + MAX_FINISHED;
/// Maximum number of deposits for one proposal: each is paid back when it ends. From version 1 on, a further one takes
/// the place of the smallest one, if it is larger.
pub(super) const MAX_DEPOSITS: usize = 100;
