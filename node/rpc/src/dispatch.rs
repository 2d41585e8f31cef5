//! Answers calls from all transports: finds the method, passes it the view, runs it inline or in a queue, and counts
//! the call. jsonrpsee manages the subscriptions.

mod batch;

use crate::{
    block_receipts::BlockReceipts,
    client::Client,
    envelope::{Body, Envelope, NO_ID},
    meter::CallMeter,
    methods::methods,
    pending::PendingBlocks,
    queues::CallQueues,
    rates::{self, Rates},
    reply::Reply,
    subscriber::Subscriber,
    subscription::{SUBSCRIBE, SubscriptionKind, UNSUBSCRIBE},
    unsent_responses::UnsentResponses,
};
use alloy_primitives::Bytes;
use config::JsonRpc;
use futures_util::FutureExt;
use rpc_eth::{
    Context,
    eth::require_pool,
    method::{Answer, Call, Method, Run},
    services::Services,
};
use rpc_types::error::Error;
use server::{fair_permits::FairPermit, interrupt::Interrupt};
use state::View;
use std::{
    num::NonZeroU32,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

/// The state that all connections share.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    pub(crate) context: Arc<Context>,
    pub(crate) rates: Rates,
    pub(crate) receipts: BlockReceipts,
    services: Arc<Services>,
    queues: CallQueues,
    pending: PendingBlocks,
    meter: Arc<CallMeter>,
    /// The index of the counters for unknown methods: one above the index of the last method.
    unknown: usize,
    max_response_bytes: usize,
    max_batch: usize,
    /// The maximum duration of a batch.
    batch_timeout: Duration,
}

/// The response to a body.
#[derive(Debug)]
pub(crate) enum Respond {
    /// A JSON response.
    Reply(Reply),
    /// No response, because the body contains only notifications.
    Nothing,
    /// A JSON response to a single call that exceeded a rate limit, or to a body that was not parsed.
    TooMany(Reply),
}

impl Respond {
    /// Returns the response to a large body that was not answered, usually because the queue of bodies is full.
    pub(crate) fn refused(transport: &Transport, error: Error) -> Self {
        let mut reply = Reply::default();
        reply.answer(NO_ID, Err(error));
        match transport {
            Transport::Http => Self::TooMany(reply),
            Transport::WebSocket(_) => Self::Reply(reply),
        }
    }
}

/// The transport of a body.
#[derive(Clone, Debug)]
pub(crate) enum Transport {
    /// An HTTP request.
    Http,
    /// A WebSocket message, which may open subscriptions.
    WebSocket(Arc<Subscriber>),
}

struct ParsedCall<'a> {
    method: &'a str,
    params: Bytes,
}

