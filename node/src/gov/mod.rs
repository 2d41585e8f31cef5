//! Governance: how parameters of the chain are proposed, voted on and changed.
//!
//! One [`Governance`] travels with the chain like the fee market. Messages change it in a block
//! ([`Session`]), the end of a block counts the votes whose time has come ([`Session::end`]). What is
//! kept of it, and how a header commits to it, is in [`store`].
//!
//! The rules are those of the SDK's `gov` module with one difference: the voters are the validators
//! that genesis names, each weighing its power. Nobody else's vote is taken.
//!
//! Pure: no I/O, and the block's time for a clock.

mod limits;
mod params;
mod redenominate;
mod session;
pub mod store;
mod tally;

pub use limits::{MAX_ACTIVE, MAX_FINISHED};
pub(crate) use params::GovSection;
pub use params::{GovParams, Validator};
pub use session::{Bank, Ended, Rules, Session};
pub use store::StoreError;
pub use tally::{Tally, Verdict, tally};

use crate::proto::evmd::gov::v1::State;
use alloy_primitives::{B256, Bytes};
use std::sync::Arc;

/// What governance has decided, and is deciding, after some block. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Governance {
    state: Arc<State>,
    mark: Option<Mark>,
}

/// A state has no parts that are not equal to themselves.
impl Eq for Governance {}

/// What a row tells of the state: enough to find it and to prove it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Keccak-256 of its bytes.
    pub hash: B256,
    /// The block that changed it last, with which it is stored.
    pub height: u64,
}

impl Governance {
    /// Proposals, deposits and votes.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// What the row tells of the state; `None` before the first proposal.
    pub const fn mark(&self) -> Option<Mark> {
        self.mark
    }

    /// What it is after block `height` that changed the state; with the bytes to store with that block.
    #[must_use]
    pub(crate) fn changed(state: State, height: u64) -> (Self, Bytes) {
        let bytes = store::bytes(&state);
        let mark = Some(Mark { hash: alloy_primitives::keccak256(&bytes), height });
        (Self { state: Arc::new(state), mark }, bytes)
    }
}
