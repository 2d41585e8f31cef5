//! Files of signed transactions, so that signing is not measured. They are written and read in
//! chunks, because a file may be larger than memory. Equal settings produce equal files.
//!
//! Layout: magic, 4-byte length and JSON of the header, then chunks. A chunk consists of its lane,
//! number of transactions and number of bytes (4 bytes each, big-endian), and each transaction with
//! its 4-byte length. A lane is a share of the senders; its transactions are in nonce order, so
//! sending a lane over one connection preserves the order of every sender. Chunks of the lanes
//! alternate.

use crate::{fund::Senders, tx_template::Load};
use alloy_primitives::U256;
use anyhow::{Context, bail};
use indicatif::ProgressBar;
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    fs::File,
    io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write},
    os::unix::fs::FileExt,
    sync::mpsc,
};

const MAGIC: &[u8; 8] = b"LOADTX02";
/// Maximum number of lanes. It is also the maximum number of connections that send a file.
pub(crate) const MAX_LANES: usize = 64;
/// Maximum transactions per chunk. A reader holds one chunk per connection.
const MAX_CHUNK_TXS: u64 = 512;
/// Bytes of a chunk header.
const CHUNK_HEAD: u64 = 12;
/// Maximum accepted bytes of the file header, and of a chunk.
const MAX_PART_BYTES: u32 = 64 * 1024 * 1024;
/// Maximum number of signed chunks that a signing thread queues for the writer.
const MAX_AHEAD_CHUNKS: usize = 4;

/// The header of a file.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub(crate) chain_id: u64,
    pub(crate) load: Load,
    pub(crate) count: u64,
    pub(crate) senders: usize,
    pub(crate) seed: u64,
    /// The first nonce of each sender.
    pub(crate) first_nonces: Vec<u64>,
}

impl Header {
    pub(crate) fn lanes(&self) -> usize {
        MAX_LANES.min(self.senders)
    }

    fn json(&self) -> Value {
        json!({
            "chainId": self.chain_id, "load": self.load.name(), "count": self.count,
            "senders": self.senders, "seed": self.seed, "firstNonces": self.first_nonces,
        })
    }

    fn from_json(json: &Value) -> Option<Self> {
        let number = |name: &str| json[name].as_u64();
        let nonces = json["firstNonces"].as_array()?.iter();
        let header = Self {
            chain_id: number("chainId")?,
            load: Load::from_name(json["load"].as_str()?)?,
            count: number("count")?,
            senders: number("senders")? as usize,
            seed: number("seed")?,
            first_nonces: nonces.map(Value::as_u64).collect::<Option<_>>()?,
        };
        let whole = header.senders > 0 && header.senders == header.first_nonces.len();
        whole.then_some(header)
    }

    /// Transactions in a lane. The numbers of transactions of two senders differ by at most one.
    fn in_lane(&self, lane: usize) -> u64 {
        let (count, senders) = (self.count, self.senders as u64);
        let one_more = (count % senders).saturating_sub(lane as u64);
        self.lane_senders(lane) * (count / senders) + one_more.div_ceil(self.lanes() as u64)
    }

    /// Returns the number of senders in a lane: every [`Self::lanes`]th sender.
    fn lane_senders(&self, lane: usize) -> u64 {
        ((self.senders - lane).div_ceil(self.lanes())) as u64
    }

    /// Returns the nonce of a sender after all transactions are mined.
    pub(crate) fn last_nonce(&self, sender: usize) -> u64 {
        let (count, senders) = (self.count, self.senders as u64);
        self.first_nonces[sender] + count / senders + u64::from((sender as u64) < count % senders)
    }
}

/// The transactions of one chunk.
#[derive(Clone, Copy, Debug)]
struct ChunkSpec {
    lane: usize,
    /// Range of its transactions within the lane; `to` is exclusive.
    from: u64,
    to: u64,
}

fn chunk_specs(header: &Header) -> impl Iterator<Item = ChunkSpec> + Clone {
    let rounds = header.in_lane(0).div_ceil(MAX_CHUNK_TXS);
    let lanes: Vec<_> = (0..header.lanes()).map(|lane| (lane, header.in_lane(lane))).collect();
    (0..rounds).flat_map(move |round| {
        let spec = move |(lane, txs): (usize, u64)| {
            let from = round * MAX_CHUNK_TXS;
            let to = (from + MAX_CHUNK_TXS).min(txs);
            (from < to).then_some(ChunkSpec { lane, from, to })
        };
        lanes.clone().into_iter().filter_map(spec)
    })
}

