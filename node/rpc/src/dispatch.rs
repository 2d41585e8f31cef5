//! Answers calls, from wherever they come: finds the method, gives it the view, runs it where it
//! belongs, counts it. Subscriptions of WebSockets go on to jsonrpsee.

mod batch;

use crate::{
    envelope::{Body, Envelope, NO_ID},
    front::{Client, Reply, Subscriber, Turn, Untaken},
    lines::Lines,
    meter::CallMeter,
    methods::methods,
    pending::PendingBlocks,
    pushed::PushedReceipts,
    rates::{self, Rates},
    subscribe::{Kind, SUBSCRIBE, UNSUBSCRIBE},
};
use alloy_primitives::Bytes;
use config::JsonRpc;
use futures_util::FutureExt;
use rpc_eth::{
    Context,
    method::{Answer, Call, Method, Run},
    services::Services,
};
use rpc_types::error::Error;
use server::interrupt::Interrupt;
use state::View;
use std::{
    num::NonZeroU32,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    pub(crate) context: Arc<Context>,
    pub(crate) rates: Rates,
    pub(crate) receipts: PushedReceipts,
    services: Arc<Services>,
    lines: Lines,
    pending: PendingBlocks,
    meter: Arc<CallMeter>,
    /// Number of the counters of methods that are not served: one past the last method.
    unknown: usize,
    response_bytes_max: usize,
    batch_max: usize,
    /// Maximum time of a batch.
    batch_time: Duration,
}

/// The answer to a body.
#[derive(Debug)]
pub(crate) enum Respond {
    /// JSON.
    Reply(Reply),
    /// Nothing: notifications only.
    Nothing,
    /// JSON: the only call was one too many.
    TooMany(Reply),
}

impl Respond {
    /// The response to a body that is not read.
    pub(crate) fn refused(transport: &Transport, error: Error) -> Self {
        let mut reply = Reply::default();
        reply.answer(NO_ID, Err(error));
        match transport {
            Transport::Http => Self::TooMany(reply),
            Transport::WebSocket(_) => Self::Reply(reply),
        }
    }
}

/// What a body arrived by.
#[derive(Clone, Debug)]
pub(crate) enum Transport {
    /// A request of HTTP.
    Http,
    /// A message of a WebSocket, which may subscribe.
    WebSocket(Arc<Subscriber>),
}

/// A call as a server took it apart.
struct Asked<'a> {
    method: &'a str,
    params: Bytes,
}

impl Dispatcher {
    pub(crate) fn new(context: Context, config: &JsonRpc) -> Self {
        let names: Vec<_> = methods().map(|method| method.name).chain(["unknown"]).collect();
        let receipts = PushedReceipts::new(&context.spec);
        let services = Services::new(config, &context.budget);
        Self {
            context: Arc::new(context),
            receipts,
            rates: Rates::new(config),
            batch_time: services.limits.longest(),
            services: Arc::new(services),
            lines: Lines::new(),
            pending: PendingBlocks::default(),
            unknown: names.len() - 1,
            meter: Arc::new(CallMeter::new(names)),
            response_bytes_max: config.max_response_bytes as usize,
            batch_max: config.max_batch as usize,
        }
    }

    /// Drops expired filters and pending blocks.
    pub(crate) fn sweep(&self) {
        self.services.filters.sweep();
        self.pending.sweep();
    }

    /// The counters of calls.
    pub(crate) fn meter(&self) -> Arc<CallMeter> {
        Arc::clone(&self.meter)
    }

    /// Answers a body. The turn of a large one ends when it has been parsed.
    pub(crate) async fn respond(
        &self,
        body: &Bytes,
        client: &Arc<Client>,
        transport: &Transport,
        turn: Option<Turn>,
    ) -> Respond {
        let parsed = Body::read(body, self.batch_max);
        drop(turn);
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
        let asked = asked(body, call);
        let answer = match (transport, asked.method) {
            (Transport::WebSocket(subscriber), SUBSCRIBE) => {
                match self.subscribe(subscriber, id, &asked.params, client).await {
                    // jsonrpsee sends the response.
                    Ok(()) => return Respond::Nothing,
                    Err(error) => Err(error),
                }
            }
            (Transport::WebSocket(subscriber), UNSUBSCRIBE) => {
                subscriber.unsubscribe(&asked.params)
            }
            _ => {
                let view = self.context.published.load();
                self.answer(asked, &view, client).await
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
                let room = Untaken::of(&client.account).room(bytes);
                reply.answer(id, room.and(answer));
            }
        }
        Respond::Reply(reply)
    }

