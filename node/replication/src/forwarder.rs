//! Forwards transactions of a replica's clients, and calls about the mempool and the pending block, to its source. If
//! the source is a replica, too, it forwards them again.

use crate::PROTOCOL_VERSION;
use crate::protocol::{
    CallError, CallRequest, CallResponse, Refusal, SubmitRequest, SubmitResponse, call_response,
    source_client::SourceClient, submit_response,
};
use alloy_primitives::{Address, B256, Bytes, U64, keccak256};
use modules::decorator::{Reject, RemoteReject};
use pipeline::{PoolCounts, PooledNonce, Submitted, TransactionForwarder};
use rpc_eth::CallForwarder;
use rpc_types::{error::Error, text::Json};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};
use std::{
    future::Future,
    pin::Pin,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::{sync::Semaphore, time::timeout};
use tonic::transport::Channel;
use transactions::{code, is_blob_tx, without_blobs};

/// Maximum number of replicas that forward a request. If replicas follow each other in a circle, a request would
/// otherwise be forwarded until its time limit.
pub(crate) const MAX_FORWARDS: u32 = 8;
/// Maximum number of transactions and calls that wait for the source.
const MAX_FORWARDED: usize = 4_096;
/// Maximum number of concurrent calls of the source; others wait. Each may have a large result.
const MAX_CALLS: usize = 16;
/// Maximum time for the response of the source.
const MAX_ANSWER_TIME: Duration = Duration::from_secs(10);
/// Maximum size of the result of a call in bytes: the default of `json-rpc.max-response-bytes`.
const MAX_RESULT_BYTES: usize = 64 * 1024 * 1024;
/// Methods with small results, which this node parses: a transaction, a nonce, two numbers.
const SMALL_RESULTS: [&str; 4] = [
    "eth_getTransactionByHash",
    "eth_getRawTransactionByHash",
    "eth_getTransactionCount",
    "txpool_status",
];
/// Maximum size of their results in bytes: a transaction of 128 KiB in hexadecimal, with its fields.
const MAX_SMALL_RESULT_BYTES: usize = 512 * 1024;
/// The error while no source is followed.
const NO_SOURCE: &str = "no source of this replica is connected, so the request was not forwarded: try again later, or \
                         send it to the producer; `evmd status` shows the sources that were refused";
/// Maximum size of the response to a transaction in bytes: a hash or a reason.
const MAX_REFUSAL_BYTES: usize = 64 * 1024;
/// Label of the rejection of bytes that are not a transaction. JSON-RPC replaces its text by a more precise one.
const MALFORMED: &str = "malformed";

tokio::task_local! {
    /// The number of replicas that have forwarded the request of this task. It is local to the task, because the
    /// mempool and the dispatcher of calls, which are between the service and the forwarder, do not need it.
    static FORWARDS: u32;
}

/// Runs the handler of a request that this number of replicas have forwarded.
pub(crate) async fn with_forwards<T>(forwards: u32, handler: impl Future<Output = T>) -> T {
    FORWARDS.scope(forwards, handler).await
}

/// Returns the number of replicas that have forwarded the current request, including this one.
fn next_forwards() -> Result<u32, String> {
    let forwards = FORWARDS.try_with(|forwards| *forwards).unwrap_or_default();
    if forwards < MAX_FORWARDS {
        return Ok(forwards + 1);
    }
    Err(format!(
        "{forwards} replicas have forwarded the request, which is the maximum, and it has not reached the producer: they follow \
         each other; check replication.follow of each"
    ))
}

/// Forwards transactions and calls to the source that is followed now.
#[derive(Debug)]
pub struct Forwarder {
    genesis_hash: B256,
    source: Mutex<Option<Channel>>,
    permits: Semaphore,
    calls: Semaphore,
    /// Whether queries of the pool are forwarded, too.
    queries: bool,
}

impl Forwarder {
    /// Creates a forwarder. The follower sets its source. `queries` is `replication.forward-pool-queries`.
    pub fn new(genesis_hash: B256, queries: bool) -> Self {
        let (permits, calls) = (Semaphore::new(MAX_FORWARDED), Semaphore::new(MAX_CALLS));
        Self { genesis_hash, source: Mutex::default(), permits, calls, queries }
    }

    /// Forwards a query of the pool; `None` if queries are not forwarded.
    async fn query<T: DeserializeOwned>(
        &self,
        method: &str,
        params: Value,
    ) -> Result<Option<T>, Reject> {
        if !self.queries {
            return Ok(None);
        }
        let failed = |text: &str| Reject::NotForwarded(text.to_owned());
        let params = Bytes::from(params.to_string().into_bytes());
        let answer = self.forward_call(method, params).await;
        let answer = answer.map_err(|error| failed(error.message()))?;
        let value = serde_json::from_slice(answer.bytes());
        value.map(Some).map_err(|_| failed("the source sent a malformed response"))
    }

    pub(crate) fn set_source(&self, source: Option<Channel>) {
        *self.source.lock().unwrap_or_else(PoisonError::into_inner) = source;
    }

    async fn forward(&self, raw: Bytes) -> Submitted {
        let Ok(_permit) = self.permits.try_acquire() else {
            return Err(Reject::Busy("too many transactions wait for the source, try again").into());
        };
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(source) = source else {
            return Err(not_forwarded(NO_SOURCE));
        };
        let forwards = next_forwards().map_err(|text| not_forwarded(&text))?;
        let request = SubmitRequest {
            forwards,
            version: PROTOCOL_VERSION,
            genesis_hash: self.genesis_hash.to_vec().into(),
            transaction: raw.0.clone(),
        };
        let mut client = SourceClient::new(source).max_decoding_message_size(MAX_REFUSAL_BYTES);
        match timeout(MAX_ANSWER_TIME, client.submit(request)).await {
            Ok(Ok(response)) => submission_result(&raw, response.into_inner()),
            Ok(Err(status)) => Err(not_forwarded(&format!(
                "the connection to the source failed before it answered ({}): the transaction may have been accepted; query its \
                 hash before you send it again",
                status.message()
            ))),
            Err(_) => Err(not_forwarded(&format!(
                "the source did not answer within {} s: the transaction may have been accepted; query its hash before you send \
                 it again",
                MAX_ANSWER_TIME.as_secs()
            ))),
        }
    }

    /// Forwards a JSON-RPC call to the source.
    async fn forward_call(&self, method: &str, params: Bytes) -> Result<Json, Error> {
        let Ok(_permit) = self.permits.try_acquire() else {
            return Err(Error::busy(MAX_FORWARDED));
        };
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(source) = source else { return Err(Error::server(NO_SOURCE)) };
        let request = CallRequest {
            forwards: next_forwards().map_err(Error::server)?,
            version: PROTOCOL_VERSION,
            genesis_hash: self.genesis_hash.to_vec().into(),
            method: method.to_owned(),
            params: params.0,
        };
        let is_small = SMALL_RESULTS.contains(&method);
        let limit = if is_small { MAX_SMALL_RESULT_BYTES } else { MAX_RESULT_BYTES };
        let mut client = SourceClient::new(source).max_decoding_message_size(limit);
        let call = async {
            // The semaphore is never closed.
            let _call = self.calls.acquire().await;
            client.call(request).await
        };
        match timeout(MAX_ANSWER_TIME, call).await {
            Ok(Ok(response)) => call_result(response.into_inner()),
            Ok(Err(status)) => {
                Err(Error::server(format!("the source did not answer: {}", status.message())))
            }
            Err(_) => Err(Error::timed_out("the answer of the source", MAX_ANSWER_TIME)),
        }
    }
}

impl CallForwarder for Forwarder {
    fn call(
        &self,
        method: &'static str,
        params: Bytes,
    ) -> Pin<Box<dyn Future<Output = Result<Json, Error>> + Send + '_>> {
        Box::pin(self.forward_call(method, params))
    }
}

