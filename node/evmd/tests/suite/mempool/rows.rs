//! Tests every reason for a rejection, with codespace, code and text as in cosmos/evm.

use super::forge::{BLOB_GAS, Draft, MAX_TX_BYTES, PLAIN, address};
use crate::common::{CHAIN_ID, FEE_CAP, native_home, producing, sign};
use alloy_consensus::{SignableTransaction, Transaction as _, TxEip1559, TxEip4844, TxEnvelope};
use alloy_eips::eip2718::{Decodable2718, Encodable2718};
use alloy_primitives::{Address, Bytes, Signature, TxKind, U256};
use mempool::{BlockSpace, Limits, Mempool, Reject, SLOT_BYTES, Standing};
use pipeline::Pipeline;
use std::time::{Duration, Instant};
use storage::Account;
use transactions::Transaction;

struct Pool {
    pool: Mempool,
    now: Instant,
    account: Account,
    ids: u64,
}

const RICH: Account =
    Account { nonce: 5, balance: U256::MAX, code_hash: alloy_primitives::KECCAK256_EMPTY };

impl Pool {
    fn new(limits: Limits) -> Self {
        Self { pool: Mempool::new(limits, 50), now: Instant::now(), account: RICH, ids: 0 }
    }

    fn insert(&mut self, draft: Draft) -> Result<Standing, Reject> {
        self.ids += 1;
        let tx = Draft { id: self.ids, ..draft }.tx();
        self.pool.insert(tx, |_| Box::default(), &self.account, self.now)
    }

    /// Inserts a transaction of this sender at this price, `ahead` nonces after that of its account.
    fn put(&mut self, sender: u8, ahead: u64, price: u128) -> Result<Standing, Reject> {
        let nonce = self.account.nonce + ahead;
        self.insert(Draft { sender, nonce, tip: price, cap: price, ..PLAIN })
    }

    /// Codespace, code and text of the rejection of a transaction.
    fn reject(&mut self, draft: Draft) -> String {
        let before = self.pool.level();
        let reject = self.insert(draft).unwrap_err();
        assert_eq!(self.pool.level(), before, "a rejection changes nothing");
        text_of(&reject)
    }
}

fn text_of(reject: &Reject) -> String {
    format!("{} {}: {reject}", reject.code().space, reject.code().number)
}

fn small() -> Limits {
    Limits { account_slots: 2, global_slots: 16, account_queue: 2, global_queue: 4, ..default() }
}

fn default() -> Limits {
    Limits::default()
}

#[test]
fn known_transaction_is_rejected() {
    let mut pool = Pool::new(default());
    assert_eq!(pool.put(1, 0, 100), Ok(Standing::Pending));
    pool.ids -= 1;
    assert_eq!(pool.put(1, 0, 200), Err(Reject::AlreadyKnown));
    assert_eq!(text_of(&Reject::AlreadyKnown), "sdk 19: already known");
}

#[test]
fn used_and_maximum_nonces_are_rejected() {
    let mut pool = Pool::new(default());
    let low = Draft { nonce: 4, ..PLAIN };
    assert_eq!(pool.reject(low), "sdk 3: nonce too low: next nonce 5, tx nonce 4");
    let last = Draft { nonce: u64::MAX, ..PLAIN };
    assert!(pool.reject(last).starts_with("sdk 3: nonce has max value: address 0x0101"));
    assert_eq!(pool.put(1, 2, 100), Ok(Standing::Queued), "a gap is not an error");
}

#[test]
fn prices_below_the_minimum_are_rejected() {
    let mut pool = Pool::new(default());
    let free = Draft { nonce: 5, tip: 0, cap: 0, ..PLAIN };
    let text = "sdk 13: transaction gas price below minimum: gas tip cap 0, minimum needed 1";
    assert_eq!(pool.reject(free), text);
    assert!(pool.insert(Draft { cap: 1, ..free }).is_ok(), "a priority fee of 0 is not an error");
    let mut pool = Pool::new(Limits { min_tip: 7, ..default() });
    let text = "sdk 13: transaction gas price below minimum: gas tip cap 6, minimum needed 7";
    assert_eq!(pool.reject(Draft { tip: 6, cap: 90, ..free }), text);
}