    /// Opens a subscription.
    async fn subscribe(
        &self,
        subscriber: &Subscriber,
        id: &str,
        params: &Bytes,
        client: &Client,
    ) -> Result<(), Error> {
        subscriber.subscribe(id, self.subscription(params, client)?).await
    }

    /// What a client subscribes to. The parameters are read here, where a large body is read, and not where the
    /// messages of the subscription are made.
    fn subscription(&self, params: &Bytes, client: &Client) -> Result<Kind, Error> {
        self.rates.admit(&client.rate, client.address, NonZeroU32::MIN)?;
        Kind::read(params, &self.context.spec)
    }

    fn bounded(&self, answer: Answer) -> Answer {
        match answer {
            Ok(result) if result.bytes().len() > self.response_bytes_max => {
                Err(Error::too_large("response", self.response_bytes_max))
            }
            answer => answer,
        }
    }

    /// Answers a call over one view.
    async fn answer(&self, asked: Asked<'_>, view: &Arc<View>, client: &Arc<Client>) -> Answer {
        let started = Instant::now();
        let (number, answer) = match client.endpoint.index.find(asked.method) {
            None if [SUBSCRIBE, UNSUBSCRIBE].contains(&asked.method) => {
                (self.unknown, Err(Error::no_notifications()))
            }
            None => (self.unknown, Err(Error::unknown_method(asked.method))),
            Some((number, method)) => {
                let weight = rates::weight(method.run);
                let answer = match self.rates.admit(&client.rate, client.address, weight) {
                    Ok(()) => {
                        let call = Call {
                            method,
                            params: asked.params,
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

    /// Runs a method, and again with the pending block if the method requires it.
    async fn run(&self, method: &'static Method, mut call: Call, client: &Arc<Client>) -> Answer {
        if let Run::Waiting(run) = method.run {
            let running = AssertUnwindSafe(run(call)).catch_unwind();
            return running.await.unwrap_or_else(|_| Err(panicked(method.name)));
        }
        loop {
            let answer = self.run_once(method, &call, client).await;
            let required = answer.as_ref().err().and_then(Error::required_pending);
            let Some(detail) = required else { return answer };
            let admit = |line| {
                let weight = rates::further_weight(line);
                self.rates.admit(&client.rate, client.address, weight)
            };
            let pending =
                self.pending.get(&call.context, client, detail, &self.lines, admit).await?;
            call = call.with_pending(pending);
        }
    }

    async fn run_once(&self, method: &'static Method, call: &Call, client: &Arc<Client>) -> Answer {
        let (run, line) = match method.run {
            Run::Inline(run) => return guard(method.name, || run(call)),
            Run::Waiting(_) => return Err(Error::internal("this method takes its call")),
            Run::Line(line, run) => (run, line),
            Run::Quick { at_once, whole, line } => match guard(method.name, || at_once(call)) {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => {
                    let weight = rates::further_weight(line);
                    self.rates.admit(&client.rate, client.address, weight)?;
                    (whole, line)
                }
                Err(error) => return Err(error),
            },
        };
        let _place = client.flow.line().await;
        let call = call.clone();
        let work = move |interrupt: &Interrupt| run(&Call { interrupt: interrupt.clone(), ..call });
        self.lines.run(line, client, work).await
    }
}

/// A call of a body. Its parameters are not copied.
fn asked<'a>(body: &Bytes, call: &'a Envelope<'_>) -> Asked<'a> {
    let params = match call.params() {
        "" => Bytes::new(),
        text => Bytes(body.0.slice_ref(text.as_bytes())),
    };
    Asked { method: call.method(), params }
}

/// A panic in a method is a bug of ours; it fails that call and no other.
fn guard<T>(name: &str, run: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    std::panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err(panicked(name)))
}

fn panicked(name: &str) -> Error {
    Error::internal(format_args!("{name} panicked"))
}
