//! A node that is one of several validators.
//!
//! - `PipelineChain`: answers the consensus engine from the pipeline.
//! - [`record`]: the record of its votes, which must exist before it starts.
//! - [`test_network`]: the homes of several validators, for tests.
//!
//! Without the feature `consensus` there is no engine, and what needs it fails with [`RecordError::NoEngine`].

#[cfg(feature = "consensus")]
mod chain_of_pipeline;
mod record;
mod test_network;
#[cfg(feature = "consensus")]
mod transaction_messages;

#[cfg(feature = "consensus")]
pub use chain_of_pipeline::{FinalCertificates, PipelineChain, encode};
pub use record::{NEEDS_ENGINE, RecordError, accept_record, create_record, folder};
pub use test_network::{MAX_VALIDATORS, Member, TestNetwork, TestNetworkError};
