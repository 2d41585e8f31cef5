//! Failures as CometBFT tells them: a code of JSON-RPC, its fixed message, and in `data` what went wrong.

use crate::query::QueryError;
use serde_json::{Value, json};

/// A method without a result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Error {
    /// The body is no JSON.
    #[error("{0}")]
    Parse(String),
    /// JSON, and no request.
    #[error("{0}")]
    Request(String),
    /// More calls than one batch may have.
    #[error("{calls} calls in one batch: at most {most} are answered, send several batches")]
    Batch { calls: usize, most: usize },
    /// No such method.
    #[error("no method {0:?}: GET / lists those there are")]
    Method(String),
    /// What happens is told over a WebSocket only.
    #[error("subscriptions are served over a WebSocket at /websocket")]
    NoSocket,
    /// The same query again on one connection.
    #[error("already subscribed")]
    Subscribed,
    /// Nothing to end.
    #[error("subscription not found")]
    NotSubscribed,
    /// More queries than one connection may have.
    #[error("{0} subscriptions on this connection already: end one, or open another connection")]
    Subscriptions(usize),
    /// A parameter is not what it has to be.
    #[error("parameter {name}: {found} is not {wanted}")]
    Parameter { name: &'static str, found: String, wanted: &'static str },
    /// A parameter that has to be given is not.
    #[error("parameter {0} is missing")]
    Missing(&'static str),
    /// A misspelt parameter must not be silently without effect.
    #[error("the method has no parameter {name:?}: it takes {known:?}")]
    Unknown { name: String, known: &'static [&'static str] },
    /// More values in a list than the method has parameters.
    #[error("{given} parameters: the method takes {known:?}")]
    TooMany { given: usize, known: &'static [&'static str] },
    /// Heights begin with 1.
    #[error("height must be greater than 0, but got {0}")]
    HeightTooLow(i64),
    /// There is no such block yet.
    #[error("height {height} must be less than or equal to the current blockchain height {newest}")]
    HeightTooHigh { height: i64, newest: u64 },
    /// A range without heights.
    #[error("min height {min} can't be greater than max height {max}")]
    HeightRange { min: u64, max: u64 },
    /// There is no such page.
    #[error("page should be within [1, {pages}] range, given {given}")]
    Page { pages: i64, given: i64 },
    /// No block has this hash.
    #[error("block {0} not found")]
    NoBlock(String),
    /// Genesis is larger than an answer may be.
    #[error(
        "genesis has {bytes} bytes, more than the {most} of an answer: copy the node's genesis file"
    )]
    GenesisTooLarge { bytes: usize, most: usize },
    /// Accepted, and in no block within the wait.
    #[error(
        "timed out waiting for tx {hash} to be included in a block: {seconds} s, ask for it by tx"
    )]
    NotMined { hash: String, seconds: u64 },
    /// As many wait for a block as may.
    #[error("{0} wait for their transaction's block already: use broadcast_tx_sync and tx")]
    Busy(usize),
    /// The work was given up.
    #[error("no answer within {0} s: ask for less")]
    TooLong(u64),
    /// What a query or the pool says.
    #[error("{0}")]
    Query(#[from] QueryError),
    /// The pool does not answer, or has no place for a transaction.
    #[error("{0}")]
    Pool(String),
    /// A failure of ours; its cause is in the log.
    #[error("internal error")]
    Internal,
}

impl Error {
    /// JSON-RPC's code and its message, in CometBFT's words.
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

    /// The member `error` of an answer.
    pub(super) fn told(&self) -> Value {
        let (code, message) = self.kind();
        json!({ "code": code, "message": message, "data": self.to_string() })
    }
}
