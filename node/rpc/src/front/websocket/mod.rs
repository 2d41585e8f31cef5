//! Serves a WebSocket. Its messages are decoded once, here. The dispatcher answers them like the bodies of HTTP
//! requests, so both have the same responses. jsonrpsee manages the subscriptions.
//!
//! Input: a socket. Output: messages to the dispatcher, responses and notifications to the client. State: an incomplete
//! message, and the messages that are not written yet. [`Flow`] defines the limits. Above them, the socket is not read.

mod frames;
pub(super) mod handshake;
mod output;

use self::{
    frames::{Decoder, Event},
    output::Outgoing,
};
use super::{Connection, Front};
use crate::{
    client::Client,
    dispatch::{Respond, Transport},
    flow::Flow,
    subscriber::Subscriber,
};
use hyper::{
    body::{Buf, Bytes},
    upgrade::{OnUpgrade, Upgraded},
};
use hyper_util::rt::TokioIo;
use server::stop::Stopping;
use std::{io, pin::pin, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    sync::mpsc,
    task::JoinSet,
    time::{Instant, Interval, MissedTickBehavior, interval_at, timeout},
};

/// Maximum number of queued responses, and of queued notifications. If a queue is full, its senders wait.
const BUFFER_MESSAGES: usize = 256;
/// Bytes that are read and decoded at once.
const READ_BYTES: usize = 8 * 1024;
/// Interval at which the client receives a ping.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// A client is disconnected if nothing arrives from it for this long, not even a pong.
const MAX_SILENCE: Duration = Duration::from_secs(60);
/// Maximum wait for the client to close after the close frame. A socket that is closed with unread bytes is reset, and
/// the client might then not receive the close frame.
const MAX_CLOSE_WAIT: Duration = Duration::from_secs(1);

/// The reason why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The client has disconnected.
    Lost,
    /// The server sends a close frame with this status.
    Close(Option<u16>),
    /// The node is stopping.
    Stopped,
}

/// The state of the reader of a connection.
struct Session {
    front: Arc<Front>,
    client: Arc<Client>,
    subscriber: Arc<Subscriber>,
    decoder: Decoder,
    /// Bytes that are not decoded, because too many messages are unanswered.
    undecoded: Bytes,
    outgoing: mpsc::Sender<Outgoing>,
    /// Messages that are being answered.
    calls: JoinSet<()>,
    pings: Interval,
    last_received: Instant,
}

/// Serves a WebSocket until it is closed or the node stops.
pub(super) async fn serve(
    front: Arc<Front>,
    client: Arc<Client>,
    upgrade: OnUpgrade,
    mut stopping: Stopping,
) {
    let address = client.address;
    let (socket, read) = match upgrade.await.map(Upgraded::downcast::<TokioIo<Connection>>) {
        Ok(Ok(parts)) => (parts.io.into_inner(), parts.read_buf),
        Ok(Err(_)) => unreachable!("hyper returns the socket that it was given"),
        Err(error) => return tracing::debug!(%error, %address, "a WebSocket was not opened"),
    };
    let (mut input, output) = tokio::io::split(socket);
    let (outgoing, responses) = mpsc::channel(BUFFER_MESSAGES);
    let (sink, pushed) = mpsc::channel(BUFFER_MESSAGES);
    let flow = Arc::clone(&client.flow);
    let mut writing = pin!(output::write(output, &flow, responses, pushed));
    let mut session = Session::new(front, client, sink, read, outgoing);
    let end = tokio::select! {
        end = session.read(&mut input, &mut stopping) => end,
        ended = &mut writing => return log_end(&ended, address),
    };
    let status = match end {
        End::Lost => return,
        End::Close(status) => status,
        End::Stopped => tokio::select! {
            () = session.finish_calls() => Some(frames::GOING_AWAY),
            ended = &mut writing => return log_end(&ended, address),
        },
    };
    let closing = session.outgoing.send(Outgoing::Close(status));
    let (ended, _) = tokio::join!(writing, closing);
    log_end(&ended, address);
    // Calls in flight end here.
    drop(session);
    // The result does not matter: after this time, the socket is closed in any case.
    let _ = timeout(MAX_CLOSE_WAIT, discard(&mut input)).await;
}

fn log_end(ended: &io::Result<()>, address: std::net::IpAddr) {
    if let Err(error) = ended {
        tracing::debug!(%error, %address, "a WebSocket ended early");
    }
}

