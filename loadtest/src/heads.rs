//! What a node tells of its newest blocks, as long as it lives: over a subscription, and to whoever
//! asks.

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

/// Longest wait for something to read before looking whether to go on.
const READ_TIMEOUT: Duration = Duration::from_millis(50);
/// Time between two questions for the newest block.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Hashes of blocks by number, as they were told.
#[derive(Debug, Default)]
pub(crate) struct ReportedHeads(Mutex<BTreeMap<u64, String>>);

impl ReportedHeads {
    /// Takes a block as JSON has it; fails when another one was told in its place.
    fn record(&self, block: &Value) -> anyhow::Result<()> {
        let number = crate::rpc::quantity(&block["number"])?;
        let hash = block["hash"].as_str().context("a block without a hash")?.to_owned();
        let mut heads = self.0.lock().expect("nothing panics with the lock");
        let known = heads.entry(number).or_insert_with(|| hash.clone());
        if *known != hash {
            bail!("block {number} was {known}, and then {hash}");
        }
        Ok(())
    }

    /// All that was told.
    pub(crate) fn into_hashes(self) -> BTreeMap<u64, String> {
        self.0.into_inner().expect("nothing panics with the lock")
    }

    /// Asks again and again until `over`, or the node is gone.
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

    /// Listens until `over`, or the node is gone.
    pub(crate) fn listen(&self, mut socket: Subscription, done: &AtomicBool) -> anyhow::Result<()> {
        while !done.load(Relaxed) {
            match socket.read() {
                Ok(Some(message)) if message["method"] == "eth_subscription" => {
                    self.record(&message["params"]["result"])?;
                }
                Ok(_) => {}
                // The node is gone: what came before it went has been taken.
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
    /// Subscribes, and waits until the node has said so.
    pub(crate) fn open(url: &Url) -> anyhow::Result<Self> {
        let mut stream = TcpStream::connect(url.address)
            .with_context(|| format!("nothing answers at {}", url.address))?;
        let input = ws::handshake(&mut stream, url)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        let params = json!(["newHeads"]);
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": params});
        let mut out = Vec::new();
        ws::append_text(&mut out, call.to_string().as_bytes());
        stream.write_all(&out)?;
        let mut socket = Self { stream, input };
        loop {
            // Blocks may be told of before the answer; there will be others.
            let Some(answer) = socket.read()?.filter(|message| message.get("method").is_none())
            else {
                continue;
            };
            match answer.get("result") {
                Some(_) => return Ok(socket),
                None => bail!("{}: eth_subscribe: {answer}", url.text),
            }
        }
    }

    /// The next message; none if there is none yet.
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