impl Dispatcher {
    pub(crate) fn new(context: Context, config: &JsonRpc) -> Self {
        let names: Vec<_> = methods().map(|method| method.name).chain(["unknown"]).collect();
        let receipts = BlockReceipts::new(&context.spec);
        let services = Services::new(config, &context.budget);
        Self {
            context: Arc::new(context),
            receipts,
            rates: Rates::new(config),
            batch_timeout: services.limits.max_duration(),
            services: Arc::new(services),
            queues: CallQueues::new(),
            pending: PendingBlocks::default(),
            unknown: names.len() - 1,
            meter: Arc::new(CallMeter::new(names)),
            max_response_bytes: config.max_response_bytes as usize,
            max_batch: config.max_batch as usize,
        }
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// Answers a call that does not come over JSON-RPC, with the newest view.
    pub(crate) async fn call(&self, method: &str, params: Bytes, client: &Arc<Client>) -> Answer {
        let view = self.context.published.load();
        let answer = self.answer(ParsedCall { method, params }, &view, client).await;
        self.bounded(answer)
    }

    /// Drops expired filters and pending blocks.
    pub(crate) fn sweep(&self) {
        self.services.filters.sweep();
        self.pending.sweep();
    }

    pub(crate) fn meter(&self) -> Arc<CallMeter> {
        Arc::clone(&self.meter)
    }

    /// Responds to a body. `permit` is the permit to parse a large body, and is released when it is parsed.
    pub(crate) async fn respond(
        &self,
        body: &Bytes,
        client: &Arc<Client>,
        transport: &Transport,
        permit: Option<FairPermit>,
    ) -> Respond {
        let parsed = Body::read(body, self.max_batch);
        drop(permit);
        match parsed {
            Err((id, error)) => {
                let mut reply = Reply::default();
                reply.answer(id, Err(error));
                Respond::Reply(reply)
            }
            Ok(Body::Single(call)) => self.respond_to_call(body, &call, client, transport).await,
            Ok(Body::TooMany(members)) => Respond::Reply(self.refuse_batch(&members)),
            Ok(Body::Batch(members)) => {
                self.respond_to_batch(body, &members, client, transport).await
            }
        }
    }

    async fn respond_to_call(
        &self,
        body: &Bytes,
        call: &Envelope<'_>,
        client: &Arc<Client>,
        transport: &Transport,
    ) -> Respond {
        let Some(id) = call.id() else { return Respond::Nothing };
        let mut reply = Reply::default();
        let call = parsed_call(body, call);
        let answer = match (transport, call.method) {
            (Transport::WebSocket(subscriber), SUBSCRIBE) => {
                match self.subscribe(subscriber, id, &call.params, client).await {
                    // jsonrpsee sends the response.
                    Ok(()) => return Respond::Nothing,
                    Err(error) => Err(error),
                }
            }
            (Transport::WebSocket(subscriber), UNSUBSCRIBE) => subscriber.unsubscribe(&call.params),
            _ => {
                let view = self.context.published.load();
                self.answer(call, &view, client).await
            }
        };
        match answer {
            Err(error) if error.is_rate() => {
                reply.answer(id, Err(error));
                return Respond::TooMany(reply);
            }
            answer => {
                let bytes = answer.as_ref().map_or(0, |result| result.bytes().len());
                let answer = self.bounded(answer);
                let memory = UnsentResponses::of(&client.account).check(bytes);
                reply.answer(id, memory.and(answer));
            }
        }
        Respond::Reply(reply)
    }

    async fn subscribe(
        &self,
        subscriber: &Subscriber,
        id: &str,
        params: &Bytes,
        client: &Client,
    ) -> Result<(), Error> {
        subscriber.subscribe(id, self.subscription(params, client)?).await
    }

    /// Counts and parses a call of `eth_subscribe`. Because the parameters may be large, the thread of the body does
    /// this rather than the subscription's task on the thread that serves the socket.
    fn subscription(&self, params: &Bytes, client: &Client) -> Result<SubscriptionKind, Error> {
        self.rates.admit(&client.rate, client.address, NonZeroU32::MIN)?;
        let kind = SubscriptionKind::read(params, &self.context.spec)?;
        if matches!(kind, SubscriptionKind::Pending { .. }) {
            require_pool(&self.context)?;
        }
        Ok(kind)
    }

    /// Replaces a result that exceeds the maximum length with an error.
    fn bounded(&self, answer: Answer) -> Answer {
        match answer {
            Ok(result) if result.bytes().len() > self.max_response_bytes => {
                Err(Error::too_large("response", self.max_response_bytes))
            }
            answer => answer,
        }
    }

    /// Runs a call on a view, and counts it.
    async fn answer(&self, call: ParsedCall<'_>, view: &Arc<View>, client: &Arc<Client>) -> Answer {
        let started = Instant::now();
        let (number, answer) = match client.endpoint.index.find(call.method) {
            None if [SUBSCRIBE, UNSUBSCRIBE].contains(&call.method) => {
                (self.unknown, Err(Error::no_notifications()))
            }
            None => (self.unknown, Err(Error::unknown_method(call.method))),
            Some((number, method)) => {
                let weight = rates::weight(method.run);
                let answer = match self.rates.admit(&client.rate, client.address, weight) {
                    Ok(()) => {
                        let call = Call {
                            method,
                            params: call.params,
                            view: Arc::clone(view),
                            pending: None,
                            context: Arc::clone(&self.context),
                            services: Arc::clone(&self.services),
                            caller: client.caller(),
                            interrupt: Interrupt::default(),
                        };
                        self.run(method, call, client).await
                    }
                    Err(error) => Err(error),
                };
                (number, answer)
            }
        };
        self.meter.count(number, started.elapsed(), answer.as_ref().err().map(Error::code));
        answer
    }

    /// Runs a method. If the method turns out to require the pending block, runs it again with that block. A replica
    /// forwards calls that read the pool or require the pending block.
    async fn run(&self, method: &'static Method, mut call: Call, client: &Arc<Client>) -> Answer {
        let forwarder = self.context.forwarder.as_deref();
        if let Some(forwarder) = forwarder
            && is_forwarded(method.name, &call.params)
        {
            return forwarder.call(method.name, call.params).await;
        }
        if let Run::Waiting(run) = method.run {
            let running = AssertUnwindSafe(run(call)).catch_unwind();
            return running.await.unwrap_or_else(|_| Err(panicked(method.name)));
        }
        loop {
            let answer = self.run_once(method, &call, client).await;
            let required = answer.as_ref().err().and_then(Error::required_pending);
            let Some(detail) = required else { return answer };
            if let Some(forwarder) = forwarder {
                return forwarder.call(method.name, call.params).await;
            }
            let admit = |queue| {
                let weight = rates::further_weight(queue);
                self.rates.admit(&client.rate, client.address, weight)
            };
            let pending =
                self.pending.get(&call.context, client, detail, &self.queues, admit).await?;
            call = call.with_pending(pending);
        }
    }

    async fn run_once(&self, method: &'static Method, call: &Call, client: &Arc<Client>) -> Answer {
        let (run, queue) = match method.run {
            Run::Inline(run) => return guard(method.name, || run(call)),
            Run::Waiting(_) => return Err(Error::internal("a waiting method cannot run twice")),
            Run::Queued(queue, run) => (run, queue),
            Run::Quick { inline, queued, queue } => match guard(method.name, || inline(call)) {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => {
                    let weight = rates::further_weight(queue);
                    self.rates.admit(&client.rate, client.address, weight)?;
                    (queued, queue)
                }
                Err(error) => return Err(error),
            },
        };
        let _permit = client.flow.queue_permit().await;
        let call = call.clone();
        let work = move |interrupt: &Interrupt| run(&Call { interrupt: interrupt.clone(), ..call });
        self.queues.run(queue, client, work).await
    }
}

/// Returns whether a replica forwards this call because its result depends on the pool: `eth_fillTransaction`, too,
/// returns the nonce after the pooled transactions. Methods that read transactions by hash forward calls themselves.
fn is_forwarded(method: &str, params: &[u8]) -> bool {
    match method {
        "txpool_status"
        | "txpool_content"
        | "txpool_contentFrom"
        | "txpool_inspect"
        | "eth_fillTransaction"
        | "eth_pendingTransactions" => true,
        "eth_getTransactionCount" => {
            let pending = br#""pending""#;
            params.windows(pending.len()).any(|part| part == pending)
        }
        _ => false,
    }
}

/// Extracts a call from a body, without copying its parameters.
fn parsed_call<'a>(body: &Bytes, call: &'a Envelope<'_>) -> ParsedCall<'a> {
    let params = match call.params() {
        "" => Bytes::new(),
        text => Bytes(body.0.slice_ref(text.as_bytes())),
    };
    ParsedCall { method: call.method(), params }
}

/// Converts a panic in a method into an error for this call, so that other calls are not affected.
fn guard<T>(name: &str, run: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    std::panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err(panicked(name)))
}

fn panicked(name: &str) -> Error {
    Error::internal(format_args!("{name} panicked"))
}