#[test]
fn transactions_without_funds_are_rejected() {
    let mut pool = Pool::new(default());
    let cost = 2_100_000u64;
    pool.account.balance = U256::from(cost - 1);
    let text = "sdk 5: insufficient funds for gas * price + value: balance 2099999, tx cost 2100000, \
                overshot 1";
    assert_eq!(pool.reject(Draft { nonce: 5, ..PLAIN }), text);
    pool.account.balance = U256::from(2 * cost - 1);
    pool.put(1, 0, 100).unwrap();
    let text = "sdk 5: insufficient funds for gas * price + value: balance 4199999, queued cost 2100000, \
                tx cost 2100000, overshot 1";
    assert_eq!(pool.reject(Draft { nonce: 6, ..PLAIN }), text);
    // The sender pays for the replacement instead of the old transaction, not for both.
    assert_eq!(pool.put(1, 0, 110), Ok(Standing::Pending));
}

#[test]
fn replacement_needs_a_price_bump_in_both_fields() {
    // The old price, and the minimum price of a replacement.
    let table = [(1, 2), (5, 6), (9, 10), (10, 11), (100, 110), (1001, 1101)];
    for ahead in [0, 1] {
        for (old, min) in table {
            let mut pool = Pool::new(default());
            pool.put(1, ahead, old).unwrap();
            for price in [old, min - 1] {
                let nonce = 5 + ahead;
                let again = Draft { nonce, tip: price, cap: price, ..PLAIN };
                assert_eq!(pool.reject(again), "sdk 13: replacement transaction underpriced");
            }
            assert!(pool.put(1, ahead, min).is_ok());
            assert_eq!(pool.pool.len(), 1);
        }
    }
    // Both fields must be raised.
    let mut pool = Pool::new(default());
    let old = Draft { nonce: 5, tip: 0, cap: 1000, ..PLAIN };
    pool.insert(old).unwrap();
    let text = "sdk 13: replacement transaction underpriced";
    assert_eq!(pool.reject(Draft { tip: 0, cap: 1100, ..old }), text);
    assert_eq!(pool.reject(Draft { tip: 1, cap: 1099, ..old }), text);
    assert!(pool.insert(Draft { tip: 1, cap: 1100, ..old }).is_ok());
}

#[test]
fn replacing_a_blob_transaction_doubles_all_three_prices() {
    let mut pool = Pool::new(default());
    let old = Draft { nonce: 5, tip: 10, cap: 100, blobs: 2, blob_cap: 7, ..PLAIN };
    pool.insert(old).unwrap();
    let text = "sdk 13: replacement transaction underpriced";
    let twice = Draft { tip: 20, cap: 200, blob_cap: 14, ..old };
    assert_eq!(pool.reject(Draft { tip: 19, ..twice }), text);
    assert_eq!(pool.reject(Draft { cap: 199, ..twice }), text);
    assert_eq!(pool.reject(Draft { blob_cap: 13, ..twice }), text);
    assert_eq!(pool.reject(Draft { blobs: 0, ..twice }), text, "not by one without blobs");
    assert!(pool.insert(twice).is_ok());
    assert_eq!(pool.pool.len(), 1);
}

#[test]
fn selection_returns_no_more_than_the_maximum() {
    let mut pool = Pool::new(default());
    for nonce in 5..9 {
        pool.insert(Draft { sender: 1, nonce, ..PLAIN }).unwrap();
    }
    let mut chosen = |txs| {
        let space = BlockSpace { txs, ..BlockSpace::exact(u64::MAX, usize::MAX) };
        pool.pool.select(space).txs.iter().map(|tx| tx.tx.nonce()).collect::<Vec<_>>()
    };
    assert_eq!(chosen(0), [] as [u64; 0]);
    assert_eq!(chosen(3), [5, 6, 7], "one fewer than there are");
    assert_eq!(chosen(4), [5, 6, 7, 8]);
    assert_eq!(chosen(5), [5, 6, 7, 8]);
}