/// Signs and writes all transactions that the header describes, on all cores.
pub(crate) fn write(
    file: &mut File,
    header: &Header,
    senders: &Senders,
    bar: &ProgressBar,
) -> anyhow::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let text = header.json().to_string();
    out.write_all(MAGIC)?;
    out.write_all(&u32::try_from(text.len())?.to_be_bytes())?;
    out.write_all(text.as_bytes())?;
    bar.set_length(header.count);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let signed: Vec<_> = (0..threads)
            .map(|thread| {
                let (chunks, signed) = mpsc::sync_channel(MAX_AHEAD_CHUNKS);
                let own = chunk_specs(header).skip(thread).step_by(threads);
                scope.spawn(move || {
                    for spec in own {
                        // The receiver is dropped if writing has failed; the writer returns the error.
                        if chunks.send(sign(header, senders, spec)).is_err() {
                            return;
                        }
                    }
                });
                signed
            })
            .collect();
        for (number, spec) in chunk_specs(header).enumerate() {
            let chunk = signed[number % threads].recv().context("a signing thread panicked")?;
            out.write_all(&chunk)?;
            bar.inc(spec.to - spec.from);
        }
        Ok(out.flush()?)
    })
}

fn sign(header: &Header, senders: &Senders, spec: ChunkSpec) -> Vec<u8> {
    let mut chunk = vec![0; CHUNK_HEAD as usize];
    let in_lane = header.lane_senders(spec.lane);
    for rank in spec.from..spec.to {
        let sender = spec.lane + (rank % in_lane) as usize * header.lanes();
        let nonce = header.first_nonces[sender] + rank / in_lane;
        // Unique index of the transaction in the file.
        let index = rank * header.lanes() as u64 + spec.lane as u64;
        let to = senders.recipient(header.seed, index);
        let key = &senders.keys[sender];
        let raw = match header.load.is_token(rank) {
            true => senders.template.token_transfer(key, nonce, to, 1),
            false => senders.template.transfer(key, nonce, to, U256::ONE),
        };
        chunk.extend_from_slice(&(raw.len() as u32).to_be_bytes());
        chunk.extend_from_slice(&raw);
    }
    let bytes = (chunk.len() as u64 - CHUNK_HEAD) as u32;
    chunk[..4].copy_from_slice(&(spec.lane as u32).to_be_bytes());
    chunk[4..8].copy_from_slice(&((spec.to - spec.from) as u32).to_be_bytes());
    chunk[8..12].copy_from_slice(&bytes.to_be_bytes());
    chunk
}

/// Reads a file: each connection sends the transactions of its lanes.
#[derive(Debug)]
pub(crate) struct Reader {
    file: File,
    pub(crate) header: Header,
    /// By connection: its chunks, and its position in the current one.
    shares: Vec<Share>,
}

#[derive(Debug, Default)]
struct Share {
    chunks: VecDeque<(u64, u32)>,
    chunk: Vec<u8>,
    at: usize,
}

impl Reader {
    /// Opens a file for this number of connections and reads the headers of its chunks.
    pub(crate) fn open(mut file: File, connections: usize) -> anyhow::Result<Self> {
        file.seek(SeekFrom::Start(0))?;
        let mut input = BufReader::new(&file);
        let mut magic = [0; 8];
        input.read_exact(&mut magic).context("the file is too short")?;
        if &magic != MAGIC {
            bail!("not a file of signed transactions; create one with `loadtest sign`");
        }
        let length = read_u32(&mut input)?;
        if length > MAX_PART_BYTES {
            bail!("the header has {length} bytes, the maximum is {MAX_PART_BYTES}");
        }
        let mut text = vec![0; length as usize];
        input.read_exact(&mut text).context("the file ends inside its header")?;
        let json = serde_json::from_slice(&text).context("the file's header is not JSON")?;
        let header = Header::from_json(&json).context("the file's header is incomplete")?;
        if connections > header.lanes() {
            bail!(
                "--connections must be at most {}, the number of lanes in the file, got {connections}",
                header.lanes()
            );
        }
        let mut shares: Vec<Share> = (0..connections).map(|_| Share::default()).collect();
        let mut at = 12 + u64::from(length);
        let mut left = header.count;
        while left > 0 {
            let truncated =
                || format!("the file ends at byte {at}, {left} transactions are missing");
            let lane = read_u32(&mut input).with_context(truncated)?;
            let count = read_u32(&mut input).with_context(truncated)?;
            let bytes = read_u32(&mut input).with_context(truncated)?;
            if bytes > MAX_PART_BYTES {
                bail!("the chunk at byte {at} has {bytes} bytes, the maximum is {MAX_PART_BYTES}");
            }
            left = left
                .checked_sub(u64::from(count))
                .context("the chunks have more transactions than the header says")?;
            shares[lane as usize % connections].chunks.push_back((at + CHUNK_HEAD, bytes));
            at += CHUNK_HEAD + u64::from(bytes);
            input.seek_relative(i64::from(bytes))?;
        }
        Ok(Self { file, header, shares })
    }

