//! `/websocket`: calls as in a POST, one after the other, and subscriptions, which follow the chain with a
//! query.
//!
//! A client follows the published views and reads each block itself, so it misses none and holds nothing
//! up. One that does not take its messages in time is dropped, never buffered without bound.

use super::{
    Node, REQUEST_TIME, apart,
    arguments::Arguments,
    error::Error,
    method::QUERY,
    rpc::{Call, NO_ID, failure, reply},
    told::{self, Piece, Subscription},
};
use crate::query::Watch;
use axum::{
    Extension,
    extract::{
        State,
        ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code},
    },
    http::StatusCode,
    response::{IntoResponse, Response},
};
use budget::{Account, Held, Usage};
use bytes::Bytes;
use serde_json::{Value, json};
use server::listen::Stopping;
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::time::{Instant, interval_at, timeout};

/// Most queries of one connection (CometBFT's `max_subscriptions_per_client`).
const SUBSCRIPTIONS_MAX: usize = 5;
/// Connections that look through a block for their queries at once: a block of thousands of transactions
/// is the work of a core for a while.
pub(super) const LOOKS_MAX: usize = 1;
/// A client that takes no message for this long is dropped.
const SEND_WAIT: Duration = Duration::from_secs(10);
/// How often a client is asked whether it is there; one not heard of in between is dropped (CometBFT).
const PING_PERIOD: Duration = Duration::from_secs(27);
/// Blocks a client may be behind before it is dropped.
const BEHIND_MAX: u64 = 10_000;

/// Bytes of messages to a client that are not accounted.
const FREE_BYTES: usize = 16 * 1024;

/// Takes a connection over. It holds the memory of one message from the client as long as it is open.
pub(super) async fn open(
    State(node): State<Arc<Node>>,
    Extension(account): Extension<Arc<Account>>,
    Extension(stopping): Extension<Stopping>,
    upgrade: WebSocketUpgrade,
) -> Response {
    let most = node.message_bytes;
    let memory = match account.hold(most) {
        Ok(memory) => memory,
        Err(refused) => {
            let limit = refused.limit();
            let text = format!(
                "clients use too much memory: at most {limit} bytes (server.max-client-bytes)\n"
            );
            return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
        }
    };
    let upgrade = upgrade.max_message_size(most).max_frame_size(most);
    upgrade.on_upgrade(|socket| Client::new(node, socket, account, memory).serve(stopping))
}

/// Why a client is served no longer.
enum Gone {
    /// It has left, or takes nothing.
    Left,
    /// It is told why.
    Dropped(u16, &'static str),
}

/// A connection.
struct Client {
    node: Arc<Node>,
    socket: WebSocket,
    subscriptions: Vec<Subscription>,
    /// The newest block it was told of.
    told: u64,
    /// Whether it has sent anything since it was asked.
    heard: bool,
    account: Arc<Account>,
    /// The memory of the buffer that messages are written to. The WebSocket library never makes it smaller.
    written: Usage,
    /// The memory of a message that is read.
    _memory: Held,
}

impl Client {
    fn new(node: Arc<Node>, socket: WebSocket, account: Arc<Account>, memory: Held) -> Self {
        let (subscriptions, written) = (Vec::new(), account.buffer(FREE_BYTES));
        Self {
            node,
            socket,
            subscriptions,
            told: 0,
            heard: true,
            account,
            written,
            _memory: memory,
        }
    }

    async fn serve(mut self, mut stopping: Stopping) {
        let gone = tokio::select! {
            Err(gone) = self.follow_and_answer() => gone,
            // Clients take an end without a reason, or with another one, for one that they asked for.
            () = stopping.wait() => Gone::Dropped(close_code::AWAY, "the node is stopping"),
        };
        if let Gone::Dropped(code, reason) = gone {
            let _ =
                self.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await;
        }
    }

    async fn follow_and_answer(&mut self) -> Result<Infallible, Gone> {
        let mut heads = self.node.queries.published.heads();
        let mut pings = interval_at(Instant::now() + PING_PERIOD, PING_PERIOD);
        loop {
            tokio::select! {
                changed = heads.changed() => {
                    let ends = |_| Gone::Dropped(close_code::AWAY, "the node is stopping");
                    changed.map_err(ends)?;
                    heads.borrow_and_update();
                    self.follow().await?;
                }
                message = self.socket.recv() => match message {
                    Some(Ok(message)) => self.take(message).await?,
                    Some(Err(_)) | None => return Err(Gone::Left),
                },
                _ = pings.tick() => {
                    if !std::mem::take(&mut self.heard) {
                        return Err(Gone::Left);
                    }
                    self.send(Message::Ping(Bytes::new())).await?;
                }
            }
        }
    }

    /// The memory of messages that wait for the client. A client for which there is none is one that does not
    /// read what it asks for.
    fn hold(&self, bytes: usize) -> Result<Option<Held>, Gone> {
        match bytes {
            0..=FREE_BYTES => Ok(None),
            bytes => self.account.hold(bytes).map(Some).map_err(|_| Gone::Left),
        }
    }

