//! What goes over the wire when a call fails. Every code and text is made here, geth's wherever
//! tools match on them; the inside of a failure goes to the log, never to the caller.

use crate::PendingDetail;
use jsonrpsee::types::ErrorObjectOwned;
use keys::SignerError;
use mempool::Reject;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use state::stored::StoredError;
use state::{TrieViewError, UNDONE_MAX};
use std::borrow::Cow;
use storage::ReadError;

/// JSON-RPC 2.0: not JSON.
const PARSE: i32 = -32700;
/// JSON-RPC 2.0: JSON, and no call.
const INVALID_REQUEST: i32 = -32600;
/// JSON-RPC 2.0: no such method.
const METHOD_NOT_FOUND: i32 = -32601;
/// JSON-RPC 2.0: parameters do not fit the method.
const INVALID_PARAMS: i32 = -32602;
/// JSON-RPC 2.0: our own failure.
const INTERNAL: i32 = -32603;
/// geth's code for everything without one of its own.
const SERVER: i32 = -32000;
/// geth: the answer has too many bytes.
const RESPONSE_TOO_LARGE: i32 = -32003;
/// geth: more slots or calls in one request than are taken.
const CLIENT_LIMIT_EXCEEDED: i32 = -38026;
/// geth: the time of a request, or of a batch, is over.
const TIMED_OUT: i32 = -32002;
/// EIP-1474: a limit of this server.
const LIMIT_EXCEEDED: i32 = -32005;
/// jsonrpsee: a connection has as many subscriptions as it may have.
const TOO_MANY_SUBSCRIPTIONS: i32 = -32006;
/// geth: the call reverted, and says with what.
const REVERTED: i32 = 3;

/// A failed call.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    code: i32,
    message: Cow<'static, str>,
    data: Option<Box<RawValue>>,
    rate: bool,
    /// The method must run again with a pending block. The dispatcher handles this; no client receives it.
    required_pending: Option<PendingDetail>,
}

/// The `data` of an error about a limit.
#[derive(Debug, Serialize)]
struct Limit {
    limit: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    suggested: Option<Suggested>,
}

/// The `data` of an error about a rate.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Rate {
    limit: u32,
    retry_after_ms: u64,
}

/// A range that would have been answered.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Suggested {
    /// First block.
    pub from_block: alloy_primitives::U64,
    /// Last block.
    pub to_block: alloy_primitives::U64,
}

impl Error {
    const fn fixed(code: i32, message: &'static str) -> Self {
        Self {
            code,
            message: Cow::Borrowed(message),
            data: None,
            rate: false,
            required_pending: None,
        }
    }

    const fn owned(code: i32, message: String) -> Self {
        Self { code, message: Cow::Owned(message), data: None, rate: false, required_pending: None }
    }

    /// Says where in the request the failure is.
    pub fn at(mut self, place: &str) -> Self {
        self.message = format!("{place}: {}", self.message).into();
        self
    }

    /// Adds data.
    pub fn with_data(mut self, data: &impl Serialize) -> Self {
        self.data = Some(to_raw_value(data).expect("plain structures serialise"));
        self
    }

    /// The code on the wire.
    pub const fn code(&self) -> i32 {
        self.code
    }

    /// A failure of ours.
    pub const fn is_internal(&self) -> bool {
        self.code == INTERNAL
    }

    /// The client called too often.
    pub const fn is_rate(&self) -> bool {
        self.rate
    }

    /// The pending block with which the method must run again.
    pub const fn required_pending(&self) -> Option<PendingDetail> {
        self.required_pending
    }

    /// The method requires the pending block: the dispatcher runs it again with that block.
    pub fn pending_required(detail: PendingDetail) -> Self {
        let error = Self::fixed(INTERNAL, "the pending block was not built");
        Self { required_pending: Some(detail), ..error }
    }

