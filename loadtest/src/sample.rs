//! A sample of the blocks, transactions, accounts and tokens of a chain, for read requests.

use crate::{
    rng::Rng,
    rpc::{Rpc, hex, quantity},
    token,
};
use anyhow::Context;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Samples first come from this many recent blocks, which wallets and explorers query most.
const WINDOW_BLOCKS: u64 = 1024;
/// Factor by which the window grows if it has no transactions or no token transfers.
const WINDOW_FACTOR: u64 = 16;
/// Maximum blocks probed in one window.
const MAX_PROBED_BLOCKS: u64 = 512;
/// Maximum blocks in a sample.
const MAX_BLOCKS: usize = 64;
/// Maximum transactions sampled per block.
const MAX_BLOCK_TXS: usize = 40;

#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    /// The latest block when the sample was taken.
    pub(crate) head: u64,
    /// Numbers of blocks with transactions.
    pub(crate) blocks: Vec<u64>,
    /// Hashes of mined transactions.
    pub(crate) hashes: Vec<String>,
    /// Accounts that sent or received.
    pub(crate) accounts: Vec<String>,
    /// Accounts in token transfers.
    pub(crate) holders: Vec<String>,
    /// The given token, or the one with the most transfers.
    pub(crate) token: Option<String>,
}

/// Picks random blocks with transactions among the last `window` blocks.
fn filled_blocks(rpc: &Rpc, rng: &mut Rng, head: u64, window: u64) -> anyhow::Result<Vec<u64>> {
    let span = window.min(head);
    let numbers: BTreeSet<u64> = if span <= MAX_PROBED_BLOCKS {
        (head - span + 1..=head).collect()
    } else {
        (0..MAX_PROBED_BLOCKS).map(|_| head - rng.below(span)).collect()
    };
    let mut numbers: Vec<u64> = numbers.into_iter().collect();
    rng.shuffle(&mut numbers);
    let counts: Vec<_> = numbers.iter().map(|number| json!([hex(*number)])).collect();
    let counts = rpc.call_all("eth_getBlockTransactionCountByNumber", &counts)?;
    let mut blocks = Vec::new();
    for (number, count) in numbers.into_iter().zip(&counts) {
        if blocks.len() < MAX_BLOCKS && quantity(count)? > 0 {
            blocks.push(number);
        }
    }
    Ok(blocks)
}

/// Whether an address is below 2^16, where precompiled contracts are. They refuse calls with invalid input, so a
/// transfer to one of them would count as an error of the node.
fn may_be_precompile(address: &str) -> bool {
    address.trim_start_matches("0x").trim_start_matches('0').len() <= 4
}

impl Sample {
    /// Samples recent blocks, which `seed` determines.
    pub(crate) fn take(rpc: &Rpc, seed: u64, token: Option<&str>) -> anyhow::Result<Self> {
        let head = rpc.block_number()?;
        let mut rng = Rng::new(seed);
        let mut window = WINDOW_BLOCKS;
        let mut newest = None;
        loop {
            let blocks = filled_blocks(rpc, &mut rng, head, window)?;
            if !blocks.is_empty() {
                let mut sample = Self { head, blocks, ..Self::default() };
                sample.read_blocks(rpc)?;
                sample.find_token(rpc, token)?;
                if sample.token.is_some() {
                    return Ok(sample);
                }
                newest.get_or_insert(sample);
            }
            if window >= head {
                return newest.with_context(|| {
                    format!("no transactions up to block {head}: run `loadtest fill` first")
                });
            }
            // Recent blocks have no transactions or no token transfers.
            window = window.saturating_mul(WINDOW_FACTOR);
        }
    }

    fn read_blocks(&mut self, rpc: &Rpc) -> anyhow::Result<()> {
        for number in &self.blocks {
            let block = rpc.call("eth_getBlockByNumber", json!([hex(*number), true]))?;
            let txs = block["transactions"].as_array().context("a block without transactions")?;
            for tx in txs.iter().take(MAX_BLOCK_TXS) {
                let text = |member: &str| tx[member].as_str().map(str::to_owned);
                self.hashes.extend(text("hash"));
                self.accounts.extend([text("from"), text("to")].into_iter().flatten());
            }
        }
        self.accounts.sort_unstable();
        self.accounts.dedup();
        Ok(())
    }

    fn find_token(&mut self, rpc: &Rpc, token: Option<&str>) -> anyhow::Result<()> {
        let filters: Vec<_> = self
            .blocks
            .iter()
            .map(|number| {
                let block = hex(*number);
                json!([{ "fromBlock": block, "toBlock": block, "topics": [token::TRANSFER] }])
            })
            .collect();
        let mut used: BTreeMap<String, u64> = BTreeMap::new();
        let logs = rpc.call_all("eth_getLogs", &filters)?;
        for log in logs.iter().filter_map(Value::as_array).flatten() {
            if let Some(address) = log["address"].as_str() {
                *used.entry(address.to_owned()).or_default() += 1;
            }
            let topics = log["topics"].as_array().into_iter().flatten().skip(1);
            let holders = topics.filter_map(Value::as_str).filter(|topic| topic.len() == 66);
            let holders = holders.map(|topic| format!("0x{}", &topic[26..]));
            self.holders.extend(holders.filter(|holder| !may_be_precompile(holder)));
        }
        self.holders.sort_unstable();
        self.holders.dedup();
        let most_used =
            used.into_iter().max_by_key(|(_, count)| *count).map(|(address, _)| address);
        self.token = token.map(str::to_owned).or(most_used);
        Ok(())
    }

    /// Returns the token. Fails if there is none.
    pub(crate) fn token(&self) -> anyhow::Result<&str> {
        self.token.as_deref().context(
            "no ERC-20 transfers in the sampled blocks: set --token, or run `loadtest fill` first",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::may_be_precompile;

    #[test]
    fn precompiled_contracts_are_not_holders() {
        for number in [0_u64, 9, 0x100, 0xffff] {
            assert!(may_be_precompile(&format!("0x{number:040x}")));
        }
        for address in [format!("0x{:040x}", 0x1_0000), format!("0x{}09", "ab".repeat(19))] {
            assert!(!may_be_precompile(&address), "{address}");
        }
    }
}