impl TransactionForwarder for Forwarder {
    fn submit(&self, raw: Bytes) -> Pin<Box<dyn Future<Output = Submitted> + Send + '_>> {
        Box::pin(self.forward(raw))
    }

    fn nonce(&self, sender: Address) -> Pin<Box<dyn Future<Output = PooledNonce> + Send + '_>> {
        Box::pin(async move {
            let params = json!([sender, "pending"]);
            let nonce: Option<U64> = self.query("eth_getTransactionCount", params).await?;
            Ok(nonce.map(|nonce| nonce.to()))
        })
    }

    fn counts(&self) -> Pin<Box<dyn Future<Output = PoolCounts> + Send + '_>> {
        Box::pin(async move {
            let counts: Option<Counts> = self.query("txpool_status", json!([])).await?;
            Ok(counts.map(|counts| (counts.pending.to(), counts.queued.to())))
        })
    }
}

/// The result of `txpool_status`.
#[derive(Deserialize)]
struct Counts {
    pending: U64,
    queued: U64,
}

fn not_forwarded(text: &str) -> Box<Reject> {
    Box::new(Reject::NotForwarded(text.to_owned()))
}

/// Decodes the response to a transaction. The hash is computed here, because the source is not trusted.
fn submission_result(raw: &Bytes, response: SubmitResponse) -> Submitted {
    match response.result {
        Some(submit_response::Result::Hash(hash)) => {
            let expected = hash_of(raw);
            match hash == expected.as_slice() {
                true => Ok(expected),
                false => {
                    Err(not_forwarded("the source answered with the hash of another transaction"))
                }
            }
        }
        Some(submit_response::Result::Refusal(refusal)) => Err(reject(refusal).into()),
        None => Err(not_forwarded("the source answered without a result")),
    }
}