    /// The method does not support the pending block.
    pub const fn pending_refused() -> Self {
        Self::fixed(SERVER, "this method does not support the pending block: use \"latest\"")
    }

    /// The message on the wire.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// A failure with a code of its own (execution-apis gives `eth_simulateV1` a list of them).
    pub const fn coded(code: i32, message: String) -> Self {
        Self::owned(code, message)
    }

    /// The data on the wire, if there is any.
    pub fn data(&self) -> Option<&RawValue> {
        self.data.as_deref()
    }

    /// No method of this name is served.
    pub fn unknown_method(name: &str) -> Self {
        Self::owned(METHOD_NOT_FOUND, format!("the method {name} does not exist/is not available"))
    }

    /// Nothing of this name can be subscribed to.
    pub fn unknown_subscription(name: &str) -> Self {
        Self::owned(METHOD_NOT_FOUND, format!("no {name:?} subscription in eth namespace"))
    }

    /// There is no such subscription to end.
    pub const fn no_subscription() -> Self {
        Self::fixed(SERVER, "subscription not found")
    }

    /// A subscription where nothing can be pushed, or in a batch.
    pub const fn no_notifications() -> Self {
        Self::fixed(METHOD_NOT_FOUND, "notifications not supported")
    }

    /// `params` is neither a list nor absent.
    pub const fn params_not_a_list() -> Self {
        Self::fixed(INVALID_PARAMS, "non-array args")
    }

    /// More parameters than the method has.
    pub fn too_many_arguments(most: usize) -> Self {
        Self::owned(INVALID_PARAMS, format!("too many arguments, want at most {most}"))
    }

    /// A parameter that must be there is not.
    pub fn missing_argument(index: usize) -> Self {
        Self::owned(INVALID_PARAMS, format!("missing value for required argument {index}"))
    }

    /// A parameter cannot be read.
    pub fn invalid_argument(index: usize, reason: &str) -> Self {
        Self::owned(INVALID_PARAMS, format!("invalid argument {index}: {reason}"))
    }

