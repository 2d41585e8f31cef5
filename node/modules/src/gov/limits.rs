//! The limits of governance. Its whole state is in memory.

/// Rules version 0: maximum number of proposals that wait for deposits or votes. Each of them has a deposit.
pub const MAX_ACTIVE: usize = 64;
/// Since rules version 1: maximum number of proposals that wait for deposits. A further one replaces the one
/// with the smallest deposit, if its own deposit is larger.
pub const MAX_WAITING: usize = 64;
/// Since version 1: maximum number of proposals in their voting period. Further ones with the required deposit
/// wait among those of [`MAX_WAITING`] until a voting period ends.
pub const MAX_VOTING: usize = 256;
/// Maximum number of finished proposals that are kept, newest first. Older ones can be queried at an earlier
/// height.
pub const MAX_FINISHED: usize = 256;
/// Maximum number of proposals in the state.
pub const MAX_PROPOSALS: usize = MAX_WAITING + MAX_VOTING + MAX_FINISHED;
/// Maximum number of deposits for one proposal. Each is returned when the proposal ends. Since version 1, a
/// further one replaces the smallest one, if it is larger.
pub(super) const MAX_DEPOSITS: usize = 100;
