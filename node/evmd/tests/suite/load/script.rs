//! Generates the submissions of a sender, with random nonce gaps, replacements, and underpriced and invalid ones. A
//! simple model of the pool predicts the response to each. The predictions do not depend on the times of blocks,
//! because replacements are for nonces behind an open gap, which cannot be mined yet.

use super::wallets::{Wallet, transfer};
use crate::random::Random;
use alloy_consensus::TxEip1559;
use alloy_primitives::{B256, Bytes, U256, keccak256};
use std::collections::BTreeMap;

/// Minimum priority fee of the node, in wei per gas, so that the model knows which transactions are underpriced.
pub const MIN_TIP: u64 = 2_000_000_000;
/// Minimum fee cap of the submissions, in wei per gas. It is above every base fee of the test.
const CAP: u128 = 500_000_000_000;
/// Maximum number of transactions behind a nonce gap, for one sender.
pub const ACCOUNT_QUEUE: usize = 24;

/// One submission.
#[derive(Clone, Debug)]
pub struct Line {
    /// EIP-2718 bytes, or invalid ones.
    pub raw: Bytes,
    /// The beginning of the expected error; `None` if the transaction is to be accepted.
    pub refused: Option<&'static str>,
}

/// The submissions of a sender, and those of them that are to be mined.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// In submission order.
    pub lines: Vec<Line>,
    /// By nonce.
    pub mined: BTreeMap<u64, B256>,
}

struct Writer<'a> {
    wallet: &'a Wallet,
    random: &'a mut Random,
    script: Script,
    /// Fee cap and priority fee cap of the transactions behind the open gap, by nonce.
    waiting: BTreeMap<u64, (u128, u128)>,
    /// The nonce after the last executable one.
    next: u64,
}

/// Generates about `lines` submissions of a wallet.
pub fn write(wallet: &Wallet, random: &mut Random, lines: usize) -> Script {
    let (script, waiting) = (Script::default(), BTreeMap::new());
    let mut writer = Writer { wallet, random, script, waiting, next: 0 };
    while writer.script.lines.len() < lines {
        writer.round();
    }
    writer.script
}

impl Writer<'_> {
    /// Submits transactions behind a gap, in any order and some of them replaced; then closes the gap.
    fn round(&mut self) {
        let gap = self.next;
        let mut ahead: Vec<u64> = (1..=self.random.below(20)).map(|n| gap + n).collect();
        while !ahead.is_empty() {
            let at = self.random.below(ahead.len() as u64) as usize;
            let nonce = ahead.swap_remove(at);
            let fees = self.fees();
            self.waiting.insert(nonce, fees);
            self.accepted(nonce, fees);
            if self.random.chance(15) {
                self.invalid();
            }
            if self.random.chance(15) {
                self.replacement();
            }
        }
        if self.random.chance(10) {
            self.flood(gap);
        }
        let fees = self.fees();
        self.accepted(gap, fees);
        self.next += 1 + self.waiting.len() as u64;
        self.waiting.clear();
    }

    /// A fee cap and a priority fee cap, in wei per gas.
    fn fees(&mut self) -> (u128, u128) {
        let above = 1_000_000_000 * u128::from(self.random.below(30));
        (CAP + above, u128::from(MIN_TIP) + above)
    }

    fn submit(&mut self, tx: TxEip1559, refused: Option<&'static str>) -> B256 {
        let raw = self.wallet.sign(tx);
        let hash = keccak256(&raw);
        self.script.lines.push(Line { raw, refused });
        hash
    }

    fn accepted(&mut self, nonce: u64, (cap, fee): (u128, u128)) {
        let hash = self.submit(transfer(nonce, cap, fee), None);
        self.script.mined.insert(nonce, hash);
    }

    /// Another transaction with the nonce of a queued one, with a sufficient price bump or not.
    fn replacement(&mut self) {
        let at = self.random.below(self.waiting.len() as u64) as usize;
        let (nonce, (cap, fee)) = self.waiting.iter().nth(at).map(|(n, f)| (*n, *f)).unwrap();
        let bump = |old: u128| old * 110 / 100;
        if self.random.chance(50) {
            let fees = (bump(cap), bump(fee));
            self.waiting.insert(nonce, fees);
            self.accepted(nonce, fees);
        } else {
            let (cap, fee) =
                if self.random.chance(50) { (bump(cap) - 1, bump(fee)) } else { (cap, fee + 1) };
            self.submit(transfer(nonce, cap, fee), Some("replacement transaction underpriced"));
        }
    }

    /// More transactions behind the gap than one account may have.
    fn flood(&mut self, gap: u64) {
        let free_slots = ACCOUNT_QUEUE - self.waiting.len();
        let last = gap + self.waiting.len() as u64;
        for nonce in last + 1..=last + free_slots as u64 {
            let fees = self.fees();
            self.waiting.insert(nonce, fees);
            self.accepted(nonce, fees);
        }
        let (cap, fee) = self.fees();
        let over = last + free_slots as u64 + 1;
        self.submit(transfer(over, cap, fee), Some("account limit exceeded: pooled "));
    }

    /// A submission that the pool refuses.
    fn invalid(&mut self) {
        let nonce = self.next + self.random.below(50);
        let plain = transfer(nonce, CAP, u128::from(MIN_TIP));
        let (tx, refused) = match self.random.below(9) {
            0 => (
                TxEip1559 { max_priority_fee_per_gas: u128::from(MIN_TIP) - 1, ..plain },
                "transaction gas price below minimum: gas tip cap 1999999999, minimum needed",
            ),
            1 => (
                TxEip1559 { max_fee_per_gas: 1, max_priority_fee_per_gas: 1, ..plain },
                "max fee per gas less than block base fee (1 < ",
            ),
            2 => (TxEip1559 { chain_id: 1, ..plain }, "invalid chain id for signer: have 1 want"),
            3 => (TxEip1559 { gas_limit: 20_999, ..plain }, "intrinsic gas too low: gas 20999"),
            4 => (
                TxEip1559 { gas_limit: 100_000_001, ..plain },
                "exceeds block gas limit: tx gas 100000001, block gas limit 100000000",
            ),
            5 => (
                TxEip1559 { max_priority_fee_per_gas: CAP + 1, ..plain },
                "max priority fee per gas higher than max fee per gas",
            ),
            6 => (
                TxEip1559 { value: U256::from(10u64).pow(U256::from(21)), ..plain },
                "insufficient funds for gas * price + value: balance ",
            ),
            7 => return self.again(),
            _ => {
                let raw = Bytes::from_static(b"\x02\xc0");
                self.script.lines.push(Line { raw, refused: Some("rlp: ") });
                return;
            }
        };
        self.submit(tx, Some(refused));
    }

    /// A transaction that is already in the pool.
    fn again(&mut self) {
        let Some(nonce) = self.waiting.keys().next_back() else { return };
        let hash = self.script.mined[nonce];
        let known = |line: &&Line| line.refused.is_none() && keccak256(&line.raw) == hash;
        let raw = self.script.lines.iter().rev().find(known).unwrap().raw.clone();
        self.script.lines.push(Line { raw, refused: Some("already known") });
    }
}
