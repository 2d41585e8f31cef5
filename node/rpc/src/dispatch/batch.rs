//! Batches: their calls are answered one after another over one view, and have one response.

use super::{Asked, Dispatcher, Respond, Transport, asked};
use crate::{
    envelope::{Envelope, NO_ID},
    front::{Client, Gathered, Reply, Untaken},
    subscribe::{SUBSCRIBE, Start, UNSUBSCRIBE},
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

/// Consecutive calls of this method in a batch are submitted together: each of them waits for the
/// pool, which takes many as quickly as one.
const TOGETHER: &str = "eth_sendRawTransaction";

/// How long calls of a batch are answered before other connections of the thread have their turn.
const BATCH_TURN: Duration = Duration::from_micros(200);

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

/// The answer to a call of a batch.
struct Answered {
    answer: Answer,
    /// Of a call that opened a subscription.
    start: Option<Start>,
}

impl From<Answer> for Answered {
    fn from(answer: Answer) -> Self {
        Self { answer, start: None }
    }
}

impl From<Error> for Answered {
    fn from(error: Error) -> Self {
        Err(error).into()
    }
}

impl Dispatcher {
    /// One response for all calls of a batch that has too many, to the first of them that expects one,
    /// as geth.
    pub(super) fn refuse_batch(&self, members: &[&RawValue]) -> Reply {
        let id = members.iter().find_map(|raw| Envelope::read(raw.get().as_bytes()).ok()?.id());
        let mut reply = Reply::default();
        reply.text("[");
        reply.answer(id.unwrap_or(NO_ID), Err(Error::batch_too_large(self.batch_max)));
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
            pace.keep().await;
            reply.text(if index == 0 { "[" } else { "," });
            // Ids count as well, and errors. A subscription whose id does not fit ends here.
            if reply.len() > self.response_bytes_max {
                reply.answer(id, Err(Error::too_large("response", self.response_bytes_max)));
                continue;
            }
            reply.answer(id, answered.answer);
            answered.start.into_iter().for_each(|start| reply.subscription(start));
        }
        reply.text("]");
        Respond::Reply(reply)
    }

    /// Answers the calls of a batch, all over the same view; notifications are `None` and have no
    /// answer. Once the results exceed the maximum response or the memory of clients, or the deadline of the
    /// batch has passed, the remaining calls are not run.
    async fn answer_batch(
        &self,
        calls: Vec<Option<Result<Asked<'_>, Error>>>,
        client: &Arc<Client>,
        transport: &Transport,
    ) -> (Vec<Answered>, Gathered) {
        let view = self.context.published.load();
        let mut answers: Vec<Answered> = Vec::with_capacity(calls.len());
        let mut bytes = 0;
        let mut gathered = Untaken::of(&client.account).gather();
        let mut pace = Pace::new();
        let deadline = tokio::time::Instant::now() + self.batch_time;
        let mut calls = calls.into_iter().flatten().peekable();
        while let Some(call) = calls.next() {
            if call.is_ok() && tokio::time::Instant::now() >= deadline {
                answers.push(Error::batch_timed_out(self.batch_time).into());
                continue;
            }
            if bytes > self.response_bytes_max {
                answers.push(Error::too_large("response", self.response_bytes_max).into());
                continue;
            }
            if let Err(error) = gathered.add(0) {
                answers.push(error.into());
                continue;
            }
            pace.keep().await;
            let answered = answers.len();
            match call {
                Err(error) => answers.push(error.into()),
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
                    answers.extend(sent.map(|answer| Answered::from(self.in_batch_time(answer))));
                }
                Ok(asked) => {
                    let answer = async {
                        let subscribed = self.answer_subscription(&asked, client, transport).await;
                        match subscribed {
                            Some(answered) => answered,
                            None => self.answer(asked, &view, client).await.into(),
                        }
                    };
                    let answered = tokio::time::timeout_at(deadline, answer).await;
                    let late = |_| Error::batch_timed_out(self.batch_time).into();
                    answers.push(answered.unwrap_or_else(late));
                }
            }
            let bytes_of = |answered: &Answered| {
                answered.answer.as_ref().map_or(0, |result| result.bytes().len())
            };
            let more = answers[answered..].iter().map(bytes_of).sum::<usize>();
            bytes += more;
            // What is gathered stays; a refusal ends the batch before its next call.
            let _ = gathered.add(more);
        }
        (answers, gathered)
    }

    /// Opens or closes a subscription; `None` for another call. Notifications follow the response of the batch, as
    /// in geth.
    async fn answer_subscription(
        &self,
        asked: &Asked<'_>,
        client: &Client,
        transport: &Transport,
    ) -> Option<Answered> {
        let Transport::WebSocket(subscriber) = transport else { return None };
        match asked.method {
            SUBSCRIBE => {
                let kind = match self.subscription(&asked.params, client) {
                    Ok(kind) => kind,
                    Err(error) => return Some(error.into()),
                };
                Some(match subscriber.subscribe_in_batch(kind).await {
                    Ok((id, start)) => Answered { answer: Ok(id), start: Some(start) },
                    Err(error) => error.into(),
                })
            }
            UNSUBSCRIBE => Some(subscriber.unsubscribe(&asked.params).into()),
            _ => None,
        }
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
