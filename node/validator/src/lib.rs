//! A node that is one of several validators.
//!
//! - `PipelineChain`, with the feature `consensus`: connects the consensus engine to the pipeline. The engine decides
//!   about blocks, and the pipeline executes them.
//! - [`create_validator`]: creates its key. [`create_record`], [`accept_record`]: create or accept the record of its
//!   votes, without which it does not start.
//! - [`evidence`]: reads the pairs of votes that contradict each other, which it has seen.
//! - [`TestNetwork`]: creates the homes of several validators, for tests.
//!
//! Without the feature `consensus` there is no engine: functions that create or accept fail with
//! [`RecordError::NoEngine`].

mod evidence;
#[cfg(feature = "consensus")]
mod pipeline_chain;
mod record;
mod test_network;
#[cfg(feature = "consensus")]
mod transaction_messages;

pub use evidence::{Evidence, EvidenceError, EvidenceFile, EvidenceKind, evidence};
#[cfg(feature = "consensus")]
pub use pipeline_chain::{FinalCertificates, PipelineChain, ValidatorAccounts, encode};
pub use record::{
    NEEDS_ENGINE, RecordError, accept_record, create_record, create_validator, folder,
};
pub use test_network::{MAX_VALIDATORS, Member, TestNetwork, TestNetworkError};
