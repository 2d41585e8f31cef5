//! `/websocket`: calls as over POST, one after the other, and subscriptions by query.
//!
//! Each connection watches the published views and reads every block itself, so it does not miss blocks and
//! does not delay other tasks. A client that does not read its messages in time is disconnected, so nothing is
//! buffered without a limit.

use super::{
    Node, REQUEST_TIME, apart,
    arguments::Arguments,
    error::Error,
    method::QUERY,
    rpc::{Call, NO_ID, failure, reply},
    subscription_events::{self, EventMessages, Subscription},
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
use server::stop::Stopping;
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::time::{Instant, interval_at, timeout};

/// Maximum number of subscriptions of one connection (CometBFT's `max_subscriptions_per_client`).
const MAX_SUBSCRIPTIONS: usize = 5;
/// Maximum number of connections that match a block against their queries at once. A block with thousands of
/// transactions keeps a core busy for a while.
pub(super) const MAX_CONCURRENT_MATCHES: usize = 1;
/// A client that does not accept a message for this long is disconnected.
const SEND_WAIT: Duration = Duration::from_secs(10);
/// Interval of pings. A client that sends nothing between two of them is disconnected, as in CometBFT.
const PING_PERIOD: Duration = Duration::from_secs(27);
/// A client that is further behind than this many blocks is disconnected.
const MAX_BLOCKS_BEHIND: u64 = 10_000;

/// Bytes of a message to a client that are not accounted.
const FREE_BYTES: usize = 16 * 1024;

/// Upgrades a connection. The memory of one message from the client is accounted as long as it is open.
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

/// Why a connection ends.
enum ConnectionEnd {
    /// The client has disconnected, or does not read.
    Left,
    /// The node closes the connection, with a code and a reason.
    Dropped(u16, &'static str),
}

/// A WebSocket connection.
struct Client {
    node: Arc<Node>,
    socket: WebSocket,
    subscriptions: Vec<Subscription>,
    /// The number of the last block whose events were sent.
    last_sent: u64,
    /// The number of undone branches that were taken into account.
    undone: u64,
    /// Whether the client has sent anything since the last ping.
    is_alive: bool,
    account: Arc<Account>,
    /// The memory of the write buffer, which the WebSocket library never shrinks.
    written: Usage,
    /// The memory of the message being read.
    _memory: Held,
}

impl Client {
    fn new(node: Arc<Node>, socket: WebSocket, account: Arc<Account>, memory: Held) -> Self {
        let (subscriptions, written) = (Vec::new(), account.buffer(FREE_BYTES));
        Self {
            node,
            socket,
            subscriptions,
            last_sent: 0,
            undone: 0,
            is_alive: true,
            account,
            written,
            _memory: memory,
        }
    }

    async fn serve(mut self, mut stopping: Stopping) {
        let gone = tokio::select! {
            Err(gone) = self.follow_and_answer() => gone,
            // With no reason, or another one, client libraries would take this for a close that they requested.
            () = stopping.wait() => ConnectionEnd::Dropped(close_code::AWAY, "the node is stopping"),
        };
        if let ConnectionEnd::Dropped(code, reason) = gone {
            let _ =
                self.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await;
        }
    }

    async fn follow_and_answer(&mut self) -> Result<Infallible, ConnectionEnd> {
        let mut heads = self.node.queries.published.heads();
        let mut pings = interval_at(Instant::now() + PING_PERIOD, PING_PERIOD);
        loop {
            tokio::select! {
                changed = heads.changed() => {
                    let ends = |_| ConnectionEnd::Dropped(close_code::AWAY, "the node is stopping");
                    changed.map_err(ends)?;
                    heads.borrow_and_update();
                    self.send_events().await?;
                }
                message = self.socket.recv() => match message {
                    Some(Ok(message)) => self.receive(message).await?,
                    Some(Err(_)) | None => return Err(ConnectionEnd::Left),
                },
                _ = pings.tick() => {
                    if !std::mem::take(&mut self.is_alive) {
                        return Err(ConnectionEnd::Left);
                    }
                    self.send(Message::Ping(Bytes::new())).await?;
                }
            }
        }
    }

    /// Accounts for messages that wait for the client. If there is no memory left, the client is disconnected,
    /// because it does not read its responses.
    fn hold(&self, bytes: usize) -> Result<Option<Held>, ConnectionEnd> {
        match bytes {
            0..=FREE_BYTES => Ok(None),
            bytes => self.account.hold(bytes).map(Some).map_err(|_| ConnectionEnd::Left),
        }
    }

    async fn send(&mut self, message: Message) -> Result<(), ConnectionEnd> {
        if let Message::Text(text) = &message {
            self.written.grow_to(text.len()).map_err(|_| ConnectionEnd::Left)?;
        }
        let sent = timeout(SEND_WAIT, self.socket.send(message)).await;
        sent.ok().and_then(Result::ok).ok_or(ConnectionEnd::Left)
    }

    async fn answer(&mut self, answer: String) -> Result<(), ConnectionEnd> {
        let _memory = self.hold(answer.len())?;
        self.send(Message::Text(answer.into())).await
    }

    /// Handles a message from the client: answers a call, if it is one.
    async fn receive(&mut self, message: Message) -> Result<(), ConnectionEnd> {
        self.is_alive = true;
        let text = match &message {
            Message::Text(text) => text.as_bytes(),
            Message::Binary(bytes) => bytes,
            // The library has answered the pings.
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
                let _permit = self.node.calls.acquire().await;
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
        if self.subscriptions.len() >= MAX_SUBSCRIPTIONS {
            return Err(Error::Subscriptions(MAX_SUBSCRIPTIONS));
        }
        if self.subscriptions.is_empty() {
            let view = self.node.queries.published.load();
            (self.last_sent, self.undone) = (view.number(), view.undone);
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

    /// Sends the events of all blocks since the last one. CometBFT has no event for undone blocks; those of the new
    /// branch follow.
    async fn send_events(&mut self) -> Result<(), ConnectionEnd> {
        let view = self.node.queries.published.load();
        for branch in self.node.queries.published.undone(self.undone, &view) {
            self.last_sent = self.last_sent.min(branch.ancestor);
        }
        self.undone = view.undone;
        let newest = view.number();
        drop(view);
        if self.subscriptions.is_empty() {
            return Ok(());
        }
        if newest.saturating_sub(self.last_sent) > MAX_BLOCKS_BEHIND {
            return Err(ConnectionEnd::Dropped(close_code::POLICY, "too many blocks behind"));
        }
        while self.last_sent < newest {
            let number = self.last_sent + 1;
            let mut from = None;
            loop {
                let EventMessages { messages, next } = self.events_of(number, from).await?;
                // All of them are in memory while the first one is sent.
                let _memory = self.hold(messages.iter().map(String::len).sum())?;
                for message in messages {
                    self.send(Message::Text(message.into())).await?;
                }
                if next.is_none() {
                    break;
                }
                from = next;
            }
            self.last_sent = number;
        }
        Ok(())
    }

    /// The messages about a block that match the queries.
    async fn events_of(
        &mut self,
        number: u64,
        from: Option<usize>,
    ) -> Result<EventMessages, ConnectionEnd> {
        let _permit = self.node.matches.acquire().await;
        let (node, subscriptions) = (Arc::clone(&self.node), self.subscriptions.clone());
        let messages = apart(move || {
            subscription_events::events_of(&node.newest()?, number, from, &subscriptions)
        })
        .await;
        messages.map_err(|error| {
            tracing::error!(%error, number, "cannot read the events of a block");
            ConnectionEnd::Dropped(close_code::ERROR, "internal error")
        })
    }
}

fn query(given: &Arguments) -> Result<String, Error> {
    given.text("query")?.ok_or(Error::Missing("query"))
}
