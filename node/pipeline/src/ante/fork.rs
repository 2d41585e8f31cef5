//! Checks pooled transactions against the fork of the next block.

use alloy_primitives::B256;
use mempool::{Lane, Mempool};
use modules::decorator::{self, CheckContext, Reject};
use transactions::RecoveredTx;

/// Returns the pooled transactions that violate the rules of the next block's fork, which are in `context`.
/// Checks the whole pool.
pub(super) fn unfit(pool: &Mempool, context: &CheckContext<'_>) -> Vec<(B256, Reject)> {
    let broken = |tx: &RecoveredTx| Some((tx.hash, decorator::check_rules(tx, context).err()?));
    pool.lanes().flat_map(Lane::all).filter_map(|pooled| broken(&pooled.tx)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_consensus::{Header, SignableTransaction, TxEip1559};
    use alloy_primitives::{Address, Bytes, Signature, TxKind, U256};
    use chain::{Fork, Genesis};
    use mempool::Limits;
    use std::{
        sync::{Arc, OnceLock},
        time::Instant,
    };
    use storage::Account;
    use transactions::Transaction;

    const OSAKA: u64 = 2_000;

    fn pooled(nonce: u64, gas_limit: u64) -> RecoveredTx {
        let tx = TxEip1559 {
            chain_id: 262_144,
            nonce,
            gas_limit,
            max_fee_per_gas: 2_000_000_000,
            max_priority_fee_per_gas: 1,
            to: TxKind::Call(Address::ZERO),
            ..TxEip1559::default()
        };
        RecoveredTx {
            raw: Bytes::new(),
            tx: Transaction::from(tx.into_signed(Signature::test_signature())),
            hash: B256::with_last_byte(nonce as u8),
            sender: Address::repeat_byte(1),
            high_s: false,
            authorities: OnceLock::new(),
            cosmos: None,
        }
    }

    #[test]
    fn transactions_above_the_gas_cap_of_osaka_are_unfit_from_its_first_block_on() {
        let mut file: serde_json::Value =
            serde_json::from_str(&Genesis::native_dev(0).to_json()).unwrap();
        file["config"]["osakaTime"] = OSAKA.into();
        let spec = Genesis::from_json(&file.to_string()).unwrap().spec;
        let mut pool = Mempool::new(Limits::default(), 0);
        let account = Account { balance: U256::from(10).pow(U256::from(24)), ..Account::default() };
        // The last one is queued behind a gap.
        for (nonce, gas) in [(0, 1 << 24), (1, (1 << 24) + 1), (2, 21_000), (9, 1 << 25)] {
            let tx = Arc::new(pooled(nonce, gas));
            pool.insert(tx, |_| Box::default(), &account, Instant::now()).unwrap();
        }
        let parent = Header { number: 1, timestamp: OSAKA - 1, ..Header::default() };
        let unfit_at = |timestamp| {
            let context = CheckContext::after(&spec, &parent, timestamp, 0, None);
            let mut hashes: Vec<B256> =
                unfit(&pool, &context).into_iter().map(|(hash, _)| hash).collect();
            hashes.sort_unstable();
            (context.fork, hashes)
        };
        assert_eq!(unfit_at(OSAKA - 1), (Fork::Prague, vec![]));
        let above = [1, 9].map(B256::with_last_byte).to_vec();
        assert_eq!(unfit_at(OSAKA), (Fork::Osaka, above));
    }
}
