//! Defines a chain: its rules, forks and genesis, and the validity of headers and bodies.
//!
//! This crate has no I/O, no clock and no state. A chain is read from a geth `genesis.json`. It has native rules if
//! `config` has a section `evmd`, as in the genesis of [`Genesis::native_dev`], and Ethereum rules otherwise.
//! The crate `evm` executes transactions.

pub mod block;
mod body;
mod commitment;
mod derived_fields;
mod difficulty;
mod distribution;
mod error;
mod evm;
mod file;
mod forks;
mod genesis;
mod gov_params;
mod gov_section;
mod header;
pub mod module_row;
mod native;
mod ommers;
mod preinstalls;
mod rules;
mod spec;
mod system_contracts;
mod token;
mod token_at_height;

pub use body::{Body, MAX_BLOCK_BYTES, commits_to, validate_body};
pub use derived_fields::next_prev_randao;
pub use distribution::{DistributionParams, FeeRecipient, UnknownFeeRecipient};
pub use error::{GenesisError, HeaderError, Violation};
pub use evm::{
    AccessControl, AccessRule, AccessType, EvmParams, EvmParamsError, ExtraPrecompile,
    ExtraPrecompiles, ExtraPrecompilesError,
};
pub use forks::{Fork, ForkSchedule};
pub use genesis::Genesis;
pub use gov_params::{GovParams, Validator};
pub use gov_section::{GovSection, MAX_CONSENSUS_VALIDATORS};
pub use header::{
    Attributes, Parent, next_base_fee, next_excess_blob_gas, next_header, validate_header,
};
pub use native::{DEV_ACCOUNTS, DEV_MNEMONIC, DevAccount, FEE_COLLECTOR, Native, Producer};
pub use ommers::{Ancestor, MAX_OMMER_DEPTH, validate_ommers};
pub use preinstalls::{CREATE2_DEPLOYER, MULTICALL3, SAFE_FACTORY};
pub use rules::ActivationJson;
pub use rules::{Activation, RulesError, RulesSchedule, RulesVersion};
pub use spec::{ChainSpec, Rules};
pub use system_contracts::{MissingContract, SYSTEM_CONTRACTS, SystemContract};
pub use token::{Token, TokenUnit};
