//! Opens and closes the subscriptions of a connection, which jsonrpsee manages.

use crate::{
    client::Client,
    subscription::{Ids, NewSubscription, SUBSCRIBE, Start, SubscriptionKind, UNSUBSCRIBE},
};
use alloy_primitives::Bytes;
use hyper::body::Bytes as Piece;
use jsonrpsee::{
    MethodResponse,
    core::server::{
        BoundedSubscriptions, ConnectionId, Extensions, MethodCallback, MethodSink, Methods,
        SubscriptionState,
    },
    types::{Id, Params},
};
use rpc_eth::method::Answer;
use rpc_types::{error::Error, text::Json};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{borrow::Cow, sync::Arc};
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
};

/// The subscriptions of a connection.
#[derive(Debug)]
pub(crate) struct Subscriber {
    methods: Methods,
    ids: Arc<Ids>,
    /// Receives the responses and notifications that jsonrpsee sends.
    sink: MethodSink,
    permits: BoundedSubscriptions,
    client: Arc<Client>,
    /// The runtime that serves the socket. Subscriptions run on it.
    runtime: Handle,
}

impl Subscriber {
    /// Creates the state of a connection without subscriptions. Must be called on the runtime that serves its socket.
    pub(crate) fn new(
        methods: Methods,
        ids: Arc<Ids>,
        sink: mpsc::Sender<Box<RawValue>>,
        max_subscriptions: u32,
        client: Arc<Client>,
    ) -> Self {
        let permits = BoundedSubscriptions::new(max_subscriptions);
        let (sink, runtime) = (MethodSink::new(sink), Handle::current());
        Self { methods, ids, sink, permits, client, runtime }
    }

    fn connection(&self) -> ConnectionId {
        ConnectionId(usize::try_from(self.client.id).expect("usize has 64 bits"))
    }

    /// Opens a subscription. jsonrpsee sends the response itself, before the first notification. Its id type cannot
    /// represent negative numbers and fractions, so it receives the JSON text of the client's id as a string, which
    /// [`with_client_id`] replaces with the id.
    ///
    /// # Errors
    /// Returns an error if the connection has the maximum number of subscriptions, or clients use too much memory.
    pub(crate) async fn subscribe(&self, id: &str, kind: SubscriptionKind) -> Result<(), Error> {
        // The response counts as pending like the notifications, because the id may be large.
        let bytes = response_bytes(id);
        self.client.flow.add_pending(bytes);
        let opened = self.open(id, kind, None).await;
        opened.map(drop).inspect_err(|_| self.client.flow.written(bytes))
    }

    /// Opens a subscription whose id is part of the response to a batch. The caller starts it when that response has
    /// been written; until then, the subscription sends no notifications.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::subscribe`].
    pub(crate) async fn subscribe_in_batch(
        &self,
        kind: SubscriptionKind,
    ) -> Result<(Json, Start), Error> {
        let (start, started) = Start::new();
        let response = self.open(BATCH_ID, kind, Some(started)).await?;
        let result = result(&response).ok_or_else(|| no_subscription(&response))?;
        Ok((Json::from_text(result.get()), start))
    }

    async fn open(
        &self,
        id: &str,
        kind: SubscriptionKind,
        start: Option<oneshot::Receiver<()>>,
    ) -> Result<MethodResponse, Error> {
        let Some(MethodCallback::Subscription(open)) = self.methods.method(SUBSCRIBE) else {
            return Err(Error::unknown_method(SUBSCRIBE));
        };
        let max = self.permits.max();
        let permit = self.permits.acquire().ok_or_else(|| Error::too_many_subscriptions(max))?;
        let subscription = NewSubscription::new(kind, start, &self.client.account)?;
        let state = SubscriptionState {
            conn_id: self.connection(),
            id_provider: &*self.ids,
            subscription_permit: permit,
        };
        let mut extensions = Extensions::new();
        extensions.insert(Arc::clone(&self.client));
        extensions.insert(subscription);
        let opening = {
            let _runtime = self.runtime.enter();
            open(Id::Str(id.into()), Params::new(None), self.sink.clone(), state, extensions)
        };
        let response = opening.await;
        if response.is_subscription() { Ok(response) } else { Err(no_subscription(&response)) }
    }

    pub(crate) fn unsubscribe(&self, params: &Bytes) -> Answer {
        let Some(MethodCallback::Unsubscription(close)) = self.methods.method(UNSUBSCRIBE) else {
            return Err(Error::unknown_method(UNSUBSCRIBE));
        };
        let (connection, extensions) = (self.connection(), Extensions::new());
        let response = close(Id::Null, read_params(params), connection, usize::MAX, extensions);
        if is_true(&response) { Ok(Json::fixed("true")) } else { Err(Error::no_subscription()) }
    }
}

/// Converts parameters to the type of jsonrpsee.
fn read_params(params: &Bytes) -> Params<'_> {
    let text = str::from_utf8(params).expect("parameters were parsed as JSON");
    Params::new(Some(text).filter(|text| !text.is_empty()))
}

fn no_subscription(response: &MethodResponse) -> Error {
    Error::internal(format_args!("no subscription: {}", response.as_json()))
}

/// Returns the result in a response from jsonrpsee.
fn result(response: &MethodResponse) -> Option<&RawValue> {
    #[derive(Deserialize)]
    struct Answered<'a> {
        #[serde(borrow)]
        result: Option<&'a RawValue>,
    }
    serde_json::from_str::<Answered<'_>>(response.as_json().get()).ok()?.result
}

