//! Answers calls, from wherever they come: finds the method, gives it the view, runs it where it
//! belongs, counts it. Subscriptions go on to jsonrpsee.

use super::{
    Context,
    envelope::{Body, Envelope, NO_ID},
    error::Error,
    front::{Client, Reply, Untaken},
    lines::{Interrupt, Lines},
    meter::CallMeter,
    method::{Answer, Call, Method, Run, methods},
    pushed::PushedReceipts,
    rates::{self, Rates},
    services::Services,
    subscribe::{SUBSCRIBE, UNSUBSCRIBE},
};
use crate::{config::JsonRpc, view::View};
use alloy_primitives::Bytes;
use futures_util::{FutureExt, future::maybe_done};
use jsonrpsee::{
    core::{
        middleware::{Batch, BatchEntry, Notification},
        server::{BatchResponseBuilder, MethodResponse, ResponsePayload},
    },
    server::middleware::rpc::RpcServiceT,
    types::{ErrorObjectOwned, Id, Request},
};
use std::{
    future::{Future, poll_fn},
    panic::AssertUnwindSafe,
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
    meter: Arc<CallMeter>,
    /// Number of the counters of methods that are not served: one past the last method.
    unknown: usize,
    response_bytes_max: usize,
    batch_max: usize,
    /// Answers over HTTP.
    pub(super) untaken: Untaken,
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

/// A call as a server took it apart.
struct Asked<'a> {
    method: &'a str,
    params: Bytes,
}

impl Dispatcher {
    pub(super) fn new(context: Context, config: &JsonRpc) -> Self {
        let names: Vec<_> = methods().map(|method| method.name).chain(["unknown"]).collect();
        let receipts = PushedReceipts::new(&context.spec);
        Self {
            context: Arc::new(context),
            receipts,
            rates: Rates::new(config),
            services: Arc::new(Services::new(config)),
            lines: Lines::new(),
            unknown: names.len() - 1,
            meter: Arc::new(CallMeter::new(names)),
            response_bytes_max: config.max_response_bytes as usize,
            batch_max: config.max_batch as usize,
            untaken: Untaken::default(),
        }
    }

    /// The counters of calls.
    pub(super) fn meter(&self) -> Arc<CallMeter> {
        Arc::clone(&self.meter)
    }

