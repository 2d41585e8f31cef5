//! The executor: returns the receipts and the state changes of a block.
//!
//! It reads state through [`storage::StateRead`]. It neither writes state nor reads a clock. The same engine executes
//! imported blocks ([`execute_block`]), blocks under construction ([`BlockBuilder`]) and single calls ([`CallSite`]).
//! The rules of forks are in [`chain`]; `revm` implements the instructions and precompiles.

mod account_override;
mod block;
mod caches;
mod call;
mod cosmos;
mod deferred_parent_hash;
mod environment;
mod error;
mod fast;
mod geth_errors;
mod host;
mod intermediate;
mod machine;
mod native;
mod overlay;
mod overrides;
mod precompiles;
mod prices;
mod receipt;
mod requests;
mod rewards;
mod simulate;
mod trace;
mod tracer;
mod transfers;
mod validate;

#[cfg(test)]
mod admission_fork_tests;
#[cfg(test)]
mod boundary_tests;

pub use account_override::AccountOverride;
pub use block::{
    BlockBuilder, BlockInput, Executed, StateRoot, execute_block, execute_transaction,
};
pub use caches::ExecutionCaches;
pub use call::{Call, CallError, CallOutcome, CallResult, CallSite};
pub use cosmos::FAILED_EVENT;
pub use deferred_parent_hash::{PARENT_UNKNOWN, ParentUnknown, put_parent_hash};
pub use error::{ExecutionError, StateError, SystemFailure, TxError};
pub use geth_errors::halt_text;
pub use host::ExecutionHost;
pub use intermediate::changes_since;
pub use overlay::Overlay;
pub use overrides::OverrideError;
pub use prices::WidePrices;
pub use receipt::{encode_receipt, logs_bloom, receipts_root};
pub use rewards::{Rewards, rewards};
pub use simulate::{
    BlockOverrides, MAX_SIMULATED_BLOCKS, SimulateBlock, SimulateError, SimulateOptions,
    SimulatedBlock, SimulatedCall,
};
pub use trace::TraceError;
pub use trace::TracedBlock;
pub use tracer::{
    ConsoleTrace, ConsoleTracer, ExecutionGas, GethTracer, ParityTracer, Tracer, WithGas,
};
pub use validate::{complete_header, validate_executed, validate_received};
