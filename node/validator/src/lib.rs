//! A node that is one of several validators.
//!
//! - `PipelineChain`, with the feature `consensus`: answers the consensus engine from the pipeline. It decides nothing about a
//!   block: the engine decides, and the pipeline executes.
//! - [`create_validator`]: its key. [`create_record`], [`accept_record`]: the record of its votes, without which it does not start.
//! - [`evidence`]: pairs of votes that contradict each other, which it has seen.
//! - [`TestNetwork`]: the homes of several validators, for tests.
//!
//! Without the feature `consensus` there is no engine, and these functions fail with [`RecordError::NoEngine`].

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