/// A block whose parent is not part of the chain yet has the transactions after those of the parent, and as many.
#[test]
fn transactions_of_unfinished_blocks_are_not_selected_again() {
    let mut pool = Pool::new(default());
    for (sender, nonce) in [(1, 5), (1, 6), (1, 7), (2, 5)] {
        pool.insert(Draft { sender, nonce, ..PLAIN }).unwrap();
    }
    let two = BlockSpace { txs: 2, ..BlockSpace::exact(u64::MAX, usize::MAX) };
    let mut selected = Vec::new();
    let mut rounds = Vec::new();
    for _ in 0..3 {
        let chosen = pool.pool.select_without(two, |hash| selected.contains(hash)).txs;
        rounds.push(chosen.iter().map(|tx| (tx.sender[0], tx.tx.nonce())).collect::<Vec<_>>());
        selected.extend(chosen.iter().map(|tx| tx.hash));
    }
    assert_eq!(rounds, [vec![(1, 5), (1, 6)], vec![(1, 7), (2, 5)], vec![]]);
    assert_eq!(pool.pool.select(two).txs.len(), 2, "the pool still has all of them");
}

#[test]
fn blobs_wait_for_space_and_for_their_price() {
    let mut pool = Pool::new(default());
    for (sender, blobs, blob_cap) in [(1, 3, 10), (2, 4, 20), (3, 2, 5), (4, 1, 20), (5, 0, 0)] {
        let price = 200 - u128::from(sender);
        let draft = Draft { sender, nonce: 5, tip: price, cap: price, blobs, blob_cap, ..PLAIN };
        pool.insert(draft).unwrap();
        pool.insert(Draft { nonce: 6, blobs: 0, ..draft }).unwrap();
    }
    let mut chosen = |blobs: u64, blob_base_fee| {
        let space = BlockSpace {
            blob_gas: blobs * BLOB_GAS,
            blob_base_fee,
            ..BlockSpace::exact(999_999, 9_999)
        };
        let txs = pool.pool.select(space).txs;
        txs.iter().map(|tx| (tx.sender[0], tx.tx.nonce())).collect::<Vec<_>>()
    };
    // Four blobs do not fit after three. Later transactions of the same sender wait, too.
    assert_eq!(chosen(6, 1), [1, 1, 3, 3, 4, 4, 5, 5].map(two_nonces(&mut 0)));
    assert_eq!(chosen(6, 6), [1, 1, 4, 4, 5, 5].map(two_nonces(&mut 0)));
    assert_eq!(chosen(6, 20), [2, 2, 4, 4, 5, 5].map(two_nonces(&mut 0)));
    assert_eq!(chosen(0, 1), [5, 5].map(two_nonces(&mut 0)));
}

/// Assigns nonces to senders that come in pairs: 5, then 6.
fn two_nonces(calls: &mut u64) -> impl FnMut(u8) -> (u8, u64) {
    move |sender| {
        *calls += 1;
        (sender, 6 - *calls % 2)
    }
}

#[test]
fn account_queue_is_limited() {
    let mut pool = Pool::new(small());
    pool.put(1, 0, 100).unwrap();
    pool.put(1, 2, 100).unwrap();
    pool.put(1, 3, 100).unwrap();
    let text = "sdk 20: account limit exceeded: pooled 3 txs";
    assert_eq!(pool.reject(Draft { nonce: 9, ..PLAIN }), text);
    assert_eq!(pool.put(1, 1, 100), Ok(Standing::Pending), "the gap may be filled");
    assert_eq!(pool.pool.level().queued, 0);
}

#[test]
fn full_pool_accepts_only_higher_prices() {
    let mut pool = Pool::new(small());
    for sender in 1..=8 {
        pool.put(sender, 0, 100 + u128::from(sender)).unwrap();
        pool.put(sender, 1, 100 + u128::from(sender)).unwrap();
    }
    let newcomer = Draft { sender: 20, nonce: 5, tip: 101, cap: 101, ..PLAIN };
    assert_eq!(pool.reject(newcomer), "sdk 13: transaction underpriced");
    let higher = Draft { tip: 102, cap: 102, ..newcomer };
    assert_eq!(pool.insert(higher), Ok(Standing::Pending));
    assert_eq!(pool.pool.lane(address(1)).unwrap().pending().len(), 1, "the cheapest is evicted");
    // The value at this base fee is not higher, whatever the cap is.
    let capped = Draft { sender: 21, tip: 1, cap: 10_000, ..newcomer };
    assert_eq!(pool.reject(capped), "sdk 13: transaction underpriced");
    // Above the guaranteed slots of its sender, even the most expensive transaction is dropped first.
    assert!(pool.put(8, 2, 1_000_000).is_err());
}