/// Reads until the client closes.
async fn discard(input: &mut (impl AsyncRead + Unpin)) {
    let mut bytes = [0; 512];
    while input.read(&mut bytes).await.is_ok_and(|count| count > 0) {}
}

impl Session {
    fn new(
        front: Arc<Front>,
        client: Arc<Client>,
        sink: mpsc::Sender<Box<serde_json::value::RawValue>>,
        read: Bytes,
        outgoing: mpsc::Sender<Outgoing>,
    ) -> Self {
        let subscriber = Subscriber::new(
            front.methods.clone(),
            Arc::clone(&front.subscription_ids),
            sink,
            front.max_subscriptions,
            Arc::clone(&client),
        );
        let now = Instant::now();
        let mut pings = interval_at(now + PING_INTERVAL, PING_INTERVAL);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            decoder: Decoder::new(front.max_request_bytes),
            subscriber: Arc::new(subscriber),
            front,
            client,
            undecoded: read,
            outgoing,
            calls: JoinSet::new(),
            pings,
            last_received: now,
        }
    }

    /// Reads messages and begins to answer them.
    async fn read(&mut self, input: &mut (impl AsyncRead + Unpin), stopping: &mut Stopping) -> End {
        let client = Arc::clone(&self.client);
        let mut buffer = [0; READ_BYTES];
        loop {
            if let Some(end) = self.decode().await {
                return end;
            }
            let full = client.flow.is_full();
            tokio::select! {
                biased;
                () = stopping.wait() => return End::Stopped,
                Some(ended) = self.calls.join_next() => {
                    if let Err(error) = ended {
                        tracing::error!(%error, "a WebSocket message was not answered");
                    }
                }
                () = client.flow.until_not_full(), if full => {}
                _ = self.pings.tick() => {
                    // If the socket is not read, the client's pong may be among the unread bytes.
                    if !full && self.last_received.elapsed() > MAX_SILENCE {
                        return End::Lost;
                    }
                    // This fails if the queue is full. The socket disconnects a client that does not read for long.
                    let _ = self.outgoing.try_send(Outgoing::Control(frames::ping()));
                }
                count = input.read(&mut buffer), if !full && self.undecoded.is_empty() => {
                    let Ok(count @ 1..) = count else { return End::Lost };
                    self.last_received = Instant::now();
                    self.undecoded = Bytes::copy_from_slice(&buffer[..count]);
                }
            }
        }
    }

    /// Decodes the bytes that were read, as far as [`Flow`] allows.
    async fn decode(&mut self) -> Option<End> {
        while !self.undecoded.is_empty() && !self.client.flow.is_full() {
            let mut rest = &self.undecoded[..];
            let event = self.decoder.next(&mut rest);
            let decoded = self.undecoded.len() - rest.len();
            self.undecoded.advance(decoded);
            self.client.flow.unfinished(self.decoder.unfinished_bytes());
            match event {
                Ok(None) => {}
                Ok(Some(Event::Message(message))) => self.begin(message),
                Ok(Some(Event::Ping(payload))) => {
                    let pong = Outgoing::Control(frames::pong(&payload));
                    if self.outgoing.send(pong).await.is_err() {
                        return Some(End::Lost);
                    }
                }
                Ok(Some(Event::Pong)) => {}
                Ok(Some(Event::Close(status))) => return Some(End::Close(status)),
                Err(violation) => {
                    tracing::debug!(%violation, address = %self.client.address, "a WebSocket is closed");
                    return Some(End::Close(Some(violation.status())));
                }
            }
        }
        None
    }

    /// Begins to answer a message.
    fn begin(&mut self, message: Bytes) {
        let unanswered = Flow::received(&self.client.flow, message.len());
        let (front, client) = (Arc::clone(&self.front), Arc::clone(&self.client));
        let transport = Transport::WebSocket(Arc::clone(&self.subscriber));
        let outgoing = self.outgoing.clone();
        self.calls.spawn(async move {
            let reply = match front.respond(&client, message, transport).await {
                Respond::Reply(reply) | Respond::TooMany(reply) => reply,
                Respond::Nothing => return,
            };
            let (pieces, subscriptions) = reply.into_pieces();
            let response = Outgoing::Response { pieces, message: unanswered, subscriptions };
            // This fails if the connection has ended.
            let _ = outgoing.send(response).await;
        });
    }

    /// Waits for the calls in flight.
    async fn finish_calls(&mut self) {
        while self.calls.join_next().await.is_some() {}
    }
}
