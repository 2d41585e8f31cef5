//! Defines the errors that clients receive. Codes and texts that tools compare are geth's. The details of an
//! internal failure are logged, and never sent to the client.

use crate::PendingDetail;
use jsonrpsee::types::ErrorObjectOwned;
use keys::SignerError;
use mempool::Reject;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use state::stored::StoredError;
use state::{MAX_UNDONE_RECORDS, TrieViewError};
use std::borrow::Cow;
use storage::ReadError;

/// JSON-RPC 2.0: the text is not JSON.
const PARSE: i32 = -32700;
/// JSON-RPC 2.0: the JSON is not a call.
const INVALID_REQUEST: i32 = -32600;
/// JSON-RPC 2.0: the method does not exist.
const METHOD_NOT_FOUND: i32 = -32601;
/// JSON-RPC 2.0: the parameters do not fit the method.
const INVALID_PARAMS: i32 = -32602;
/// JSON-RPC 2.0: the server failed.
const INTERNAL: i32 = -32603;
/// geth: errors without a code of their own.
const SERVER: i32 = -32000;
/// geth: the response is too large.
const RESPONSE_TOO_LARGE: i32 = -32003;
/// geth: the request names more slots or calls than the limit.
const CLIENT_LIMIT_EXCEEDED: i32 = -38026;
/// geth: the time limit of a batch has expired.
const TIMED_OUT: i32 = -32002;
/// EIP-1474: the resource is not found. It is used for a block that this node does not have yet.
const BLOCK_NOT_REACHED: i32 = -32001;
/// EIP-1474: the request exceeds a limit of the server.
const LIMIT_EXCEEDED: i32 = -32005;
/// jsonrpsee: the connection has the maximum number of subscriptions.
const TOO_MANY_SUBSCRIPTIONS: i32 = -32006;
/// geth: the call reverted. `data` contains the bytes that it returned.
const REVERTED: i32 = 3;

/// A failed call.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    code: i32,
    message: Cow<'static, str>,
    data: Option<Box<RawValue>>,
    /// Whether the client exceeded a rate limit.
    rate: bool,
    /// Set if the method must run again with a pending block. Clients never receive such an error.
    required_pending: Option<PendingDetail>,
}

/// The `data` of an error about a limit.
#[derive(Debug, Serialize)]
struct Limit {
    limit: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    suggested: Option<SuggestedRange>,
}

/// The `data` of an error about a rate limit.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Rate {
    limit: u32,
    retry_after_ms: u64,
}

/// The `data` of an error about a block that this node does not have yet.
#[derive(Debug, Serialize)]
struct NotReached {
    newest: alloy_primitives::U64,
}

