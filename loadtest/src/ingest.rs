//! The TCP ingest from the client's side: frames out, answers in, many in flight.

use anyhow::{Context, bail};
use hdrhistogram::Histogram;
use std::{
    collections::VecDeque,
    io::{BufReader, BufWriter, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::mpsc,
    time::{Duration, Instant},
};

/// Frames sent and not answered yet, per connection.
const IN_FLIGHT: usize = 4096;
/// Longest latency told apart, in microseconds: a minute.
const LATENCY_US_MAX: u64 = 60_000_000;

/// What one connection did.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) accepted: u64,
    /// The first few refusals, in words.
    pub(crate) refused: Vec<String>,
    pub(crate) refused_count: u64,
    /// From writing a frame to reading its answer, in microseconds.
    pub(crate) latency_us: Histogram<u64>,
}

/// Sends every transaction over one connection and reads every answer.
pub(crate) fn send(address: SocketAddr, txs: &[Vec<u8>]) -> anyhow::Result<Sent> {
    let stream = TcpStream::connect(address)
        .with_context(|| format!("no node takes transactions at {address}"))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let reading = stream.try_clone()?;
    let (credit, credits) = mpsc::sync_channel(IN_FLIGHT);
    std::thread::scope(|scope| {
        let answers = scope.spawn(move || read_answers(reading, txs.len(), &credits));
        let mut out = BufWriter::new(&stream);
        for tx in txs {
            if let Err(mpsc::TrySendError::Full(now)) = credit.try_send(Instant::now()) {
                out.flush()?;
                if credit.send(now).is_err() {
                    break; // The reader has failed and says why.
                }
            }
            out.write_all(&u32::try_from(tx.len())?.to_be_bytes())?;
            out.write_all(tx)?;
        }
        out.flush()?;
        answers.join().map_err(|_| anyhow::anyhow!("the reader of answers panicked"))?
    })
}

fn read_answers(
    stream: TcpStream,
    count: usize,
    sent: &mpsc::Receiver<Instant>,
) -> anyhow::Result<Sent> {
    let mut input = BufReader::new(stream);
    let latency_us = Histogram::new_with_max(LATENCY_US_MAX, 3)?;
    let mut result = Sent { accepted: 0, refused: Vec::new(), refused_count: 0, latency_us };
    let mut waiting = VecDeque::new();
    for _ in 0..count {
        let mut status = [0];
        input.read_exact(&mut status).context("the node closed the connection")?;
        match status {
            [0] => {
                input.read_exact(&mut [0; 32])?;
                result.accepted += 1;
            }
            [1] => {
                let mut length = [0; 4];
                input.read_exact(&mut length)?;
                let mut text = vec![0; u32::from_be_bytes(length) as usize];
                input.read_exact(&mut text)?;
                result.refused_count += 1;
                if result.refused.len() < 3 {
                    result.refused.push(String::from_utf8_lossy(&text).into_owned());
                }
            }
            [other] => bail!("unknown status byte {other}"),
        }
        waiting.extend(sent.try_iter());
        let Some(at) = waiting.pop_front() else { bail!("an answer to nothing sent") };
        result.latency_us.saturating_record(at.elapsed().as_micros() as u64);
    }
    Ok(result)
}
