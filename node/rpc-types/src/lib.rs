//! Defines the parameters, fields, errors and result objects that the JSON-RPC methods share.
//!
//! - [`error`] defines every error code and text. [`revert`] decodes the reason of a revert.
//! - [`params`], [`fields`] and [`block_id`] parse what clients send.
//! - [`text`] and [`object`] write what clients receive.
//! - [`go_duration`] and [`trace_timeout`] implement the `timeout` of tracers.
//!
//! Nothing in this crate runs a method.

pub mod block_id;
pub mod error;
pub mod fields;
pub mod go_duration;
pub mod object;
pub mod params;
mod pending_detail;
pub mod revert;
pub mod text;
pub mod trace_timeout;

pub use error::{Error, SuggestedRange};
pub use pending_detail::PendingDetail;
