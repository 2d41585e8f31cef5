//! What every JSON-RPC method reads and writes: parameters, fields, errors, and the objects of answers.
//!
//! - [`error`]: every error code and text. [`revert`] decodes the reason of a revert.
//! - [`params`], [`fields`], [`block_id`]: what clients send.
//! - [`text`], [`object`]: what they receive.
//! - [`go_duration`], [`trace_time`]: the `timeout` of tracers.
//!
//! Nothing here runs a method.

pub mod block_id;
pub mod error;
pub mod fields;
pub mod go_duration;
pub mod object;
pub mod params;
mod pending_detail;
pub mod revert;
pub mod text;
pub mod trace_time;

pub use error::{Error, Suggested};
pub use pending_detail::PendingDetail;
