//! The limits of the governance state, which is in memory as a whole.

/// Rules version 0: maximum number of proposals that wait for deposits or votes.
pub const MAX_ACTIVE: usize = 64;
/// Since rules version 1: maximum number of proposals that wait for deposits. A further proposal replaces the one
/// with the smallest deposit, if its own deposit is larger.
pub const MAX_WAITING: usize = 64;
/// Since rules version 1: maximum number of proposals in their voting period. A further proposal with the required
/// deposit counts towards [`MAX_WAITING`] until a voting period ends.
pub const MAX_VOTING: usize = 256;
/// Maximum number of finished proposals that are kept. The oldest are removed, and can still be queried at an
/// earlier height.
pub const MAX_FINISHED: usize = 256;
/// Maximum number of proposals in the state.
pub const MAX_PROPOSALS: usize = MAX_WAITING + MAX_VOTING + MAX_FINISHED;
/// Maximum number of deposits for one proposal. Each is returned or burned when the proposal ends. Since rules
/// version 1, a further deposit replaces the smallest one, if it is larger.
pub(super) const MAX_DEPOSITS: usize = 100;
