//! Answers batches. The calls of a batch run one after another on the same view, except consecutive submissions, which
//! run together. A batch has one response.

use super::{Dispatcher, ParsedCall, Respond, Transport, parsed_call};
use crate::{
    client::Client,
    envelope::{Envelope, NO_ID},
    reply::Reply,
    subscription::{SUBSCRIBE, Start, UNSUBSCRIBE},
    unsent_responses::{Gathered, UnsentResponses},
};
use alloy_primitives::Bytes;
use futures_util::future::maybe_done;
use rpc_eth::method::Answer;
use rpc_types::error::Error;
use serde_json::value::RawValue;
use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

/// Consecutive calls of this method in a batch run together. Each of them waits for the pool, and waiting for many of
/// them takes no longer than for one.
const SUBMITTED_TOGETHER: &str = "eth_sendRawTransaction";

/// Time after which a batch yields to the other connections of its thread.
const YIELD_PERIOD: Duration = Duration::from_micros(200);

/// Yields to the other connections of the thread after each [`YIELD_PERIOD`].
struct YieldTimer(Instant);

impl YieldTimer {
    fn new() -> Self {
        Self(Instant::now())
    }

    async fn yield_if_due(&mut self) {
        if self.0.elapsed() > YIELD_PERIOD {
            tokio::task::yield_now().await;
            self.0 = Instant::now();
        }
    }
}

/// The result or error of a call of a batch.
struct BatchAnswer {
    answer: Answer,
    /// Starts the subscription that the call opened.
    start: Option<Start>,
}

impl From<Answer> for BatchAnswer {
    fn from(answer: Answer) -> Self {
        Self { answer, start: None }
    }
}

impl From<Error> for BatchAnswer {
    fn from(error: Error) -> Self {
        Err(error).into()
    }
}

impl Dispatcher {
    /// Returns the response to a batch with too many calls. As in geth, it is one error, for the first call that
    /// expects a response.
    pub(super) fn refuse_batch(&self, members: &[&RawValue]) -> Reply {
        let id = members.iter().find_map(|raw| Envelope::read(raw.get().as_bytes()).ok()?.id());
        let mut reply = Reply::default();
        reply.text("[");
        reply.answer(id.unwrap_or(NO_ID), Err(Error::batch_too_large(self.max_batch)));
        reply.text("]");
        reply
    }

    pub(super) async fn respond_to_batch(
        &self,
        body: &Bytes,
        members: &[&RawValue],
        client: &Arc<Client>,
        transport: &Transport,
    ) -> Respond {
        let mut yield_timer = YieldTimer::new();
        let mut read = Vec::with_capacity(members.len());
        for raw in members {
            yield_timer.yield_if_due().await;
            read.push(Envelope::read(raw.get().as_bytes()));
        }
        let calls = read.iter().map(|member| match member {
            Ok(call) if call.id().is_some() => Some(Ok(parsed_call(body, call))),
            Ok(_) => None,
            Err((_, error)) => Some(Err(error.clone())),
        });
        // Until the response contains the results, they count towards the client's memory.
        let (answers, _gathered) = self.answer_batch(calls.collect(), client, transport).await;
        let ids = read.iter().filter_map(|member| match member {
            Ok(call) => call.id(),
            Err((id, _)) => Some(*id),
        });
        if answers.is_empty() {
            return Respond::Nothing;
        }
        let mut reply = Reply::default();
        for (index, (id, answered)) in ids.zip(answers).enumerate() {
            yield_timer.yield_if_due().await;
            reply.text(if index == 0 { "[" } else { "," });
            // Ids and errors count as well. If the id of a subscription does not fit, the subscription is dropped here.
            if reply.len() > self.max_response_bytes {
                reply.answer(id, Err(Error::too_large("response", self.max_response_bytes)));
                continue;
            }
            reply.answer(id, answered.answer);
            answered.start.into_iter().for_each(|start| reply.subscription(start));
        }
        reply.text("]");
        Respond::Reply(reply)
    }

