//! The subscriptions of a connection, which jsonrpsee keeps.

use crate::rpc::{
    error::Error,
    front::Client,
    method::Answer,
    subscribe::{Ids, SUBSCRIBE, UNSUBSCRIBE},
    text::Json,
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
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{borrow::Cow, sync::Arc};
use tokio::{runtime::Handle, sync::mpsc};

/// Opens and closes the subscriptions of a connection.
#[derive(Debug)]
pub(in crate::rpc) struct Subscriber {
    methods: Methods,
    ids: Arc<Ids>,
    /// What jsonrpsee sends goes here.
    sink: MethodSink,
    permits: BoundedSubscriptions,
    client: Arc<Client>,
    /// Subscriptions run where the socket is served.
    runtime: Handle,
}

impl Subscriber {
    /// A connection without subscriptions, on the runtime that calls this.
    pub(super) fn new(
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

    /// Opens a subscription. jsonrpsee sends the response itself, ahead of the first notification, and
    /// its type of ids holds no negative numbers and no fractions. It therefore receives the JSON text
    /// of the client's id as a string, which [`with_client_id`] replaces by the id.
    ///
    /// # Errors
    /// If the connection has as many as it may have.
    pub(in crate::rpc) async fn subscribe(&self, id: &str, params: &Bytes) -> Result<(), Error> {
        let Some(MethodCallback::Subscription(open)) = self.methods.method(SUBSCRIBE) else {
            return Err(Error::unknown_method(SUBSCRIBE));
        };
        let max = self.permits.max();
        let permit = self.permits.acquire().ok_or_else(|| Error::too_many_subscriptions(max))?;
        let state = SubscriptionState {
            conn_id: self.connection(),
            id_provider: &*self.ids,
            subscription_permit: permit,
        };
        let mut extensions = Extensions::new();
        extensions.insert(Arc::clone(&self.client));
        let opening = {
            let _runtime = self.runtime.enter();
            open(Id::Str(id.into()), read_params(params), self.sink.clone(), state, extensions)
        };
        match opening.await {
            response if response.is_subscription() => Ok(()),
            response => Err(Error::internal(format_args!("no subscription: {response}"))),
        }
    }

    /// Closes a subscription.
    pub(in crate::rpc) fn unsubscribe(&self, params: &Bytes) -> Answer {
        let Some(MethodCallback::Unsubscription(close)) = self.methods.method(UNSUBSCRIBE) else {
            return Err(Error::unknown_method(UNSUBSCRIBE));
        };
        let (connection, extensions) = (self.connection(), Extensions::new());
        let response = close(Id::Null, read_params(params), connection, usize::MAX, extensions);
        if is_true(&response) { Ok(Json::fixed("true")) } else { Err(Error::no_subscription()) }
    }
}

/// Parameters as jsonrpsee takes them.
fn read_params(params: &Bytes) -> Params<'_> {
    let text = str::from_utf8(params).expect("parameters were parsed as JSON");
    Params::new(Some(text).filter(|text| !text.is_empty()))
}

/// Whether the result is `true`: jsonrpsee answers `false` if there is no such subscription.
fn is_true(response: &MethodResponse) -> bool {
    #[derive(Deserialize)]
    struct Answered {
        result: Option<bool>,
    }
    let answered = serde_json::from_str::<Answered>(response.as_json().get());
    answered.is_ok_and(|answered| answered.result == Some(true))
}

/// How jsonrpsee begins a response. Notifications have a method instead of an id.
const RESPONSE_START: &str = "{\"jsonrpc\":\"2.0\",\"id\":\"";

/// A message of jsonrpsee's as the client receives it: in a response, the id is what the client sent.
pub(super) fn with_client_id(json: Box<RawValue>) -> Piece {
    #[derive(Deserialize)]
    struct Response<'a> {
        /// JSON text.
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
        return format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"{name}\":{value}}}").into();
    }
    String::from(Box::<str>::from(json)).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jsonrpsee::{ResponsePayload, types::ErrorObject};

    #[test]
    fn responses_have_the_id_that_the_client_sent() {
        for id in ["-1", "1.5", "18446744073709551616", "1e3", "1.0", "null", r#""a\u0041\"\\""#] {
            let internal = || Id::Str(id.into());
            let payload = ResponsePayload::success("0x1");
            let response = MethodResponse::subscription_response(internal(), payload, 1000);
            let expected = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"0x1"}}"#);
            assert_eq!(with_client_id(response.into_json()), expected);
            let error = ErrorObject::owned(-32602, "x", None::<()>);
            let response = MethodResponse::subscription_error(internal(), error);
            let error = r#"{"code":-32602,"message":"x"}"#;
            let expected = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
            assert_eq!(with_client_id(response.into_json()), expected);
        }
    }

    #[test]
    fn notifications_are_not_changed() {
        let text = r#"{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"0x1","result":{"id":"7"}}}"#;
        let json = RawValue::from_string(text.to_owned()).unwrap();
        assert_eq!(with_client_id(json), text);
    }
}
