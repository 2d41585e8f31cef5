//! Governance: how parameters of the chain are proposed, voted on and changed.
//!
//! One [`Governance`] travels with the chain like the fee market. Messages change it in a block
//! ([`Session`]), the end of a block counts the votes whose time has come ([`Session::end`]). What is
//! stored of it is in [`store`], and how a header commits to it in `commitment`.
//!
//! The rules are those of the SDK's `gov` module with one difference: the voters are the validators
//! that genesis names, each weighing its power. No other account's vote is taken.
//!
//! Pure: no I/O except in [`store::load`], and the block's time for a clock.

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

/// What governance has decided, and is deciding, after some block. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Governance {
    state: Arc<GovState>,
    /// Digests of the proposals, if the commitment was made of them.
    digests: Arc<Digests>,
    mark: Option<Mark>,
    /// It was read from one message that an older program stored, so there are no rows of it yet.
    has_no_rows: bool,
}

/// A state has no parts that are not equal to themselves.
impl Eq for Governance {}

/// What a row tells of the state: enough to find it and to prove it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The commitment to it.
    pub hash: B256,
    /// The block that changed it last.
    pub height: u64,
}

impl Governance {
    /// Proposals, deposits and votes.
    pub fn state(&self) -> &GovState {
        &self.state
    }

    /// What the row tells of the state; `None` before the first proposal.
    pub const fn mark(&self) -> Option<Mark> {
        self.mark
    }

    /// What it is after block `height` that changed the state, under these rules; with the rows to store with that
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