/// Returns whether the result is `true`. jsonrpsee returns `false` if the subscription does not exist.
fn is_true(response: &MethodResponse) -> bool {
    result(response).is_some_and(|result| result.get() == "true")
}

/// Returns the length of jsonrpsee's response to a call with this id.
fn response_bytes(id: &str) -> usize {
    const REST: &str = r#","result":"0x00000000000000000000000000000000"}"#;
    let quoted = serde_json::to_string(id).expect("a text is written as JSON");
    RESPONSE_START.len() - 1 + quoted.len() + REST.len()
}

/// The id that jsonrpsee receives for a call in a batch. It differs from all client ids, because no JSON text is empty.
const BATCH_ID: &str = "";

/// The beginning of a response from jsonrpsee. Notifications have a method instead of an id.
const RESPONSE_START: &str = "{\"jsonrpc\":\"2.0\",\"id\":\"";

/// Converts a message from jsonrpsee into the one that the client receives: in a response, restores the id that the
/// client sent. Returns `None` for a response that is part of the response to a batch.
pub(crate) fn with_client_id(json: Box<RawValue>) -> Option<Piece> {
    #[derive(Deserialize)]
    struct Response<'a> {
        /// The JSON text of the client's id.
        #[serde(borrow)]
        id: Cow<'a, str>,
        #[serde(borrow)]
        result: Option<&'a RawValue>,
        #[serde(borrow)]
        error: Option<&'a RawValue>,
    }
    let text = json.get();
    if text.starts_with(RESPONSE_START)
        && let Ok(Response { id, result, error }) = serde_json::from_str(text)
        && let Some((name, value)) =
            result.map(|result| ("result", result)).or(error.map(|error| ("error", error)))
    {
        let response = || format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"{name}\":{value}}}").into();
        return (id != BATCH_ID).then(response);
    }
    Some(String::from(Box::<str>::from(json)).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subscription::NOTIFICATION_BYTES;
    use jsonrpsee::{
        ResponsePayload, RpcModule, SubscriptionMessage, core::SubscriptionError,
        types::ErrorObject,
    };

    #[test]
    fn responses_have_the_id_that_the_client_sent() {
        for id in ["-1", "1.5", "18446744073709551616", "1e3", "1.0", "null", r#""a\u0041\"\\""#] {
            let internal = || Id::Str(id.into());
            let payload = ResponsePayload::success("0x1");
            let response = MethodResponse::subscription_response(internal(), payload, 1000);
            let expected = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"0x1"}}"#);
            assert_eq!(with_client_id(response.into_json()).unwrap(), expected);
            let error = ErrorObject::owned(-32602, "x", None::<()>);
            let response = MethodResponse::subscription_error(internal(), error);
            let error = r#"{"code":-32602,"message":"x"}"#;
            let expected = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
            assert_eq!(with_client_id(response.into_json()).unwrap(), expected);
        }
    }

    /// If each message counted one byte too few, the uncounted bytes would grow without limit.
    #[tokio::test]
    async fn pending_bytes_equal_the_bytes_that_jsonrpsee_sends() {
        const RESULT: &str = "[1,2]";
        let mut module = RpcModule::new(());
        let registered = module.register_subscription::<Result<(), SubscriptionError>, _, _>(
            SUBSCRIBE,
            "eth_subscription",
            UNSUBSCRIBE,
            |_, pending, _, extensions| async move {
                let _subscription = extensions.get::<Arc<NewSubscription>>().cloned();
                let Ok(sink) = pending.accept().await else { return Ok(()) };
                let result = RawValue::from_string(RESULT.to_owned()).unwrap();
                let _ = sink.send(SubscriptionMessage::from(result)).await;
                sink.closed().await;
                Ok(())
            },
        );
        registered.unwrap();
        let (sink, mut pushed) = mpsc::channel(8);
        let client = Arc::new(Client::for_tests());
        let subscriber =
            Subscriber::new(module.into(), Arc::default(), sink, 10, Arc::clone(&client));
        let used = || client.account.memory.reading().used;
        for id in ["7", "null", r#""a\u0041\"\\""#, &"9".repeat(10_000)] {
            let (pending, held) = (client.flow.pending_bytes(), used());
            subscriber.subscribe(id, SubscriptionKind::Syncing).await.unwrap();
            let response = pushed.recv().await.unwrap();
            assert_eq!(client.flow.pending_bytes() - pending, response.get().len(), "{response}");
            assert!(used() > held);
            let notification = pushed.recv().await.unwrap();
            assert_eq!(notification.get().len(), NOTIFICATION_BYTES + RESULT.len());
        }
    }

    #[test]
    fn a_response_that_is_part_of_a_batch_is_not_sent_alone() {
        let payload = ResponsePayload::success("0x1");
        let response = MethodResponse::subscription_response(Id::Str(BATCH_ID.into()), payload, 99);
        assert_eq!(result(&response).unwrap().get(), "\"0x1\"");
        assert_eq!(with_client_id(response.into_json()), None);
    }

    #[test]
    fn notifications_are_not_changed() {
        let text = r#"{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"0x1","result":{"id":"7"}}}"#;
        let json = RawValue::from_string(text.to_owned()).unwrap();
        assert_eq!(with_client_id(json).unwrap(), text);
    }
}