    /// Runs the calls of a batch on the same view. Notifications are `None` and have no result. When the results
    /// exceed the maximum length of a response or the memory of clients, or when the deadline of the batch has
    /// passed, the remaining calls do not run and receive an error.
    async fn answer_batch(
        &self,
        calls: Vec<Option<Result<ParsedCall<'_>, Error>>>,
        client: &Arc<Client>,
        transport: &Transport,
    ) -> (Vec<BatchAnswer>, Gathered) {
        let view = self.context.published.load();
        let mut answers: Vec<BatchAnswer> = Vec::with_capacity(calls.len());
        let mut bytes = 0;
        let mut gathered = UnsentResponses::of(&client.account).gather();
        let mut yield_timer = YieldTimer::new();
        let deadline = tokio::time::Instant::now() + self.batch_timeout;
        let mut calls = calls.into_iter().flatten().peekable();
        while let Some(call) = calls.next() {
            if call.is_ok() && tokio::time::Instant::now() >= deadline {
                answers.push(Error::batch_timed_out(self.batch_timeout).into());
                continue;
            }
            if bytes > self.max_response_bytes {
                answers.push(Error::too_large("response", self.max_response_bytes).into());
                continue;
            }
            if let Err(error) = gathered.add(0) {
                answers.push(error.into());
                continue;
            }
            yield_timer.yield_if_due().await;
            let answered = answers.len();
            match call {
                Err(error) => answers.push(error.into()),
                Ok(call) if call.method == SUBMITTED_TOGETHER => {
                    let mut together = vec![call];
                    let same = |next: &Result<ParsedCall<'_>, Error>| {
                        next.as_ref().is_ok_and(|call| call.method == SUBMITTED_TOGETHER)
                    };
                    while let Some(Ok(next)) = calls.next_if(same) {
                        together.push(next);
                    }
                    let sent = together.into_iter().map(|call| self.answer(call, &view, client));
                    let sent = all_until(deadline, sent).await.into_iter();
                    answers
                        .extend(sent.map(|answer| BatchAnswer::from(self.in_batch_time(answer))));
                }
                Ok(call) => {
                    let answer = async {
                        let subscribed = self.answer_subscription(&call, client, transport).await;
                        match subscribed {
                            Some(answered) => answered,
                            None => self.answer(call, &view, client).await.into(),
                        }
                    };
                    let answered = tokio::time::timeout_at(deadline, answer).await;
                    let timed_out = |_| Error::batch_timed_out(self.batch_timeout).into();
                    answers.push(answered.unwrap_or_else(timed_out));
                }
            }
            let bytes_of = |answered: &BatchAnswer| {
                answered.answer.as_ref().map_or(0, |result| result.bytes().len())
            };
            let more = answers[answered..].iter().map(bytes_of).sum::<usize>();
            bytes += more;
            // Return the results so far. If they do not fit into memory, the next calls receive an error.
            let _ = gathered.add(more);
        }
        (answers, gathered)
    }

    /// Opens or closes a subscription, and returns `None` for other calls. As in geth, notifications are sent after the
    /// response to the batch.
    async fn answer_subscription(
        &self,
        call: &ParsedCall<'_>,
        client: &Client,
        transport: &Transport,
    ) -> Option<BatchAnswer> {
        let Transport::WebSocket(subscriber) = transport else { return None };
        match call.method {
            SUBSCRIBE => {
                let kind = match self.subscription(&call.params, client) {
                    Ok(kind) => kind,
                    Err(error) => return Some(error.into()),
                };
                Some(match subscriber.subscribe_in_batch(kind).await {
                    Ok((id, start)) => BatchAnswer { answer: Ok(id), start: Some(start) },
                    Err(error) => error.into(),
                })
            }
            UNSUBSCRIBE => Some(subscriber.unsubscribe(&call.params).into()),
            _ => None,
        }
    }

    /// Returns the result of a call of a batch, or the timeout error if there is none.
    fn in_batch_time(&self, answer: Option<Answer>) -> Answer {
        answer.unwrap_or_else(|| Err(Error::batch_timed_out(self.batch_timeout)))
    }
}

/// Polls all futures until they are ready or the deadline has passed, and returns `None` for those that are not ready.
/// The calls of a batch usually become ready together, so polling all of them costs less than tracking which one woke.
async fn all_until<F: Future>(
    deadline: tokio::time::Instant,
    futures: impl Iterator<Item = F>,
) -> Vec<Option<F::Output>> {
    let mut all: Vec<_> = futures.map(|future| Box::pin(maybe_done(future))).collect();
    let mut timeout = pin!(tokio::time::sleep_until(deadline));
    poll_fn(|cx| {
        let pending = all.iter_mut().map(|call| call.as_mut().poll(cx)).filter(Poll::is_pending);
        let is_ready = pending.count() == 0 || timeout.as_mut().poll(cx).is_ready();
        if is_ready { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    all.iter_mut().map(|call| call.as_mut().take_output()).collect()
}
