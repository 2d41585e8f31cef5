//! Scenario `tx`: transfers over the TCP ingest, signed beforehand, followed until mined.

use crate::{
    ingest,
    rpc::Rpc,
    sign::{self, Sender},
};
use alloy_primitives::Address;
use anyhow::{Context, bail};
use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use serde_json::json;
use std::{
    io::{IsTerminal, Write},
    net::SocketAddr,
    time::{Duration, Instant},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where the node takes raw transactions
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8547")]
    ingest: SocketAddr,
    /// The node's JSON-RPC
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8545")]
    rpc: String,
    /// Transfers in all, spread over the ten development accounts
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    count: u64,
    /// Longest wait for the chain to have them all, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    patience: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Time between two looks at the chain.
const LOOK: Duration = Duration::from_millis(20);

/// One sender's share of the load.
struct Share {
    sender: Sender,
    first_nonce: u64,
    txs: Vec<Vec<u8>>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let rpc = Rpc::new(&args.rpc);
    let shares = prepare(args, &rpc)?;
    let first_block = rpc.block_number()? + 1;
    let begun = Instant::now();
    let sent: Vec<_> = std::thread::scope(|scope| {
        let sending: Vec<_> = shares
            .iter()
            .map(|share| scope.spawn(|| ingest::send(args.ingest, &share.txs)))
            .collect();
        sending.into_iter().map(|thread| thread.join()).collect()
    });
    let mut latency_us: Histogram<u64> = Histogram::new_with_max(60_000_000, 3)?;
    let (mut accepted, mut refused, mut reasons) = (0, 0, Vec::new());
    for sent in sent {
        let sent = sent.map_err(|_| anyhow::anyhow!("a sender panicked"))??;
        accepted += sent.accepted;
        refused += sent.refused_count;
        reasons.extend(sent.refused);
        latency_us.add(&sent.latency_us)?;
    }
    let submitted = begun.elapsed();
    if refused > 0 {
        bail!("{refused} transactions were refused, for example: {}", reasons.join("; "));
    }
    wait_until_mined(&rpc, &shares, Duration::from_secs(args.patience))?;
    let mined = begun.elapsed();
    let report = json!({
        "transactions": accepted,
        "submitSeconds": submitted.as_secs_f64(),
        "submittedPerSecond": accepted as f64 / submitted.as_secs_f64(),
        "minedSeconds": mined.as_secs_f64(),
        "minedPerSecond": accepted as f64 / mined.as_secs_f64(),
        "blocks": rpc.block_number()? + 1 - first_block,
        "answerMicroseconds": {
            "p50": latency_us.value_at_quantile(0.5),
            "p99": latency_us.value_at_quantile(0.99),
            "p99.99": latency_us.value_at_quantile(0.9999),
            "max": latency_us.max(),
        },
    });
    print(args.json, &report)
}

/// Signs every transfer, starting at each account's nonce.
fn prepare(args: &Args, rpc: &Rpc) -> anyhow::Result<Vec<Share>> {
    let chain_id = rpc.chain_id()?;
    let senders = sign::senders();
    let each = args.count.div_ceil(senders.len() as u64);
    let bar = if std::io::stderr().is_terminal() && !args.json {
        ProgressBar::new(each * senders.len() as u64).with_message("signing")
    } else {
        ProgressBar::hidden()
    };
    let mut left = args.count;
    let mut shares = Vec::new();
    for sender in senders {
        let first_nonce = rpc.nonce(sender.address)?;
        let count = each.min(left);
        left -= count;
        let recipient = Address::repeat_byte(0x77);
        let txs = (first_nonce..first_nonce + count).map(|nonce| {
            bar.inc(1);
            sender.transfer(chain_id, nonce, recipient)
        });
        let txs = txs.collect();
        shares.push(Share { sender, first_nonce, txs });
    }
    bar.finish_and_clear();
    Ok(shares)
}

/// Waits until each account's nonce says that all of its transfers are mined.
fn wait_until_mined(rpc: &Rpc, shares: &[Share], patience: Duration) -> anyhow::Result<()> {
    let begun = Instant::now();
    for share in shares {
        let wanted = share.first_nonce + share.txs.len() as u64;
        loop {
            let nonce = rpc.nonce(share.sender.address).context("waiting for the chain")?;
            if nonce >= wanted {
                break;
            }
            if begun.elapsed() > patience {
                bail!("{} mined {nonce} of {wanted} (--patience)", share.sender.address);
            }
            std::thread::park_timeout(LOOK);
        }
    }
    Ok(())
}

fn print(as_json: bool, report: &serde_json::Value) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    if as_json {
        writeln!(out, "{report}")?;
        return Ok(());
    }
    for (key, value) in report.as_object().into_iter().flatten() {
        writeln!(out, "{key:<20} {value}")?;
    }
    Ok(())
}