/// Returns the hash of a raw transaction, which does not cover its blobs.
fn hash_of(raw: &Bytes) -> B256 {
    let without = is_blob_tx(raw).then(|| without_blobs(raw)).and_then(Result::ok);
    keccak256(without.as_ref().unwrap_or(raw))
}

fn reject(refusal: Refusal) -> Reject {
    let Refusal { reason, json_rpc_code, text, codespace, code, log } = refusal;
    if reason == MALFORMED {
        return Reject::Malformed(text);
    }
    let code = code::find(&codespace, code);
    Reject::Remote(Box::new(RemoteReject { json_rpc_code, text, code, log }))
}

/// Decodes the response to a call.
fn call_result(response: CallResponse) -> Result<Json, Error> {
    let not_json = || Error::server("the source answered with text that is not JSON");
    let is_json = |bytes: &[u8]| serde_json::from_slice::<&RawValue>(bytes).is_ok();
    match response.answer {
        Some(call_response::Answer::Result(json)) if is_json(&json) => Ok(Json::from_text(json)),
        Some(call_response::Answer::Result(_)) => Err(not_json()),
        Some(call_response::Answer::Error(CallError { code, message, data })) => {
            let error = Error::coded(code, message);
            match data.is_empty() {
                true => Err(error),
                false => {
                    let data: &RawValue = serde_json::from_slice(&data).map_err(|_| not_json())?;
                    Err(error.with_data(&data))
                }
            }
        }
        None => Err(Error::server("the source answered without a result")),
    }
}

/// Encodes the result of a call.
pub(crate) fn call_response(result: Result<Json, Error>) -> CallResponse {
    let answer = match result {
        Ok(json) => call_response::Answer::Result(json.bytes().0.clone()),
        Err(error) => call_response::Answer::Error(CallError {
            code: error.code(),
            message: error.message().to_owned(),
            data: error.data().map_or_else(Default::default, |data| data.get().to_owned().into()),
        }),
    };
    CallResponse { answer: Some(answer) }
}

/// Encodes the result of a submission to the mempool.
pub(crate) fn response(submitted: Submitted) -> SubmitResponse {
    let result = match submitted {
        Ok(hash) => submit_response::Result::Hash(hash.to_vec().into()),
        Err(reject) => {
            let code = reject.code();
            submit_response::Result::Refusal(Refusal {
                reason: reject.label().to_owned(),
                json_rpc_code: reject.json_rpc_code(),
                text: reject.to_string(),
                codespace: code.space.to_owned(),
                code: code.number,
                log: reject.log(),
            })
        }
    };
    SubmitResponse { result: Some(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_the_same_on_both_sides() {
        let raw = Bytes::from_static(&[2, 1]);
        for reject in [
            Reject::NonceTooLow { next: 7, nonce: 5 },
            Reject::Busy("full"),
            Reject::Malformed("short".to_owned()),
            Reject::InvalidSender,
            Reject::NoProduction,
        ] {
            let other = submission_result(&raw, response(Err(reject.clone().into()))).unwrap_err();
            assert_eq!(other.to_string(), reject.to_string());
            assert_eq!(other.json_rpc_code(), reject.json_rpc_code());
            assert_eq!((other.code(), other.log()), (reject.code(), reject.log()));
            // The result after a second replica.
            let third = submission_result(&raw, response(Err(other.clone()))).unwrap_err();
            assert_eq!((third.to_string(), third.log()), (other.to_string(), other.log()));
        }
        let hash = keccak256(&raw);
        assert_eq!(submission_result(&raw, response(Ok(hash))), Ok(hash));
        assert!(submission_result(&raw, response(Ok(B256::repeat_byte(7)))).is_err());
        assert!(submission_result(&raw, SubmitResponse { result: None }).is_err());
    }
}