    /// Parameters that can be read and mean nothing.
    pub fn invalid_params(message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code: INVALID_PARAMS,
            message: message.into(),
            data: None,
            rate: false,
            required_pending: None,
        }
    }

    /// A failure with geth's general code.
    pub fn server(message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code: SERVER,
            message: message.into(),
            data: None,
            rate: false,
            required_pending: None,
        }
    }

    /// A block asked for by number, or by hash, is not there.
    pub const fn header_not_found(by_hash: bool) -> Self {
        let message = if by_hash { "header for hash not found" } else { "header not found" };
        Self::fixed(SERVER, message)
    }

    /// A call reverted: `data` is what it returned.
    pub fn reverted(data: &alloy_primitives::Bytes) -> Self {
        let message = match crate::revert::revert_reason(data) {
            Some(reason) => format!("execution reverted: {reason}"),
            None => "execution reverted".to_owned(),
        };
        Self::owned(REVERTED, message).with_data(data)
    }

    /// More was asked than this server gives at once.
    pub fn limit(message: String, limit: u64, suggested: Option<Suggested>) -> Self {
        Self::owned(LIMIT_EXCEEDED, message).with_data(&Limit { limit, suggested })
    }

    /// As [`Self::limit`], under another code.
    fn limit_coded(code: i32, message: String, limit: u64) -> Self {
        Self::owned(code, message).with_data(&Limit { limit, suggested: None })
    }

    /// More slots or calls in one request than are taken.
    pub fn client_limit(message: String, limit: u64) -> Self {
        Self::limit_coded(CLIENT_LIMIT_EXCEEDED, message, limit)
    }

    /// As many heavy calls wait as may.
    pub fn busy(limit: usize) -> Self {
        let message =
            format!("too many requests: {limit} earlier calls wait for their turn, try again");
        Self::limit(message, limit as u64, None)
    }

    /// Clients use too much memory for another request or response.
    pub fn client_memory(limit: u64) -> Self {
        let message = format!(
            "clients use too much memory: at most {limit} bytes (server.max-client-bytes), try again"
        );
        Self::limit(message, limit, None)
    }

    /// A client calls more often than it may.
    pub fn rate(whose: &str, limit: u32, retry_after_ms: u64) -> Self {
        let message = format!("rate limit exceeded: at most {limit} calls a second by one {whose}");
        let data = Rate { limit, retry_after_ms };
        Self { rate: true, ..Self::owned(LIMIT_EXCEEDED, message).with_data(&data) }
    }

    /// A request has too many bytes.
    pub fn request_too_large(limit: usize) -> Self {
        Self::limit(format!("request too large: at most {limit} bytes"), limit as u64, None)
    }

    /// An answer, or a part of one that `what` names, has too many bytes.
    pub fn too_large(what: &str, limit: usize) -> Self {
        let message = format!("{what} too large: at most {limit} bytes");
        Self::limit_coded(RESPONSE_TOO_LARGE, message, limit as u64)
    }

    /// A batch has too many calls.
    pub fn batch_too_large(limit: usize) -> Self {
        let message = format!("batch too large: at most {limit} calls");
        Self::limit_coded(INVALID_REQUEST, message, limit as u64)
    }

    /// Work was given up when its time was over.
    pub fn timed_out(what: &str, limit: std::time::Duration) -> Self {
        let ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        Self::limit_coded(SERVER, format!("{what} aborted (timeout = {limit:?})"), ms)
    }

    /// The time of a batch was over before this call of it was answered.
    pub fn batch_timed_out(limit: std::time::Duration) -> Self {
        let ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        Self::limit_coded(TIMED_OUT, "request timed out".to_owned(), ms)
    }

    /// A connection has as many subscriptions as it may have.
    pub fn too_many_subscriptions(limit: u32) -> Self {
        let message = format!("too many subscriptions: at most {limit} per connection");
        Self::limit_coded(TOO_MANY_SUBSCRIPTIONS, message, limit.into())
    }

    /// The body is no JSON.
    pub const fn parse() -> Self {
        Self::fixed(PARSE, "parse error")
    }

    /// JSON, and no call.
    pub const fn invalid_request() -> Self {
        Self::fixed(INVALID_REQUEST, "invalid request")
    }

    /// A batch without calls.
    pub const fn empty_batch() -> Self {
        Self::fixed(INVALID_REQUEST, "empty batch")
    }

    /// A failure of ours; `detail` is logged.
    pub fn internal(detail: impl std::fmt::Display) -> Self {
        tracing::error!(%detail, "a call failed inside the node");
        Self::fixed(INTERNAL, "internal error")
    }
}

impl From<StoredError> for Error {
    fn from(error: StoredError) -> Self {
        match error {
            StoredError::Read(error) => error.into(),
            StoredError::Damaged(reason) => Self::internal(reason),
        }
    }
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        Self::internal(error)
    }
}

impl From<TrieViewError> for Error {
    fn from(error: TrieViewError) -> Self {
        match error {
            TrieViewError::TooOld(_) => Self::limit(error.to_string(), UNDONE_MAX as u64, None),
            TrieViewError::Outdated(_) => Self::server(error.to_string()),
            error => Self::internal(error),
        }
    }
}

impl From<SignerError> for Error {
    fn from(error: SignerError) -> Self {
        Self::server(error.to_string())
    }
}

impl From<Reject> for Error {
    fn from(reject: Reject) -> Self {
        Self::owned(reject.json_rpc_code(), reject.to_string())
    }
}

impl From<Box<Reject>> for Error {
    fn from(reject: Box<Reject>) -> Self {
        (*reject).into()
    }
}

impl From<Error> for ErrorObjectOwned {
    fn from(error: Error) -> Self {
        Self::owned(error.code, error.message, error.data)
    }
}
