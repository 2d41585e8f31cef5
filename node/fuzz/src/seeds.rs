//! Writes the corpora of the fuzz targets from the data of the tests. Run this program in the folder of its package.
//!
//! Each file is named by a hash of its contents, as in the corpora of libFuzzer, so that a second run adds no file.

use alloy_primitives::{B256, Bytes, hex, keccak256};
use alloy_rlp::Header;
use base64::{Engine, engine::general_purpose::STANDARD};
use chain::block::Block;
use mempool::journal::Journal;
use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
};
use transactions::{Senders, cosmos::TX_TYPE};
use verify::{Backend, Recoverer};

const TESTS: &str = "../evmd/tests";
const CHAIN_ID: u64 = 262_144;
/// Maximum number of transactions of one journal.
const JOURNAL_TXS: usize = 3;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let tests = Path::new(TESTS);
    let blocks = blocks(tests)?;
    let transactions = transactions(tests, &blocks)?;
    write("block", &blocks)?;
    write("transaction", &transactions)?;
    write("envelope", &requests(tests)?)?;
    write("journal", &journals(&transactions)?)?;
    write("run_rows", &run_rows())?;
    write("rest", &rest_requests(tests)?)
}

fn write(target: &str, seeds: &[Vec<u8>]) -> Result<()> {
    let folder = Path::new("corpus").join(target);
    fs::create_dir_all(&folder)?;
    for seed in seeds {
        fs::write(folder.join(hex::encode(&keccak256(seed)[..20])), seed)?;
    }
    println!("{target}: {} seeds", seeds.len());
    Ok(())
}

/// The contents of the files in a folder whose names have this extension.
fn texts(folder: &Path, extension: &str) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder)?.collect::<std::io::Result<Vec<_>>>()?;
    let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|found| found == extension));
    paths.sort();
    Ok(paths.into_iter().map(fs::read_to_string).collect::<std::io::Result<_>>()?)
}

/// The string values of this key anywhere in a JSON text.
fn strings<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    let mut found = Vec::new();
    for part in text.split(&format!("\"{key}\"")).skip(1) {
        let value = part.trim_start_matches([':', ' ']).strip_prefix('"');
        found.extend(value.and_then(|value| value.split('"').next()));
    }
    found
}

/// The blocks of the sample chain and of the sample blockchain tests.
fn blocks(tests: &Path) -> Result<Vec<Vec<u8>>> {
    let samples = tests.join("fixtures/samples");
    let chain = fs::read(samples.join("every_fork/chain.rlp"))?;
    let mut blocks = Vec::new();
    let mut rest = chain.as_slice();
    while !rest.is_empty() {
        let mut after = rest;
        let header = Header::decode(&mut after)?;
        let (block, following) = rest.split_at(header.length_with_payload());
        blocks.push(block.to_vec());
        rest = following;
    }
    for text in texts(&samples.join("blockchain_tests"), "json")? {
        blocks.extend(strings(&text, "rlp").into_iter().flat_map(hex::decode));
    }
    Ok(blocks)
}

/// The different transactions of the blocks, of the sample state tests and of the transcripts.
fn transactions(tests: &Path, blocks: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
    let mut transactions = Vec::new();
    for block in blocks {
        if let Ok(block) = Block::decode(&Bytes::copy_from_slice(block)) {
            transactions.extend(block.transactions.iter().map(|tx| tx.to_vec()));
        }
    }
    for text in texts(&tests.join("fixtures/samples/state_tests"), "json")? {
        transactions.extend(strings(&text, "txbytes").into_iter().flat_map(hex::decode));
    }
    for text in texts(&tests.join("transcripts"), "txt")? {
        let lines = text.lines().filter_map(|line| line.strip_prefix("< 0x"));
        transactions.extend(lines.flat_map(hex::decode));
        for bytes in strings(&text, "tx_bytes") {
            let cosmos = STANDARD.decode(bytes)?;
            transactions.push([vec![TX_TYPE], cosmos].concat());
        }
    }
    transactions.sort();
    transactions.dedup();
    Ok(transactions)
}

/// The recorded JSON-RPC requests, and a batch of the first three.
fn requests(tests: &Path) -> Result<Vec<Vec<u8>>> {
    let texts = texts(&tests.join("rpc_io"), "io")?;
    let lines = texts.iter().flat_map(|text| text.lines());
    let mut requests: Vec<_> =
        lines.filter_map(|line| line.strip_prefix(">> ")).map(|line| line.into()).collect();
    let batch = requests.iter().take(3).map(Vec::as_slice).collect::<Vec<_>>().join(&b", "[..]);
    requests.push([b"[".as_slice(), &batch, b"]"].concat());
    Ok(requests)
}

/// Journals of the transactions, and inputs from which `damaged_journal` generates damaged journals.
fn journals(transactions: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
    let folder = tempfile::tempdir()?;
    let mut senders = Senders::of_chain(Recoverer::new(Backend::detect()?), CHAIN_ID);
    let raw: Vec<_> = transactions.iter().map(|raw| Bytes::copy_from_slice(raw)).collect();
    let recovered: Vec<_> = senders.recover(&raw).flatten().collect();
    let mut seeds = Vec::new();
    for (number, txs) in recovered.chunks(JOURNAL_TXS).enumerate() {
        let path = folder.path().join(number.to_string());
        let (mut journal, _) = Journal::open(&path, false, B256::ZERO)?;
        txs.iter().for_each(|tx| {
            journal.push(tx);
        });
        journal.write()?;
        seeds.push(fs::read(&path)?);
    }
    for raw in transactions {
        let damage = [0, 40, 2, 0x81];
        let record = raw.iter().copied().take(3 * 60).chain([0; 3]);
        seeds.push(damage.into_iter().chain([60]).chain(record).chain([1, 7, 8, 9]).collect());
    }
    Ok(seeds)
}

/// A page, a directory, and the entries of some pages. `storage/src/index/runs/` documents their layouts.
fn run_rows() -> Vec<Vec<u8>> {
    let page = [[2, 0, 2, 0, 3, 0, 7].as_slice(), &[0, 1, 9, 0, 2, 8, 8]].concat();
    let directory = vec![44, 2, 2, 1, 5, 0, 2, 6, 1, 1, 9, 7, 2, 3, 1, 2, 3, 0, 0];
    let entries = (0..120_u8).flat_map(|n| [vec![n, 1, 2, 3, 60], vec![n; 60]].concat()).collect();
    vec![page, directory, entries]
}

/// The requests in the transcript of the REST server.
fn rest_requests(tests: &Path) -> Result<Vec<Vec<u8>>> {
    let text = fs::read_to_string(tests.join("transcripts/rest.txt"))?;
    let mut seeds = Vec::new();
    for line in text.lines() {
        if let Some(path) = line.strip_prefix("> GET ") {
            seeds.extend(path.split(' ').next().map(|path| path.as_bytes().to_vec()));
        } else if let Some(request) = line.strip_prefix("> POST ") {
            seeds.push(request.replacen(' ', "\n", 1).into_bytes());
        }
    }
    Ok(seeds)
}
