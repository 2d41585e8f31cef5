//! Errors in CometBFT's form: a JSON-RPC code with its fixed message, and the cause in `data`.

use crate::query::QueryError;
use serde_json::{Value, json};

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Error {
    /// The body is not JSON.
    #[error("{0}")]
    Parse(String),
    /// The body is JSON but not a request.
    #[error("{0}")]
    Request(String),
    /// The batch has too many calls.
    #[error("a batch may have at most {max} calls, got {calls}: send several batches")]
    Batch { calls: usize, max: usize },
    /// The method does not exist.
    #[error("unknown method {0:?}: GET / returns the list of methods")]
    Method(String),
    /// Subscriptions need a WebSocket.
    #[error("subscriptions are served over a WebSocket at /websocket")]
    NoSocket,
    /// The connection has already subscribed to this query.
    #[error("already subscribed")]
    Subscribed,
    /// The subscription does not exist.
    #[error("subscription not found")]
    NotSubscribed,
    /// The connection has too many subscriptions.
    #[error("a connection may have at most {0} subscriptions: end one or open another connection")]
    Subscriptions(usize),
    /// A parameter has a wrong type or value.
    #[error("parameter {name}: {found} is not {wanted}")]
    Parameter { name: &'static str, found: String, wanted: &'static str },
    /// A required parameter is missing.
    #[error("parameter {0} is missing")]
    Missing(&'static str),
    /// The method does not have this parameter. If it were ignored, a misspelt parameter would have no effect.
    #[error("unknown parameter {name:?}: the method has {known:?}")]
    Unknown { name: String, known: &'static [&'static str] },
    /// The list has more values than the method has parameters.
    #[error("the method has the parameters {known:?}, got {given} values")]
    TooMany { given: usize, known: &'static [&'static str] },
    /// The height is below its minimum.
    #[error("height must be greater than 0, but got {0}")]
    HeightTooLow(i64),
    /// The block does not exist yet.
    #[error("height {height} must be less than or equal to the current blockchain height {newest}")]
    HeightTooHigh { height: i64, newest: u64 },
    /// The range is empty.
    #[error("min height {min} can't be greater than max height {max}")]
    HeightRange { min: u64, max: u64 },
    /// The page does not exist.
    #[error("page should be within [1, {pages}] range, given {given}")]
    Page { pages: i64, given: i64 },
    /// No block has this hash.
    #[error("block {0} not found")]
    NoBlock(String),
    /// The genesis file is too large for a response.
    #[error(
        "the genesis file has {bytes} bytes, a response at most {max}: copy the file from the node"
    )]
    GenesisTooLarge { bytes: usize, max: usize },
    /// The transaction was accepted but not mined within the maximum wait.
    #[error(
        "timed out waiting for tx {hash} to be included in a block: {seconds} s, query it with tx"
    )]
    NotMined { hash: String, seconds: u64 },
    /// The maximum number of calls are already waiting for a block.
    #[error("{0} calls are waiting for a block: use broadcast_tx_sync and tx")]
    Busy(usize),
    /// The call took too long.
    #[error("timed out after {0} s: request less data")]
    TooLong(u64),
    /// An error of a query or of the pool.
    #[error("{0}")]
    Query(#[from] QueryError),
    /// The pool does not respond or refused the transaction without checks, or the node is shutting down.
    #[error("{0}")]
    Pool(String),
    /// An internal error. The cause is in the log.
    #[error("internal error")]
    Internal,
}

impl Error {
    /// Returns the JSON-RPC code, and CometBFT's message for it.
    const fn kind(&self) -> (i32, &'static str) {
        match self {
            Self::Parse(_) => (-32700, "Parse error. Invalid JSON"),
            Self::Request(_) | Self::Batch { .. } => (-32600, "Invalid Request"),
            Self::Method(_) => (-32601, "Method not found"),
            Self::Parameter { .. }
            | Self::Missing(_)
            | Self::Unknown { .. }
            | Self::TooMany { .. } => (-32602, "Invalid params"),
            _ => (-32603, "Internal error"),
        }
    }

    /// Returns the member `error` of a response.
    pub(super) fn to_json(&self) -> Value {
        let (code, message) = self.kind();
        json!({ "code": code, "message": message, "data": self.to_string() })
    }
}
