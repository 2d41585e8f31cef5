//! Counts the pending transactions by price, for display.

use super::Mempool;

/// The lower bounds of the bands, in wei of effective priority fee per gas.
const BOUNDS: [u128; 7] =
    [0, 1, 10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000, 100_000_000_000];

/// The pending transactions whose effective priority fee is in a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PriceBand {
    /// The lower bound in wei per gas, inclusive; `None` for transactions below the base fee.
    pub from: Option<u128>,
    /// Number of transactions.
    pub txs: u64,
    /// Sum of their gas limits.
    pub gas: u64,
}

impl Mempool {
    /// Counts the pending transactions by effective priority fee at the base fee of the next block, the highest band
    /// last. Reads every transaction of the pool.
    pub fn price_bands(&self) -> Vec<PriceBand> {
        let bounds = std::iter::once(None).chain(BOUNDS.into_iter().map(Some));
        let mut bands: Vec<_> =
            bounds.map(|from| PriceBand { from, ..PriceBand::default() }).collect();
        for pooled in self.lanes().flat_map(|lane| lane.pending()) {
            let tip = pooled.offer.effective_tip(self.base_fee);
            let band = tip.map_or(0, |tip| BOUNDS.partition_point(|bound| *bound <= tip));
            bands[band].txs += 1;
            bands[band].gas = bands[band].gas.saturating_add(pooled.gas());
        }
        bands
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use alloy_consensus::{SignableTransaction, TxEip1559};
    use alloy_primitives::{Address, Bytes, Signature, TxKind, U256};
    use std::{
        sync::{Arc, OnceLock},
        time::Instant,
    };
    use storage::Account;
    use transactions::{RecoveredTx, Transaction};

    const BASE_FEE: u64 = 1_000_000_000;

    fn pool_with(offers: &[(u128, u128)]) -> Mempool {
        let mut pool = Mempool::new(Limits::default(), BASE_FEE);
        for (number, (tip, cap)) in offers.iter().enumerate() {
            let tx = TxEip1559 {
                gas_limit: 21_000,
                max_fee_per_gas: *cap,
                max_priority_fee_per_gas: *tip,
                to: TxKind::Call(Address::ZERO),
                ..TxEip1559::default()
            };
            let tx = tx.into_signed(Signature::test_signature());
            let (hash, sender) = (*tx.hash(), Address::with_last_byte(number as u8));
            let tx = RecoveredTx {
                raw: Bytes::new(),
                tx: Transaction::from(tx),
                hash,
                sender,
                high_s: false,
                authorities: OnceLock::new(),
                cosmos: None,
            };
            let account =
                Account { balance: U256::from(10).pow(U256::from(24)), ..Account::default() };
            pool.insert(Arc::new(tx), |_| Box::default(), &account, Instant::now()).unwrap();
        }
        pool
    }

    #[test]
    fn bounds_belong_to_the_higher_band() {
        let base_fee = u128::from(BASE_FEE);
        // Priority fee cap and fee cap. The effective priority fee is at most the fee cap minus the base fee.
        let offers = [
            (1, base_fee - 1),
            (0, base_fee),
            (1, base_fee + 1),
            (5, base_fee + 1),
            (9_999_999, 2 * base_fee),
            (10_000_000, 2 * base_fee),
            (200_000_000_000, 300 * base_fee),
        ];
        let bands = pool_with(&offers).price_bands();
        let counts: Vec<_> = bands.iter().map(|band| (band.from, band.txs)).collect();
        let expected = [
            (None, 1),
            (Some(0), 1),
            (Some(1), 3),
            (Some(10_000_000), 1),
            (Some(100_000_000), 0),
            (Some(1_000_000_000), 0),
            (Some(10_000_000_000), 0),
            (Some(100_000_000_000), 1),
        ];
        assert_eq!(counts, expected);
        assert_eq!(bands[2].gas, 3 * 21_000);
    }
}