#[test]
fn guaranteed_slots_evict_transactions_above_the_guarantee() {
    let mut pool = Pool::new(small());
    for ahead in 0..16 {
        pool.put(1, ahead, 1_000_000).unwrap();
    }
    assert_eq!(pool.put(2, 0, 51), Ok(Standing::Pending), "another sender exceeds its guarantee");
    assert_eq!(pool.pool.lane(address(1)).unwrap().pending().len(), 15);
    let large = Draft { sender: 3, nonce: 5, bytes: MAX_TX_BYTES, ..PLAIN };
    assert!(large.bytes > SLOT_BYTES * 3);
    pool.put(2, 1, 51).unwrap();
    // Four slots exceed the guarantee of two, and are cheaper than all others above their guarantees.
    assert_eq!(pool.reject(large), "sdk 13: transaction underpriced");
}

#[test]
fn pool_replaces_at_most_a_quarter_per_block() {
    let mut pool = Pool::new(small());
    for sender in 1..=8 {
        pool.put(sender, 0, 100).unwrap();
        pool.put(sender, 1, 100).unwrap();
    }
    // A quarter of 16 + 4 slots.
    for sender in 11..=15 {
        pool.put(sender, 0, 200).unwrap();
    }
    let next = Draft { sender: 16, nonce: 5, tip: 200, cap: 200, ..PLAIN };
    assert_eq!(pool.reject(next), "sdk 20: txpool is full");
    pool.pool.set_base_fee(50);
    assert!(pool.insert(next).is_ok(), "after a block");
}

#[test]
fn full_queue_does_not_evict_pending_transactions() {
    let mut pool = Pool::new(small());
    pool.put(1, 0, 60).unwrap();
    for sender in 2..=5 {
        pool.put(sender, 1, 100).unwrap();
    }
    let gapped = Draft { sender: 6, nonce: 7, ..PLAIN };
    let at = |price| Draft { tip: price, cap: price, ..gapped };
    assert_eq!(pool.reject(at(100)), "sdk 20: future transaction tries to replace pending");
    assert_eq!(pool.reject(at(60)), "sdk 13: transaction underpriced");
    assert_eq!(pool.insert(at(101)), Ok(Standing::Queued));
}

#[test]
fn delegated_accounts_have_one_pending_transaction() {
    let mut pool = Pool::new(default());
    pool.account.code_hash = alloy_primitives::keccak256("a delegation");
    let text = "sdk 32: gapped-nonce tx from delegated accounts";
    assert_eq!(pool.reject(Draft { nonce: 6, ..PLAIN }), text);
    pool.put(1, 0, 100).unwrap();
    let text = "sdk 20: in-flight transaction limit reached for delegated accounts";
    assert_eq!(pool.reject(Draft { nonce: 6, ..PLAIN }), text);
    assert!(pool.put(1, 0, 110).is_ok(), "it may be replaced");
}

#[test]
fn pending_delegations_reserve_their_authorities() {
    let mut pool = Pool::new(default());
    let set_code = |pool: &mut Pool, sender, authority: Address| {
        pool.ids += 1;
        let draft = Draft { id: pool.ids, sender, nonce: 5, ..PLAIN };
        pool.pool.insert(draft.set_code(), |_| Box::new([authority]), &RICH, pool.now)
    };
    // An authority may have one pending transaction, but not two.
    pool.put(7, 0, 100).unwrap();
    assert_eq!(set_code(&mut pool, 1, address(7)), Ok(Standing::Pending));
    pool.put(8, 0, 100).unwrap();
    pool.put(8, 1, 100).unwrap();
    let reserved = set_code(&mut pool, 2, address(8)).unwrap_err();
    assert_eq!(text_of(&reserved), "sdk 18: authority already reserved");
    // The authority is treated as delegated until that transaction has left the pool.
    assert_eq!(pool.put(7, 1, 100), Err(Reject::DelegatedInFlight));
    let used = Account { nonce: 6, ..RICH };
    pool.pool.advance(std::iter::once((address(1), used)), pool.now);
    assert_eq!(pool.put(7, 1, 100), Ok(Standing::Pending));
}

