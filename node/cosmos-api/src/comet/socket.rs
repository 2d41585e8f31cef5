//! Serves `/websocket`: calls as over POST, but one at a time and not in batches, and subscriptions by query.
//!
//! Each connection watches the published views and reads every block itself, so it does not miss blocks and
//! does not delay other tasks. A client that does not read its messages in time is disconnected, so nothing is
//! buffered without a limit.

use super::{
    Node, REQUEST_TIME,
    arguments::Arguments,
    error::Error,
    method::QUERY,
    rpc::{Call, NO_ID, failure, reply},
    run_blocking,
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
/// Maximum number of connections that match a block against their queries at once, because a block with thousands
/// of transactions keeps a core busy for a while.
pub(super) const MAX_CONCURRENT_MATCHES: usize = 1;
/// A client that does not accept a message for this long is disconnected.
const SEND_WAIT: Duration = Duration::from_secs(10);
/// Interval of pings. A client that sends nothing between two of them is disconnected, as in CometBFT.
const PING_PERIOD: Duration = Duration::from_secs(27);
/// A client that is further behind than this many blocks is disconnected.
const MAX_BLOCKS_BEHIND: u64 = 10_000;

/// The memory of messages to a client of up to this many bytes is not accounted for.
const FREE_BYTES: usize = 16 * 1024;

/// Upgrades a connection. While the connection is open, memory for one message from the client is reserved.
pub(super) async fn open(
    State(node): State<Arc<Node>>,
    Extension(account): Extension<Arc<Account>>,
    Extension(stopping): Extension<Stopping>,
    upgrade: WebSocketUpgrade,
) -> Response {
    let max_bytes = node.message_bytes;
    let memory = match account.hold(max_bytes) {
        Ok(memory) => memory,
        Err(refused) => {
            let limit = refused.limit();
            let text = format!(
                "clients use too much memory: at most {limit} bytes (server.max-client-bytes)\n"
            );
            return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
        }
    };
    let upgrade = upgrade.max_message_size(max_bytes).max_frame_size(max_bytes);
    upgrade.on_upgrade(|socket| Client::new(node, socket, account, memory).serve(stopping))
}

/// Why a connection ends.
enum ConnectionEnd {
    /// The client has disconnected or does not respond, or its messages exceed the memory limit.
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
    /// The number of undone branches after which events were sent (see `View::undone`).
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
        let end = tokio::select! {
            Err(end) = self.follow_and_answer() => end,
            // Without this code and a reason, client libraries would assume that they requested the close.
            () = stopping.wait() => ConnectionEnd::Dropped(close_code::AWAY, "the node is stopping"),
        };
        if let ConnectionEnd::Dropped(code, reason) = end {
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
                    let stop = |_| ConnectionEnd::Dropped(close_code::AWAY, "the node is stopping");
                    changed.map_err(stop)?;
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

    /// Accounts for the memory of messages to the client while they are sent. The client is disconnected if no
    /// memory is available.
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

    async fn respond(&mut self, response: String) -> Result<(), ConnectionEnd> {
        let _memory = self.hold(response.len())?;
        self.send(Message::Text(response.into())).await
    }

    /// Handles a message from the client, and answers it if it is a call.
    async fn receive(&mut self, message: Message) -> Result<(), ConnectionEnd> {
        self.is_alive = true;
        let text = match &message {
            Message::Text(text) => text.as_bytes(),
            Message::Binary(bytes) => bytes,
            // The WebSocket library answers pings.
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) => return Ok(()),
        };
        let call = match serde_json::from_slice(text) {
            Ok(call) => Call::read(call),
            Err(error) => Some(Err(failure(&json!(NO_ID), &Error::Parse(error.to_string())))),
        };
        let response = match call {
            None => return Ok(()),
            Some(Err(response)) => response,
            Some(Ok(call)) => self.call(call).await,
        };
        self.respond(response).await
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
        if self.subscriptions.iter().any(|known| known.query == query) {
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
        let found = self.subscriptions.iter().position(|known| known.query == query);
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

    /// Sends the events of all blocks after `last_sent`. CometBFT has no event for undone blocks, so only the events
    /// of the new branch are sent.
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
                // All messages of a chunk are in memory while they are sent.
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

    /// Returns a chunk of the messages about block `number`, starting at the transaction at `from`.
    async fn events_of(
        &mut self,
        number: u64,
        from: Option<usize>,
    ) -> Result<EventMessages, ConnectionEnd> {
        let _permit = self.node.matches.acquire().await;
        let (node, subscriptions) = (Arc::clone(&self.node), self.subscriptions.clone());
        let messages = run_blocking(move || {
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
