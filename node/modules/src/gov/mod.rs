//! Governance: proposals to change parameters of the chain, and votes on them.
//!
//! A [`Governance`] is part of the chain's head, like the fee market. Messages change it during a block
//! ([`Session`]), and proposals whose voting period has ended are tallied at the end of the block
//! ([`Session::end`]). [`store`] describes the storage, and `commitment` the commitment in headers.
//!
//! The rules follow the SDK's `gov` module. The main differences are that only the validators of genesis vote,
//! with their powers, and that the numbers of proposals and deposits are limited.
//!
//! Only [`store::load`] performs I/O. Time is the block's time.

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
    /// Whether it was decoded from a single message of an older program, and therefore has no rows yet.
    has_no_rows: bool,
}

/// Equality is reflexive for all fields.
impl Eq for Governance {}

/// The content of the module row, which is sufficient to find the state and to verify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The commitment to the state.
    pub hash: B256,
    /// The last block that changed it.
    pub height: u64,
}

impl Governance {
    /// Returns the proposals, deposits and votes.
    pub fn state(&self) -> &GovState {
        &self.state
    }

    /// Returns the content of the module row; `None` before the first proposal.
    pub const fn mark(&self) -> Option<Mark> {
        self.mark
    }

    /// Returns the state after block `height`, which changed it under these rules, and the rows to store with
    /// that block.
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