#[test]
fn queued_transactions_expire_after_the_lifetime() {
    let mut pool = Pool::new(default());
    pool.put(1, 0, 100).unwrap();
    pool.put(1, 2, 100).unwrap();
    pool.pool.expire(pool.now + Duration::from_secs(3 * 3600));
    assert_eq!(pool.pool.level().queued, 1);
    pool.pool.expire(pool.now + Duration::from_secs(3 * 3600 + 1));
    let level = pool.pool.level();
    assert_eq!((level.pending, level.queued), (1, 0));
    assert_eq!(pool.pool.take_dropped().expired, 1);
}

#[test]
fn rejected_transaction_does_not_affect_others() {
    let mut pool = Pool::new(default());
    for ahead in 0..3 {
        pool.put(1, ahead, 100).unwrap();
        pool.put(2, ahead, 90).unwrap();
    }
    let failed = pool.pool.lane(address(1)).unwrap().pending().get(1).unwrap().tx.hash;
    pool.pool.remove(failed, pool.now);
    let level = pool.pool.level();
    assert_eq!((level.pending, level.queued), (4, 1), "the one after it waits");
    assert_eq!(pool.put(1, 1, 100), Ok(Standing::Pending));
    assert_eq!(pool.pool.level().queued, 0);
}

/// The stages before the pool check these reasons.
#[test]
fn stages_before_the_pool_reject_invalid_transactions() {
    let folder = tempfile::tempdir().unwrap();
    let home = native_home(folder.path());
    let pipeline = Pipeline::start(&home, producing(None)).unwrap();
    let client = pipeline.client();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let rejection = |raw: Bytes| text_of(&runtime.block_on(client.submit(raw)).unwrap_err());
    let plain = TxEip1559 {
        chain_id: CHAIN_ID,
        gas_limit: 21_000,
        max_fee_per_gas: FEE_CAP,
        to: TxKind::Call(Address::ZERO),
        ..TxEip1559::default()
    };
    let gas = TxEip1559 { gas_limit: 100_000_001, ..plain.clone() };
    let text = "sdk 11: exceeds block gas limit: tx gas 100000001, block gas limit 100000000";
    assert_eq!(rejection(sign(0, gas)), text);
    let gas = TxEip1559 { gas_limit: 20_999, ..plain.clone() };
    let text = "sdk 18: intrinsic gas too low: gas 20999, minimum needed 21000";
    assert_eq!(rejection(sign(0, gas)), text);
    let fee = TxEip1559 { max_fee_per_gas: 1, ..plain.clone() };
    let text = "sdk 13: max fee per gas less than block base fee (1 < ";
    assert!(rejection(sign(0, fee)).starts_with(text));

    // A valid signature has a counterpart with the other value of s, which EIP-2 refuses.
    let order = U256::from_be_slice(&secp256k1::constants::CURVE_ORDER);
    let signed = TxEnvelope::decode_2718(&mut sign(0, plain.clone()).as_ref()).unwrap();
    let old = signed.signature();
    let twin = Signature::new(old.r(), order - old.s(), !old.v());
    let twin = TxEnvelope::from(plain.into_signed(twin)).encoded_2718().into();
    assert_eq!(rejection(twin), "sdk 24: invalid sender");

    let blob = TxEip4844 { chain_id: CHAIN_ID, max_fee_per_gas: FEE_CAP, ..TxEip4844::default() };
    let blob = Transaction::from(blob.into_signed(*old)).encoded_2718().into();
    assert_eq!(rejection(blob), "sdk 29: transaction type not supported");
    pipeline.stop();
    pipeline.join().unwrap();
}