    /// Returns the next transaction of a connection, or `None` after the last one.
    pub(crate) fn next(&mut self, connection: usize) -> anyhow::Result<Option<&[u8]>> {
        let share = &mut self.shares[connection];
        if share.at >= share.chunk.len() {
            let Some((offset, bytes)) = share.chunks.pop_front() else { return Ok(None) };
            share.chunk.resize(bytes as usize, 0);
            self.file.read_exact_at(&mut share.chunk, offset).context("the file has shrunk")?;
            share.at = 0;
        }
        let rest = &share.chunk[share.at..];
        let tx = rest
            .split_first_chunk::<4>()
            .and_then(|(length, rest)| rest.get(..u32::from_be_bytes(*length) as usize));
        let tx = tx.context("a chunk of the file is damaged")?;
        share.at += 4 + tx.len();
        Ok(Some(tx))
    }
}

fn read_u32(input: &mut impl Read) -> std::io::Result<u32> {
    let mut bytes = [0; 4];
    input.read_exact(&mut bytes)?;
    Ok(u32::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fund::Recipients,
        keys::{self, Signer},
        tx_template::TxTemplate,
    };
    use alloy_consensus::{Transaction, TxEnvelope, transaction::SignerRecoverable};
    use alloy_eips::eip2718::Decodable2718;
    use alloy_primitives::Address;
    use std::collections::HashMap;

    fn file(header: &Header) -> File {
        let template = TxTemplate {
            chain_id: header.chain_id,
            fee_cap: 10,
            priority_fee: 1,
            token: Address::ZERO,
            signer: Signer::new(1),
        };
        let keys = keys::senders(header.seed, header.senders).into();
        let senders = Senders { keys, template, recipients: Recipients::Generated(100) };
        let mut file = tempfile::tempfile().unwrap();
        write(&mut file, header, &senders, &ProgressBar::hidden()).unwrap();
        file
    }

    fn header(count: u64, senders: usize) -> Header {
        let first_nonces = (0..senders as u64).collect();
        Header { chain_id: 5, load: Load::Mixed, count, senders, seed: 3, first_nonces }
    }

    #[test]
    fn connections_send_in_nonce_order() {
        for (count, senders, connections) in [(2000, 70, 8), (1, 1, 1), (700, 3, 2), (50, 90, 4)] {
            let header = header(count, senders);
            let mut reader = Reader::open(file(&header), connections).unwrap();
            let mut next: HashMap<Address, (usize, u64)> = HashMap::new();
            let keys = keys::senders(3, senders);
            let mut seen = 0;
            for connection in 0..connections {
                while let Some(raw) = reader.next(connection).unwrap() {
                    let tx = TxEnvelope::decode_2718_exact(raw).unwrap();
                    let from = tx.recover_signer().unwrap();
                    let sender = keys.iter().position(|key| key.address == from).unwrap();
                    let first = (connection, header.first_nonces[sender]);
                    let (owner, nonce) = next.entry(from).or_insert(first);
                    assert_eq!((*owner, *nonce), (connection, tx.nonce()));
                    *nonce += 1;
                    seen += 1;
                }
            }
            assert_eq!(seen, count);
            for (number, key) in keys.iter().enumerate() {
                let (first, last) = (header.first_nonces[number], header.last_nonce(number));
                let sent = next.get(&key.address).map_or(first, |(_, nonce)| *nonce);
                assert_eq!(sent, last);
            }
        }
    }

    #[test]
    fn equal_settings_produce_equal_files() {
        let read = |mut file: File| {
            let mut bytes = Vec::new();
            file.seek(SeekFrom::Start(0)).unwrap();
            file.read_to_end(&mut bytes).unwrap();
            bytes
        };
        assert_eq!(read(file(&header(1500, 5))), read(file(&header(1500, 5))));
    }

    #[test]
    fn damaged_file_and_too_many_connections_are_refused() {
        let open_error = |file| Reader::open(file, 1).unwrap_err().to_string();
        assert!(open_error(tempfile::tempfile().unwrap()).contains("too short"));
        let mut other = tempfile::tempfile().unwrap();
        other.write_all(b"something else").unwrap();
        assert!(open_error(other).contains("loadtest sign"));
        let short = file(&header(1000, 5));
        let length = short.metadata().unwrap().len();
        short.set_len(length - 40_000).unwrap();
        assert!(open_error(short).contains("transactions are missing"));
        let error = Reader::open(file(&header(10, 3)), 4).unwrap_err().to_string();
        assert!(error.contains("at most 3"), "{error}");
    }
}
