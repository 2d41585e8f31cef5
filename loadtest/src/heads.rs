//! Records the heads that a node reports, both to a subscription and to polling, until its process ends.

use crate::{http::Url, rpc::Rpc, ws};
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

/// Read timeout of the subscription, after which `listen` checks whether the run has ended.
const READ_TIMEOUT: Duration = Duration::from_millis(50);
/// Polling interval of the head.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Hashes of the reported blocks by number.
#[derive(Debug, Default)]
pub(crate) struct ReportedHeads(Mutex<BTreeMap<u64, String>>);

impl ReportedHeads {
    /// Records a JSON block. Fails if another hash was reported for its number.
    fn record(&self, block: &Value) -> anyhow::Result<()> {
        let number = crate::rpc::quantity(&block["number"])?;
        let hash = block["hash"].as_str().context("a block without a hash")?.to_owned();
        let mut heads = self.0.lock().expect("nothing panics with the lock");
        let known = heads.entry(number).or_insert_with(|| hash.clone());
        if *known != hash {
            bail!("block {number} was reported as {known}, and later as {hash}");
        }
        Ok(())
    }

    pub(crate) fn into_hashes(self) -> BTreeMap<u64, String> {
        self.0.into_inner().expect("nothing panics with the lock")
    }

    /// Polls the head until `done` is set or a call fails because the node has ended.
    pub(crate) fn poll(&self, rpc: &Rpc, done: &AtomicBool) -> anyhow::Result<()> {
        while !done.load(Relaxed) {
            let Ok(block) = rpc.call("eth_getBlockByNumber", json!(["latest", false])) else {
                return Ok(());
            };
            self.record(&block)?;
            std::thread::park_timeout(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Reads notifications until `done` is set or the node has ended.
    pub(crate) fn listen(&self, mut socket: Subscription, done: &AtomicBool) -> anyhow::Result<()> {
        while !done.load(Relaxed) {
            match socket.read() {
                Ok(Some(message)) if message["method"] == "eth_subscription" => {
                    self.record(&message["params"]["result"])?;
                }
                Ok(_) => {}
                // The node has ended. Earlier messages have been recorded.
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }
}

/// A subscription to new blocks.
#[derive(Debug)]
pub(crate) struct Subscription {
    stream: TcpStream,
    input: Vec<u8>,
}

impl Subscription {
    /// Subscribes, and waits for the confirmation.
    pub(crate) fn open(url: &Url) -> anyhow::Result<Self> {
        let mut stream = TcpStream::connect(url.address)
            .with_context(|| format!("cannot connect to {}", url.address))?;
        let input = ws::handshake(&mut stream, url)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        let params = json!(["newHeads"]);
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": params});
        let mut out = Vec::new();
        ws::append_text(&mut out, call.to_string().as_bytes());
        stream.write_all(&out)?;
        let mut socket = Self { stream, input };
        loop {
            // Notifications that arrive before the response can be ignored, because others follow.
            let Some(response) = socket.read()?.filter(|message| message.get("method").is_none())
            else {
                continue;
            };
            match response.get("result") {
                Some(_) => return Ok(socket),
                None => bail!("{}: eth_subscribe: {response}", url.text),
            }
        }
    }

    /// Returns the next message, or `None` if none arrives within the read timeout.
    fn read(&mut self) -> anyhow::Result<Option<Value>> {
        loop {
            if let Some((length, frame)) = ws::read(&self.input)? {
                let message = match frame {
                    ws::Frame::Message(range) => Some(serde_json::from_slice(&self.input[range])?),
                    ws::Frame::Joined(message) => Some(serde_json::from_slice(&message)?),
                    ws::Frame::Close => bail!("the node closed the subscription"),
                    ws::Frame::Ping(range) => {
                        let mut out = Vec::new();
                        ws::append_pong(&mut out, &self.input[range]);
                        self.stream.write_all(&out)?;
                        None
                    }
                    ws::Frame::Pong => None,
                };
                self.input.drain(..length);
                if message.is_some() {
                    return Ok(message);
                }
                continue;
            }
            let mut buffer = [0; 16 * 1024];
            match self.stream.read(&mut buffer) {
                Ok(0) => bail!("the node closed the connection"),
                Ok(count) => self.input.extend_from_slice(&buffer[..count]),
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}