    /// Answers the body of a request.
    pub(super) async fn respond(&self, body: &Bytes, client: &Arc<Client>) -> Respond {
        let mut reply = Reply::default();
        match Body::read(body) {
            Err((id, error)) => reply.answer(id, Err(error)),
            Ok(Body::Single(call)) => {
                let Some(id) = call.id() else { return Respond::Nothing };
                let view = self.context.published.load();
                let answer = self.answer(asked(body, &call), &view, client).await;
                match answer {
                    Err(error) if error.is_rate() => {
                        reply.answer(id, Err(error));
                        return Respond::TooMany(reply);
                    }
                    answer => {
                        let bytes = answer.as_ref().map_or(0, |result| result.bytes().len());
                        let answer = self.bounded(answer);
                        reply.answer(id, self.untaken.room(bytes).and(answer));
                    }
                }
            }
            Ok(Body::Batch(members)) if members.len() > self.batch_max => {
                // One answer for all, to the first call that wants any, as geth. No more are looked at than
                // a batch may have.
                let id = members
                    .iter()
                    .take(self.batch_max)
                    .find_map(|raw| Envelope::read(raw.get().as_bytes()).ok()?.id())
                    .unwrap_or(NO_ID);
                reply.text("[");
                reply.answer(id, Err(Error::batch_too_large(self.batch_max)));
                reply.text("]");
            }
            Ok(Body::Batch(members)) => {
                let members: Vec<_> =
                    members.iter().map(|raw| Envelope::read(raw.get().as_bytes())).collect();
                let calls = members.iter().map(|member| match member {
                    Ok(call) if call.id().is_some() => Some(Ok(asked(body, call))),
                    Ok(_) => None,
                    Err((_, error)) => Some(Err(error.clone())),
                });
                let answers = self.answer_batch(calls.collect(), client, Some(&self.untaken)).await;
                let ids = members.iter().filter_map(|member| match member {
                    Ok(call) => call.id(),
                    Err((id, _)) => Some(*id),
                });
                if answers.is_empty() {
                    return Respond::Nothing;
                }
                for (index, (id, answer)) in ids.zip(answers).enumerate() {
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
            }
        }
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

    async fn run(&self, method: &'static Method, call: Call) -> Answer {
        let (run, line) = match method.run {
            Run::Inline(run) => return guard(method.name, || run(&call)),
            Run::Waiting(run) => {
                let running = AssertUnwindSafe(run(call)).catch_unwind();
                return running.await.unwrap_or_else(|_| Err(panicked(method.name)));
            }
            Run::Line(line, run) => (run, line),
            Run::Quick { at_once, whole, line } => match guard(method.name, || at_once(&call)) {
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
        let work = move |interrupt: &Interrupt| run(&Call { interrupt: interrupt.clone(), ..call });
        self.lines.run(line, &client, work).await
    }

    /// Answers the calls of a batch, all over the same view; notifications are `None` and have no
    /// answer. Once the results are larger than a response may be, or than there is room for, the rest is
    /// not run.
    async fn answer_batch(
        &self,
        calls: Vec<Option<Result<Asked<'_>, Error>>>,
        client: &Arc<Client>,
        untaken: Option<&Untaken>,
    ) -> Vec<Answer> {
        let view = self.context.published.load();
        let mut answers: Vec<Answer> = Vec::with_capacity(calls.len());
        let mut bytes = 0;
        let mut held = untaken.map(|untaken| untaken.hold(0));
        let mut turn = Instant::now();
        let mut calls = calls.into_iter().flatten().peekable();
        while let Some(call) = calls.next() {
            if bytes > self.response_bytes_max {
                answers.push(Err(Error::too_large("response", self.response_bytes_max)));
                continue;
            }
            if let Some(Err(error)) = untaken.map(|untaken| untaken.room(bytes)) {
                answers.push(Err(error));
                continue;
            }
            if turn.elapsed() > BATCH_TURN {
                tokio::task::yield_now().await;
                turn = Instant::now();
            }
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
                    answers.extend(all(sent).await);
                }
                Ok(asked) => answers.push(self.answer(asked, &view, client).await),
            }
            let more = answers[answered..]
                .iter()
                .map(|answer| answer.as_ref().map_or(0, |result| result.bytes().len()))
                .sum::<usize>();
            bytes += more;
            held.iter_mut().for_each(|held| held.add(more));
        }
        answers
    }
}

/// Waits for all of them, begun in their order. Those of a batch are answered together, so one poll after
/// another of whatever is left is less than to find out which it was.
async fn all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut all: Vec<_> = futures.map(|future| Box::pin(maybe_done(future))).collect();
    poll_fn(|cx| {
        let left = all.iter_mut().map(|one| one.as_mut().poll(cx)).filter(Poll::is_pending).count();
        if left > 0 { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    all.iter_mut().map(|one| one.as_mut().take_output().expect("it is done")).collect()
}

/// A call of an HTTP body. Its parameters stay where they are.
fn asked<'a>(body: &Bytes, call: &'a Envelope<'_>) -> Asked<'a> {
    let params = match call.params() {
        "" => Bytes::new(),
        text => Bytes(body.0.slice_ref(text.as_bytes())),
    };
    Asked { method: call.method(), params }
}

/// A call of a WebSocket message.
fn asked_below<'a>(request: &'a Request<'_>) -> Asked<'a> {
    let params =
        request.params.as_ref().map(|params| Bytes::copy_from_slice(params.get().as_bytes()));
    Asked { method: &request.method, params: params.unwrap_or_default() }
}

/// A panic in a method is a bug of ours; it fails that call and no other.
fn guard<T>(name: &str, run: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    std::panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err(panicked(name)))
}

/// The result is `false`: how jsonrpsee answers who ends a subscription that is not there.
fn is_false(response: &MethodResponse) -> bool {
    #[derive(serde::Deserialize)]
    struct Answered {
        result: Option<bool>,
    }
    let answered = serde_json::from_str::<Answered>(response.as_json().get());
    answered.is_ok_and(|answered| answered.result == Some(false))
}

fn panicked(name: &str) -> Error {
    Error::internal(format_args!("{name} panicked"))
}

/// A WebSocket's end of the dispatcher.
#[derive(Clone, Debug)]
pub(super) struct Service<S> {
    dispatcher: Arc<Dispatcher>,
    client: Arc<Client>,
    below: S,
}

impl<S> Service<S> {
    pub(super) const fn new(dispatcher: Arc<Dispatcher>, client: Arc<Client>, below: S) -> Self {
        Self { dispatcher, client, below }
    }
}

impl Dispatcher {
    /// An answer as jsonrpsee takes it.
    fn below(&self, id: Id<'_>, answer: Answer) -> MethodResponse {
        let raw = self.bounded(answer).and_then(|result| result.to_raw());
        match raw {
            Ok(raw) => MethodResponse::response(
                id,
                ResponsePayload::success_borrowed(&raw),
                self.response_bytes_max.saturating_mul(2),
            ),
            Err(error) => MethodResponse::error(id, ErrorObjectOwned::from(error)),
        }
    }

    /// One answer for all calls of a batch that has too many.
    fn refuse_batch(&self, batch: &Batch<'_>) -> MethodResponse {
        let id = batch.iter().find_map(|entry| match entry {
            Ok(BatchEntry::Call(request)) => Some(request.id.clone()),
            _ => None,
        });
        let error = ErrorObjectOwned::from(Error::batch_too_large(self.batch_max));
        let refusal = MethodResponse::error(id.unwrap_or(Id::Null), error);
        let mut responses = BatchResponseBuilder::new_with_limit(usize::MAX);
        match responses.append(refusal) {
            Ok(()) => MethodResponse::from_batch(responses.finish()),
            Err(too_large) => too_large,
        }
    }

    async fn batch_below(&self, batch: Batch<'_>, client: &Arc<Client>) -> MethodResponse {
        if batch.len() > self.batch_max {
            return self.refuse_batch(&batch);
        }
        let entries: Vec<_> = batch.into_iter().collect();
        let calls = entries.iter().map(|entry| match entry {
            Ok(BatchEntry::Call(request)) => Some(Ok(asked_below(request))),
            Ok(BatchEntry::Notification(_)) => None,
            Err(_) => Some(Err(Error::invalid_request())),
        });
        let calls: Vec<_> = calls.collect();
        let bytes = calls.iter().flatten().flatten().map(|asked| asked.params.len()).sum();
        let _asked = client.flow.ask(calls.len(), bytes);
        let _place = client.flow.batch().await;
        let mut answers = self.answer_batch(calls, client, None).await.into_iter();
        if answers.len() == 0 && !entries.is_empty() {
            client.flow.answered();
            return MethodResponse::notification();
        }
        let mut responses = BatchResponseBuilder::new_with_limit(usize::MAX);
        for entry in entries {
            let response = match entry {
                Ok(BatchEntry::Call(request)) => {
                    let Some(answer) = answers.next() else { break };
                    self.below(request.id, answer)
                }
                Ok(BatchEntry::Notification(_)) => continue,
                Err(error) => {
                    answers.next();
                    let (error, id) = error.into_parts();
                    MethodResponse::error(id, error)
                }
            };
            if let Err(too_large) = responses.append(response) {
                return too_large;
            }
        }
        let response = MethodResponse::from_batch(responses.finish());
        client.flow.owe(response.as_json().get().len());
        response
    }
}

impl<S> RpcServiceT for Service<S>
where
    S: RpcServiceT<MethodResponse = MethodResponse, NotificationResponse = MethodResponse>
        + Clone
        + Send
        + Sync
        + 'static,
{
    type MethodResponse = MethodResponse;
    type NotificationResponse = MethodResponse;
    type BatchResponse = MethodResponse;

    fn call<'a>(
        &self,
        mut request: Request<'a>,
    ) -> impl Future<Output = MethodResponse> + Send + 'a {
        let Self { dispatcher, client, .. } = self.clone();
        let subscription = [SUBSCRIBE, UNSUBSCRIBE].contains(&request.method.as_ref());
        let below = subscription.then(|| self.below.clone());
        async move {
            if let Some(below) = below {
                let id = (request.method == UNSUBSCRIBE).then(|| request.id.clone());
                request.extensions_mut().insert(client);
                let response = below.call(request).await;
                return match id {
                    Some(id) if is_false(&response) => {
                        let error = ErrorObjectOwned::from(Error::no_subscription());
                        let extensions = response.extensions().clone();
                        MethodResponse::error(id, error).with_extensions(extensions)
                    }
                    _ => response,
                };
            }
            let asked = asked_below(&request);
            let _asked = client.flow.ask(1, asked.params.len());
            client.flow.room().await;
            let view = dispatcher.context.published.load();
            let answer = dispatcher.answer(asked, &view, &client).await;
            let response = dispatcher.below(request.id, answer);
            client.flow.owe(response.as_json().get().len());
            response.with_extensions(request.extensions)
        }
    }

    fn batch<'a>(&self, batch: Batch<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        let Self { dispatcher, client, .. } = self.clone();
        async move { dispatcher.batch_below(batch, &client).await }
    }

    fn notification<'a>(
        &self,
        notification: Notification<'a>,
    ) -> impl Future<Output = MethodResponse> + Send + 'a {
        self.client.flow.answered();
        self.below.notification(notification)
    }
}
