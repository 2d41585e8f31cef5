//! Answers calls, from wherever they come: finds the method, gives it the view, runs it where it
//! belongs, counts it. Subscriptions of WebSockets go on to jsonrpsee.

use super::{
    Context,
    envelope::{Body, Envelope, NO_ID},
    error::Error,
    front::{Client, Gathered, Reply, Subscriber, Turn, Untaken},
    lines::{Interrupt, Lines},
    meter::CallMeter,
    method::{Answer, Call, Method, Run, methods},
    pending::PendingBlocks,
    pushed::PushedReceipts,
    rates::{self, Rates},
    services::Services,
    subscribe::{Kind, SUBSCRIBE, UNSUBSCRIBE},
};
use crate::{config::JsonRpc, view::View};
use alloy_primitives::Bytes;
use futures_util::{FutureExt, future::maybe_done};
use serde_json::value::RawValue;
use std::{
    future::{Future, poll_fn},
    num::NonZeroU32,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

/// Consecutive calls of this method in a batch are submitted together: each of them waits for the
/// pool, which takes many as quickly as one.
const TOGETHER: &str = "eth_sendRawTransaction";

/// How long calls of a batch are answered before other connections of the thread have their turn.
const BATCH_TURN: Duration = Duration::from_micros(200);

/// What all connections share.
#[derive(Debug)]
pub(super) struct Dispatcher {
    pub(super) context: Arc<Context>,
    pub(super) rates: Rates,
    pub(super) receipts: PushedReceipts,
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
pub(super) enum Respond {
    /// JSON.
    Reply(Reply),
    /// Nothing: notifications only.
    Nothing,
    /// JSON: the only call was one too many.
    TooMany(Reply),
}

impl Respond {
    /// The response to a body that is not read.
    pub(super) fn refused(transport: &Transport, error: Error) -> Self {
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
pub(super) enum Transport {
    /// A request of HTTP.
    Http,
    /// A message of a WebSocket, which may subscribe.
    WebSocket(Arc<Subscriber>),
}

/// Yields to the other connections of the thread every [`BATCH_TURN`].
struct Pace(Instant);

impl Pace {
    fn new() -> Self {
        Self(Instant::now())
    }

    async fn keep(&mut self) {
        if self.0.elapsed() > BATCH_TURN {
            tokio::task::yield_now().await;
            self.0 = Instant::now();
        }
    }
}

/// A call as a server took it apart.
struct Asked<'a> {
    method: &'a str,
    params: Bytes,
}

impl Dispatcher {
    pub(super) fn new(context: Context, config: &JsonRpc) -> Self {
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
    pub(super) fn sweep(&self) {
        self.services.filters.sweep();
        self.pending.sweep();
    }

    /// The counters of calls.
    pub(super) fn meter(&self) -> Arc<CallMeter> {
        Arc::clone(&self.meter)
    }

    /// Answers a body. The turn of a large one ends when it has been parsed.
    pub(super) async fn respond(
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
            Ok(Body::Batch(members)) => self.respond_to_batch(body, &members, client).await,
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

    /// Opens a subscription. Its parameters are read here, where a large body is read, and not where its
    /// messages are made.
    async fn subscribe(
        &self,
        subscriber: &Subscriber,
        id: &str,
        params: &Bytes,
        client: &Client,
    ) -> Result<(), Error> {
        self.rates.admit(&client.rate, client.address, NonZeroU32::MIN)?;
        subscriber.subscribe(id, Kind::read(params, &self.context.spec)?).await
    }

    /// One response for all calls of a batch that has too many, to the first of them that expects one,
    /// as geth.
    fn refuse_batch(&self, members: &[&RawValue]) -> Reply {
        let id = members.iter().find_map(|raw| Envelope::read(raw.get().as_bytes()).ok()?.id());
        let mut reply = Reply::default();
        reply.text("[");
        reply.answer(id.unwrap_or(NO_ID), Err(Error::batch_too_large(self.batch_max)));
        reply.text("]");
        reply
    }

    async fn respond_to_batch(
        &self,
        body: &Bytes,
        members: &[&RawValue],
        client: &Arc<Client>,
    ) -> Respond {
        let mut pace = Pace::new();
        let mut read = Vec::with_capacity(members.len());
        for raw in members {
            pace.keep().await;
            read.push(Envelope::read(raw.get().as_bytes()));
        }
        let calls = read.iter().map(|member| match member {
            Ok(call) if call.id().is_some() => Some(Ok(asked(body, call))),
            Ok(_) => None,
            Err((_, error)) => Some(Err(error.clone())),
        });
        // What was gathered counts until the response has been made of it.
        let (answers, _gathered) = self.answer_batch(calls.collect(), client).await;
        let ids = read.iter().filter_map(|member| match member {
            Ok(call) => call.id(),
            Err((id, _)) => Some(*id),
        });
        if answers.is_empty() {
            return Respond::Nothing;
        }
        let mut reply = Reply::default();
        for (index, (id, answer)) in ids.zip(answers).enumerate() {
            pace.keep().await;
            reply.text(if index == 0 { "[" } else { "," });
            // Ids count as well, and errors.
            let answer = if reply.len() > self.response_bytes_max {
                Err(Error::too_large("response", self.response_bytes_max))
            } else {
                answer
            };
            reply.answer(id, answer);
        }
        reply.text("]");
        Respond::Reply(reply)
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
                            client: Arc::clone(client),
                            interrupt: Interrupt::default(),
                        };
                        self.run(method, call).await
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
    async fn run(&self, method: &'static Method, mut call: Call) -> Answer {
        if let Run::Waiting(run) = method.run {
            let running = AssertUnwindSafe(run(call)).catch_unwind();
            return running.await.unwrap_or_else(|_| Err(panicked(method.name)));
        }
        loop {
            let answer = self.run_once(method, &call).await;
            let required = answer.as_ref().err().and_then(Error::required_pending);
            let Some(detail) = required else { return answer };
            let admit = |line| {
                let weight = rates::further_weight(line);
                self.rates.admit(&call.client.rate, call.client.address, weight)
            };
            let pending = self.pending.get(&call, detail, &self.lines, admit).await?;
            call = call.with_pending(pending);
        }
    }

    async fn run_once(&self, method: &'static Method, call: &Call) -> Answer {
        let (run, line) = match method.run {
            Run::Inline(run) => return guard(method.name, || run(call)),
            Run::Waiting(_) => return Err(Error::internal("this method takes its call")),
            Run::Line(line, run) => (run, line),
            Run::Quick { at_once, whole, line } => match guard(method.name, || at_once(call)) {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => {
                    let weight = rates::further_weight(line);
                    self.rates.admit(&call.client.rate, call.client.address, weight)?;
                    (whole, line)
                }
                Err(error) => return Err(error),
            },
        };
        let client = Arc::clone(&call.client);
        let _place = client.flow.line().await;
        let call = call.clone();
        let work = move |interrupt: &Interrupt| run(&Call { interrupt: interrupt.clone(), ..call });
        self.lines.run(line, &client, work).await
    }

    /// Answers the calls of a batch, all over the same view; notifications are `None` and have no
    /// answer. Once the results exceed the maximum response or the memory of clients, or the deadline of the
    /// batch has passed, the remaining calls are not run.
    async fn answer_batch(
        &self,
        calls: Vec<Option<Result<Asked<'_>, Error>>>,
        client: &Arc<Client>,
    ) -> (Vec<Answer>, Gathered) {
        let view = self.context.published.load();
        let mut answers: Vec<Answer> = Vec::with_capacity(calls.len());
        let mut bytes = 0;
        let mut gathered = Untaken::of(&client.account).gather();
        let mut pace = Pace::new();
        let deadline = tokio::time::Instant::now() + self.batch_time;
        let mut calls = calls.into_iter().flatten().peekable();
        while let Some(call) = calls.next() {
            if call.is_ok() && tokio::time::Instant::now() >= deadline {
                answers.push(Err(Error::batch_timed_out(self.batch_time)));
                continue;
            }
            if bytes > self.response_bytes_max {
                answers.push(Err(Error::too_large("response", self.response_bytes_max)));
                continue;
            }
            if let Err(error) = gathered.add(0) {
                answers.push(Err(error));
                continue;
            }
            pace.keep().await;
            let answered = answers.len();
            match call {
                Err(error) => answers.push(Err(error)),
                Ok(asked) if asked.method == TOGETHER => {
                    let mut together = vec![asked];
                    let same = |next: &Result<Asked<'_>, Error>| {
                        next.as_ref().is_ok_and(|asked| asked.method == TOGETHER)
                    };
                    while let Some(Ok(next)) = calls.next_if(same) {
                        together.push(next);
                    }
                    let sent = together.into_iter().map(|asked| self.answer(asked, &view, client));
                    let sent = all_until(deadline, sent).await.into_iter();
                    answers.extend(sent.map(|answer| self.in_batch_time(answer)));
                }
                Ok(asked) => {
                    let answer = self.answer(asked, &view, client);
                    let answer = tokio::time::timeout_at(deadline, answer).await;
                    answers.push(self.in_batch_time(answer.ok()));
                }
            }
            let more = answers[answered..]
                .iter()
                .map(|answer| answer.as_ref().map_or(0, |result| result.bytes().len()))
                .sum::<usize>();
            bytes += more;
            // What is gathered stays; a refusal ends the batch before its next call.
            let _ = gathered.add(more);
        }
        (answers, gathered)
    }

    /// The answer of a call in a batch, if there was one in the time of the batch.
    fn in_batch_time(&self, answer: Option<Answer>) -> Answer {
        answer.unwrap_or_else(|| Err(Error::batch_timed_out(self.batch_time)))
    }
}

/// Polls all futures, starting in their order, until they are ready or the deadline has passed; `None` for those
/// that are late. The calls of a batch usually become ready together, so polling all that remain costs less
/// than tracking which one was woken.
async fn all_until<F: Future>(
    deadline: tokio::time::Instant,
    futures: impl Iterator<Item = F>,
) -> Vec<Option<F::Output>> {
    let mut all: Vec<_> = futures.map(|future| Box::pin(maybe_done(future))).collect();
    let mut late = pin!(tokio::time::sleep_until(deadline));
    poll_fn(|cx| {
        let left = all.iter_mut().map(|one| one.as_mut().poll(cx)).filter(Poll::is_pending).count();
        if left == 0 || late.as_mut().poll(cx).is_ready() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    all.iter_mut().map(|one| one.as_mut().take_output()).collect()
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