/// A block range that the server would accept.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SuggestedRange {
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

    /// Prepends the position in the request to the message.
    pub fn at(mut self, position: &str) -> Self {
        self.message = format!("{position}: {}", self.message).into();
        self
    }

    /// Adds `data`.
    pub fn with_data(mut self, data: &impl Serialize) -> Self {
        self.data = Some(to_raw_value(data).expect("plain structures serialise"));
        self
    }

    /// Returns the code that the client receives.
    pub const fn code(&self) -> i32 {
        self.code
    }

    /// Returns whether the server failed, as opposed to the request.
    pub const fn is_internal(&self) -> bool {
        self.code == INTERNAL
    }

    /// Returns whether the client exceeded a rate limit.
    pub const fn is_rate(&self) -> bool {
        self.rate
    }

    /// Returns the parts of the pending block with which the method must run again.
    pub const fn required_pending(&self) -> Option<PendingDetail> {
        self.required_pending
    }

    /// Returns the error of a method that requires the pending block. The dispatcher runs it again with that block.
    pub fn pending_required(detail: PendingDetail) -> Self {
        let error = Self::fixed(INTERNAL, "the pending block was not built");
        Self { required_pending: Some(detail), ..error }
    }

    /// Returns the error of a method that does not support the pending block.
    pub const fn pending_refused() -> Self {
        Self::fixed(SERVER, "this method does not support the pending block: use \"latest\"")
    }

    /// Returns the message that the client receives.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns an error with a code that the method defines, as `eth_simulateV1` does in the execution-apis.
    pub const fn coded(code: i32, message: String) -> Self {
        Self::owned(code, message)
    }

    /// Returns the `data` that the client receives, if there is any.
    pub fn data(&self) -> Option<&RawValue> {
        self.data.as_deref()
    }

    /// Returns the error for a method that does not exist.
    pub fn unknown_method(name: &str) -> Self {
        Self::owned(METHOD_NOT_FOUND, format!("the method {name} does not exist/is not available"))
    }

    /// Returns the error for a subscription type that does not exist.
    pub fn unknown_subscription(name: &str) -> Self {
        Self::owned(METHOD_NOT_FOUND, format!("no {name:?} subscription in eth namespace"))
    }

    /// Returns the error for cancelling a subscription that does not exist.
    pub const fn no_subscription() -> Self {
        Self::fixed(SERVER, "subscription not found")
    }

    /// Returns the error for subscribing over HTTP or in a batch.
    pub const fn no_notifications() -> Self {
        Self::fixed(METHOD_NOT_FOUND, "notifications not supported")
    }

    /// Returns the error for `params` that is neither a list, nor `null`, nor absent.
    pub const fn params_not_a_list() -> Self {
        Self::fixed(INVALID_PARAMS, "non-array args")
    }

    /// Returns the error for a call with more parameters than the method accepts.
    pub fn too_many_arguments(max: usize) -> Self {
        Self::owned(INVALID_PARAMS, format!("too many arguments, want at most {max}"))
    }

    /// Returns the error for a missing required parameter.
    pub fn missing_argument(index: usize) -> Self {
        Self::owned(INVALID_PARAMS, format!("missing value for required argument {index}"))
    }

    /// Returns the error for a parameter that cannot be parsed.
    pub fn invalid_argument(index: usize, reason: &str) -> Self {
        Self::owned(INVALID_PARAMS, format!("invalid argument {index}: {reason}"))
    }

    /// Returns the error for parameters that can be parsed, but whose values are invalid.
    pub fn invalid_params(message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code: INVALID_PARAMS,
            message: message.into(),
            data: None,
            rate: false,
            required_pending: None,
        }
    }

    /// Returns an error for which geth has no specific code.
    pub fn server(message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code: SERVER,
            message: message.into(),
            data: None,
            rate: false,
            required_pending: None,
        }
    }

    /// Returns the error for a block that does not exist. It was requested by hash if `by_hash` is true.
    pub const fn header_not_found(by_hash: bool) -> Self {
        let message = if by_hash { "header for hash not found" } else { "header not found" };
        Self::fixed(SERVER, message)
    }

    /// Returns the error of a call that reverted and returned `data`.
    pub fn reverted(data: &alloy_primitives::Bytes) -> Self {
        let message = match crate::revert::revert_reason(data) {
            Some(reason) => format!("execution reverted: {reason}"),
            None => "execution reverted".to_owned(),
        };
        Self::owned(REVERTED, message).with_data(data)
    }

    /// Returns the error for a request that exceeds a limit of the server.
    pub fn limit(message: String, limit: u64, suggested: Option<SuggestedRange>) -> Self {
        Self::owned(LIMIT_EXCEEDED, message).with_data(&Limit { limit, suggested })
    }

    /// Like [`Self::limit`], but with another code.
    fn limit_coded(code: i32, message: String, limit: u64) -> Self {
        Self::owned(code, message).with_data(&Limit { limit, suggested: None })
    }

    /// Returns the error for a request that names more slots or calls than the limit.
    pub fn client_limit(message: String, limit: u64) -> Self {
        Self::limit_coded(CLIENT_LIMIT_EXCEEDED, message, limit)
    }

    /// Returns the error of a full queue of calls.
    pub fn busy(limit: usize) -> Self {
        let message =
            format!("too many requests: {limit} earlier calls wait for their turn, try again");
        Self::limit(message, limit as u64, None)
    }

    /// Returns the error for a request that requires a block that this node does not have yet. `message` names it.
    pub fn block_not_reached(message: String, newest: u64) -> Self {
        let newest = alloy_primitives::U64::from(newest);
        Self::owned(BLOCK_NOT_REACHED, message).with_data(&NotReached { newest })
    }

    /// Returns the error if the clients together use too much memory for another request or response.
    pub fn client_memory(limit: u64) -> Self {
        let message = format!(
            "clients use too much memory: at most {limit} bytes (server.max-client-bytes), try again"
        );
        Self::limit(message, limit, None)
    }

    /// Returns the error for a client that exceeded a rate limit.
    pub fn rate(scope: &str, limit: u32, retry_after_ms: u64) -> Self {
        let message = format!("rate limit exceeded: at most {limit} calls a second by one {scope}");
        let data = Rate { limit, retry_after_ms };
        Self { rate: true, ..Self::owned(LIMIT_EXCEEDED, message).with_data(&data) }
    }

    /// Returns the error for a request that is too large.
    pub fn request_too_large(limit: usize) -> Self {
        Self::limit(format!("request too large: at most {limit} bytes"), limit as u64, None)
    }

    /// Returns the error if the response, or the part of the response that `what` names, is too large.
    pub fn too_large(what: &str, limit: usize) -> Self {
        let message = format!("{what} too large: at most {limit} bytes");
        Self::limit_coded(RESPONSE_TOO_LARGE, message, limit as u64)
    }

    /// Returns the error for a batch with too many calls.
    pub fn batch_too_large(limit: usize) -> Self {
        let message = format!("batch too large: at most {limit} calls");
        Self::limit_coded(INVALID_REQUEST, message, limit as u64)
    }

    /// Returns the error if the work that `what` names was cancelled because it exceeded its time limit.
    pub fn timed_out(what: &str, limit: std::time::Duration) -> Self {
        let ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        Self::limit_coded(SERVER, format!("{what} aborted (timeout = {limit:?})"), ms)
    }

    /// Returns the error of a call that had no response when the time limit of its batch expired.
    pub fn batch_timed_out(limit: std::time::Duration) -> Self {
        let ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        Self::limit_coded(TIMED_OUT, "request timed out".to_owned(), ms)
    }

    /// Returns the error for a connection that has the maximum number of subscriptions.
    pub fn too_many_subscriptions(limit: u32) -> Self {
        let message = format!("too many subscriptions: at most {limit} per connection");
        Self::limit_coded(TOO_MANY_SUBSCRIPTIONS, message, limit.into())
    }

    /// Returns the error for a body that is not JSON.
    pub const fn parse() -> Self {
        Self::fixed(PARSE, "parse error")
    }

    /// Returns the error for JSON that is not a call.
    pub const fn invalid_request() -> Self {
        Self::fixed(INVALID_REQUEST, "invalid request")
    }

    /// Returns the error for an empty batch.
    pub const fn empty_batch() -> Self {
        Self::fixed(INVALID_REQUEST, "empty batch")
    }

    /// Returns the error of a failure inside the server. `detail` is logged and not sent.
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
            TrieViewError::TooOld(_) => {
                Self::limit(error.to_string(), MAX_UNDONE_RECORDS as u64, None)
            }
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
