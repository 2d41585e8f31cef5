//! The JSON-RPC methods that inspect blocks and execute them again: `debug_`, `trace_`, `ots_`, `testing_`; and those
//! that control a development chain: `evm_`, `anvil_`, `hardhat_`.
//!
//! [`replay`] executes the transactions of a block again.

pub mod debug;
pub mod development;
pub mod ots;
pub mod replay;
pub mod testing;
pub mod trace;
