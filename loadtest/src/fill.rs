//! Scenario `fill`: fills a chain with data to query. It sends transfers and token transfers with
//! various priority fees, a few per block, as fast as the node produces blocks.

use crate::{
    fund::{self, SenderSpec},
    keys,
    options::{Node, bar},
    rng::Rng,
    tx_template::Load,
};
use alloy_primitives::U256;
use anyhow::bail;
use std::{
    io::Write,
    time::{Duration, Instant},
};

/// Priority fees, as multiples of 0.1 gwei.
const PRIORITY_FEES: [u128; 8] = [1, 2, 5, 10, 15, 20, 50, 100];
/// Wei in 0.1 gwei.
const TENTH_GWEI: u128 = 100_000_000;
/// Maximum wait for the next block, and for all transactions to be mined.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum wait for a block without transactions, which a chain that skips empty blocks does not produce.
const EMPTY_TIMEOUT: Duration = Duration::from_secs(1);
/// Polling interval of the head.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Fee cap, in wei per gas: 100 gwei, above the base fee of small blocks.
const FEE_CAP: u128 = 100_000_000_000;

#[derive(Debug, clap::Args)]
pub(crate) struct FillArgs {
    /// JSON-RPC URL of the node
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8545")]
    url: String,
    /// Number of blocks to fill
    #[arg(long, value_name = "N", default_value_t = 1100)]
    blocks: u64,
    /// Maximum transactions per block; the minimum is 0
    #[arg(long, value_name = "N", default_value_t = 12)]
    txs: u64,
    /// Number of sending accounts
    #[arg(long, value_name = "N", default_value_t = 50)]
    senders: usize,
    /// Seed of the transactions
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(args: &FillArgs) -> anyhow::Result<()> {
    if args.senders == 0 || args.blocks == 0 {
        bail!("--senders and --blocks must be at least 1");
    }
    let node = Node::connect(&args.url, None)?;
    let wanted = SenderSpec {
        load: Load::Mixed,
        senders: args.senders,
        txs_each: args.blocks * args.txs / args.senders as u64 + args.blocks,
        fee_cap: FEE_CAP,
        priority_fee: TENTH_GWEI,
        seed: args.seed,
        recipients: 1,
        prefunded: false,
    };
    let mut senders = fund::prepare(&node, wanted)?;
    let addresses: Vec<_> = senders.keys.iter().map(|key| key.address).collect();
    let mut nonces = node.rpc.nonces(&addresses)?;
    let mut rng = Rng::new(args.seed);
    let bar = bar("fill");
    bar.set_length(args.blocks);
    let first = node.rpc.block_number()?;
    let (mut head, mut sent) = (first, 0_u64);
    // Whether the node produces blocks only when there are transactions.
    let mut skips_empty_blocks = false;
    while head < first + args.blocks {
        let txs: Vec<_> = (0..rng.below(args.txs + 1))
            .map(|_| {
                let at = rng.below(senders.keys.len() as u64) as usize;
                let multiple = PRIORITY_FEES[rng.below(PRIORITY_FEES.len() as u64) as usize];
                senders.template.priority_fee = multiple * TENTH_GWEI;
                let to = keys::recipient(args.seed, rng.below(1000));
                let (key, nonce) = (&senders.keys[at], nonces[at]);
                nonces[at] += 1;
                match rng.below(2) {
                    0 => senders.template.transfer(key, nonce, to, U256::ONE),
                    _ => senders.template.token_transfer(key, nonce, to, 1),
                }
            })
            .collect();
        sent += txs.len() as u64;
        fund::send(&node, &txs)?;
        if txs.is_empty() && skips_empty_blocks {
            continue;
        }
        let timeout = if txs.is_empty() { EMPTY_TIMEOUT } else { TIMEOUT };
        match next_block(&node, head, timeout)? {
            Some(next) => head = next,
            None if txs.is_empty() && args.txs > 0 => skips_empty_blocks = true,
            None => bail!("{} produced no block within {TIMEOUT:.0?}", node.url.text),
        }
        bar.set_position(head - first);
    }
    bar.finish_and_clear();
    fund::wait_for_nonces(&node, &addresses, &nonces, TIMEOUT)?;
    let mut out = std::io::stdout();
    writeln!(out, "{sent} transactions in blocks {} to {}", first + 1, node.rpc.block_number()?)?;
    Ok(writeln!(out, "token {}", senders.template.token)?)
}

/// Waits for the next block and returns the new head, or `None` if no block appears within `timeout`.
fn next_block(node: &Node, head: u64, timeout: Duration) -> anyhow::Result<Option<u64>> {
    let begun = Instant::now();
    loop {
        let now = node.rpc.block_number()?;
        if now > head {
            return Ok(Some(now));
        }
        if begun.elapsed() > timeout {
            return Ok(None);
        }
        std::thread::park_timeout(POLL_INTERVAL);
    }
}