    async fn send(&mut self, message: Message) -> Result<(), Gone> {
        if let Message::Text(text) = &message {
            self.written.grow_to(text.len()).map_err(|_| Gone::Left)?;
        }
        let sent = timeout(SEND_WAIT, self.socket.send(message)).await;
        sent.ok().and_then(Result::ok).ok_or(Gone::Left)
    }

    async fn answer(&mut self, answer: String) -> Result<(), Gone> {
        let _memory = self.hold(answer.len())?;
        self.send(Message::Text(answer.into())).await
    }

    /// Answers a call.
    async fn take(&mut self, message: Message) -> Result<(), Gone> {
        self.heard = true;
        let text = match &message {
            Message::Text(text) => text.as_bytes(),
            Message::Binary(bytes) => bytes,
            // Pings have been answered.
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) => return Ok(()),
        };
        let call = match serde_json::from_slice(text) {
            Ok(call) => Call::read(call),
            Err(error) => Some(Err(failure(&json!(NO_ID), &Error::Parse(error.to_string())))),
        };
        let answer = match call {
            None => return Ok(()),
            Some(Err(refused)) => refused,
            Some(Ok(call)) => self.call(call).await,
        };
        self.answer(answer).await
    }

    async fn call(&mut self, mut call: Call) -> String {
        let done = match call.method() {
            Ok("subscribe") => {
                let id = call.id.clone();
                call.arguments(QUERY).and_then(|given| self.subscribe(id, &given))
            }
            Ok("unsubscribe") => call.arguments(QUERY).and_then(|given| self.unsubscribe(&given)),
            Ok("unsubscribe_all") => call.arguments(&[]).and_then(|_| self.unsubscribe_all()),
            _ => {
                let end = Instant::now() + REQUEST_TIME;
                let node = Arc::clone(&self.node);
                let _place = self.node.calls.acquire().await;
                return call.answer(node, end).await;
            }
        };
        match done {
            Ok(()) => reply(&call.id, "{}"),
            Err(error) => failure(&call.id, &error),
        }
    }

    fn subscribe(&mut self, id: Value, given: &Arguments) -> Result<(), Error> {
        let query = query(given)?;
        let watch = Watch::parse(&query)?;
        if self.subscriptions.iter().any(|one| one.query == query) {
            return Err(Error::Subscribed);
        }
        if self.subscriptions.len() >= SUBSCRIPTIONS_MAX {
            return Err(Error::Subscriptions(SUBSCRIPTIONS_MAX));
        }
        if self.subscriptions.is_empty() {
            self.told = self.node.queries.published.load().number();
        }
        self.subscriptions.push(Subscription { id, query, watch });
        Ok(())
    }

    fn unsubscribe(&mut self, given: &Arguments) -> Result<(), Error> {
        let query = query(given)?;
        let found = self.subscriptions.iter().position(|one| one.query == query);
        self.subscriptions.remove(found.ok_or(Error::NotSubscribed)?);
        Ok(())
    }

    fn unsubscribe_all(&mut self) -> Result<(), Error> {
        if self.subscriptions.is_empty() {
            return Err(Error::NotSubscribed);
        }
        self.subscriptions.clear();
        Ok(())
    }

    /// Tells of the blocks since the last one told of.
    async fn follow(&mut self) -> Result<(), Gone> {
        let newest = self.node.queries.published.load().number();
        if self.subscriptions.is_empty() {
            return Ok(());
        }
        if newest.saturating_sub(self.told) > BEHIND_MAX {
            return Err(Gone::Dropped(close_code::POLICY, "too many blocks behind"));
        }
        while self.told < newest {
            let number = self.told + 1;
            let mut from = None;
            loop {
                let Piece { messages, next } = self.look(number, from).await?;
                // All of them wait while the first one is sent.
                let _memory = self.hold(messages.iter().map(String::len).sum())?;
                for message in messages {
                    self.send(Message::Text(message.into())).await?;
                }
                if next.is_none() {
                    break;
                }
                from = next;
            }
            self.told = number;
        }
        Ok(())
    }

    /// What of a block the queries match.
    async fn look(&mut self, number: u64, from: Option<usize>) -> Result<Piece, Gone> {
        let _turn = self.node.looks.acquire().await;
        let (node, subscriptions) = (Arc::clone(&self.node), self.subscriptions.clone());
        let piece = apart(move || told::piece(&node.newest()?, number, from, &subscriptions)).await;
        piece.map_err(|error| {
            tracing::error!(%error, number, "a block cannot be told of");
            Gone::Dropped(close_code::ERROR, "internal error")
        })
    }
}

fn query(given: &Arguments) -> Result<String, Error> {
    given.text("query")?.ok_or(Error::Missing("query"))
}
