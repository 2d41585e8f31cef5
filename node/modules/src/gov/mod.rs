//! Governance: proposals to change parameters of the chain, and votes on them.
//!
//! One [`Governance`] is part of the chain's head, like the fee market. Messages change it during a block
//! ([`Session`]), and votes whose time is over are counted at the end of the block ([`Session::end`]). For
//! its storage see [`store`], and for the commitment in headers see `commitment`.
//!
//! The rules are those of the SDK's `gov` module with one difference: the voters are the validators of
//! genesis with their powers. Votes of other accounts are refused.
//!
//! There is no I/O except in [`store::load`], and time is the block's time.

mod closing;
mod commitment;
mod deposits;
mod limits;
mod redenominate;
mod rows;
mod session;
mod slots;
mod state;
pub mod store;
mod tally;

pub use limits::{MAX_ACTIVE, MAX_FINISHED, MAX_PROPOSALS, MAX_VOTING, MAX_WAITING};
pub use session::{Bank, Ended, Rules, Session};
pub use state::{Entry, GovState};
pub use store::StoreError;
pub use tally::{Tally, Verdict, tally};

use alloy_primitives::B256;
use chain::RulesVersion;
use commitment::{Digests, commit};
use std::sync::Arc;
use storage::GovernanceRow;

/// The state of governance after a block. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Governance {
    state: Arc<GovState>,
    /// Digests of the proposals, if they are part of the commitment.
    digests: Arc<Digests>,
    mark: Option<Mark>,
    /// Whether it was read from one message of an older program, so that it has no rows yet.
    has_no_rows: bool,
}

/// All parts of a state have reflexive equality.
impl Eq for Governance {}

/// The content of the module row: enough to find the state and to verify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The commitment to the state.
    pub hash: B256,
    /// The last block that changed it.
    pub height: u64,
}

impl Governance {
    /// Proposals, deposits and votes.
    pub fn state(&self) -> &GovState {
        &self.state
    }

    /// The content of the module row; `None` before the first proposal.
    pub const fn mark(&self) -> Option<Mark> {
        self.mark
    }

    /// The state after block `height`, which changed it, under these rules; with the rows to store with that
    /// block.
    #[must_use]
    pub fn changed(
        &self,
        state: GovState,
        height: u64,
        version: RulesVersion,
    ) -> (Self, Vec<GovernanceRow>) {
        let nothing = GovState::default();
        let stored = if self.has_no_rows { &nothing } else { &*self.state };
        let rows = rows::changed(stored, &state);
        let (hash, digests) = commit(&state, Some((&self.state, &self.digests)), version);
        let changed = Self {
            state: Arc::new(state),
            digests: Arc::new(digests),
            mark: Some(Mark { hash, height }),
            has_no_rows: false,
        };
        (changed, rows)
    }
}
