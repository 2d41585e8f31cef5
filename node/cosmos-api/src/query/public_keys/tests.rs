use super::*;
use alloy_consensus::{Header, SignableTransaction, TxEip1559, TxEip7702};
use alloy_eips::{eip2718::Encodable2718, eip7702::Authorization};
use alloy_primitives::{KECCAK256_EMPTY, TxKind, U256};
use keys::PrivateKey;
use state::{ChainView, Head, StateView};
use std::sync::Arc;
use storage::{
    AccountChange, BlockRecord, ChainDb, ChainOptions, FlushBlock, IndexDb, IndexOptions,
    StateChanges,
};

const CHAIN_ID: u64 = 9;
/// The number of transactions in a large block.
const LARGE_BLOCK_TXS: usize = 11_749;

fn key(byte: u8) -> PrivateKey {
    PrivateKey::from_bytes(&[byte; 32]).unwrap()
}

fn signature(key: &PrivateKey, digest: B256) -> Signature {
    Signature::from_raw_array(&key.sign(&digest)).unwrap()
}

/// Returns a transfer and its sender.
fn transfer(byte: u8, nonce: u64) -> (Bytes, Address) {
    let to = TxKind::Call(Address::repeat_byte(0xee));
    let tx = TxEip1559 { chain_id: CHAIN_ID, nonce, gas_limit: 21_000, to, ..TxEip1559::default() };
    let signature = signature(&key(byte), tx.signature_hash());
    (Transaction::from(tx.into_signed(signature)).encoded_2718().into(), key(byte).address())
}

/// Returns a transaction signed by key 200 that carries authorizations with these keys and nonces.
fn delegating(signers: &[(u8, u64)]) -> (Bytes, Address) {
    let authorize = |&(byte, nonce): &(u8, u64)| {
        let address = Address::repeat_byte(0xcc);
        let authorization = Authorization { chain_id: U256::from(CHAIN_ID), address, nonce };
        let signature = signature(&key(byte), authorization.signature_hash());
        authorization.into_signed(signature)
    };
    let authorization_list = signers.iter().map(authorize).collect();
    let tx = TxEip7702 { chain_id: CHAIN_ID, authorization_list, ..TxEip7702::default() };
    let signature = signature(&key(200), tx.signature_hash());
    (Transaction::from(tx.into_signed(signature)).encoded_2718().into(), key(200).address())
}

fn with_nonce(nonce: u64) -> Account {
    Account { nonce, balance: U256::ONE, code_hash: KECCAK256_EMPTY }
}

type TestBlock = (Vec<(Bytes, Address)>, Vec<(Address, Account)>);

struct Chain {
    _folder: tempfile::TempDir,
    view: View,
    keys: PublicKeys,
}

impl Chain {
    fn new(blocks: &[TestBlock]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = ChainOptions { map_bytes: 1 << 26 };
        let chain = ChainDb::open(folder.path().join("chain"), options).unwrap();
        let index = IndexDb::open(folder.path().join("index"), IndexOptions { map_bytes: 1 << 26 });
        let index = index.unwrap();
        let mut head = Header::default();
        for (number, (txs, accounts)) in (0..).zip(blocks) {
            let change = |&(address, account): &(Address, Account)| {
                let account = Some(account);
                AccountChange { address, account, wiped: false, slots: Vec::new() }
            };
            let mut accounts: Vec<_> = accounts.iter().map(change).collect();
            accounts.sort_by_key(|change| change.address);
            let changes = Arc::new(StateChanges { accounts, codes: Vec::new() });
            head = Header { number, ..Header::default() };
            let (transactions, senders) = txs.iter().cloned().unzip();
            let block = Block { transactions, ..Block::default() };
            let record = BlockRecord {
                number,
                hash: head.hash_slow(),
                flags: storage::BlockFlags::NONE,
                header: alloy_rlp::encode(&head).into(),
                body: block.encode_body(),
                senders,
                receipts: Vec::new(),
                changes: Arc::clone(&changes),
                fees: Bytes::new(),
                module: Bytes::new(),
                governance: Vec::new(),
                certificate: None,
            };
            chain.append(&[record]).unwrap();
            let flush = FlushBlock {
                number,
                hash: head.hash_slow(),
                tx_hashes: &[],
                posting_keys: &[],
                changes: &changes,
            };
            index.flush(&[flush]).unwrap();
        }
        let next = head.number + 1;
        let head = Head {
            hash: head.hash_slow(),
            header: Arc::new(head),
            next_base_fee: 0,
            modules: None,
        };
        let chain = ChainView::new(chain, head.header.number, head.hash);
        let view = View { head, state: StateView::before(next, index), chain, undone: 0 };
        Self { _folder: folder, view, keys: PublicKeys::default() }
    }

    /// Returns the result of a query at the head, and the work that it took.
    fn query(&self, address: Address) -> (Option<PublicKey>, SearchWork) {
        self.query_at(self.view.number(), address)
    }

    fn query_at(&self, height: u64, address: Address) -> (Option<PublicKey>, SearchWork) {
        let account = self.view.state.reader_at(height).unwrap().account(address).unwrap();
        let mut work = SearchWork::default();
        let account = account.unwrap_or_default();
        let found = self.keys.of_counted(&self.view, CHAIN_ID, address, &account, &mut work);
        (found.unwrap(), work)
    }
}

#[test]
fn one_transaction_of_a_large_block_is_decoded_once() {
    let signer = key(1).address();
    let mut txs = vec![transfer(2, 0); LARGE_BLOCK_TXS];
    for (position, nonce) in [(10_766, 0), (10_900, 1)] {
        txs[position] = transfer(1, nonce);
    }
    let chain = Chain::new(&[
        (Vec::new(), vec![(signer, with_nonce(0))]),
        (txs, vec![(signer, with_nonce(2))]),
    ]);
    let (found, work) = chain.query(signer);
    assert_eq!(found, Some(key(1).public_key()));
    let once = SearchWork { sender_lists: 1, bodies: 1, decoded: 1, recovered: 1 };
    assert_eq!(work, once);
    let (again, work) = chain.query(signer);
    assert_eq!((again, work), (found, SearchWork::default()));
    assert_eq!(chain.query_at(0, signer), (None, SearchWork::default()), "nothing was signed yet");
}

#[test]
fn accounts_without_signatures_read_no_block() {
    let [paid, contract] = [3, 4].map(Address::repeat_byte);
    let code = Account { code_hash: B256::repeat_byte(7), ..with_nonce(1) };
    let chain = Chain::new(&[
        (Vec::new(), vec![(contract, code)]),
        (vec![transfer(2, 0)], vec![(paid, with_nonce(0))]),
    ]);
    for address in [paid, contract, Address::repeat_byte(5)] {
        assert_eq!(chain.query(address), (None, SearchWork::default()), "{address}");
    }
}

#[test]
fn signer_of_only_authorizations_is_found_within_the_limits() {
    let signer = key(1).address();
    let search = |txs: Vec<_>| {
        let accounts = vec![(signer, with_nonce(1))];
        Chain::new(&[(Vec::new(), Vec::new()), (txs, accounts)]).query(signer)
    };
    // An authorization with another nonce cannot be the account's first one and is not tried.
    let others: Vec<_> = (10..30).map(|byte| (byte, 7)).chain([(1, 0)]).collect();
    let (found, work) = search(vec![transfer(2, 0), delegating(&others)]);
    assert_eq!(found, Some(key(1).public_key()));
    let expected = SearchWork { sender_lists: 1, bodies: 1, decoded: 1, recovered: 1 };
    assert_eq!(work, expected);
    // The signer is in the last authorization that is tried, and in the first one that is not.
    for (before, is_found) in
        [(MAX_AUTHORIZATIONS_TRIED - 1, true), (MAX_AUTHORIZATIONS_TRIED, false)]
    {
        let signers: Vec<_> = (0..before).map(|at| (10 + at as u8, 0)).chain([(1, 0)]).collect();
        let (found, work) = search(vec![delegating(&signers)]);
        assert_eq!((found.is_some(), work.recovered), (is_found, MAX_AUTHORIZATIONS_TRIED));
    }
    // Transactions with authorizations are only decoded up to a total number of bytes.
    let other = delegating(&[(10, 7)]);
    let fit = MAX_AUTHORIZATION_TX_BYTES / other.0.len();
    let (found, work) = search([vec![other; 1000], vec![delegating(&[(1, 0)])]].concat());
    assert_eq!((found, work.decoded, work.recovered), (None, fit, 0));
}

#[test]
fn key_is_found_in_the_last_block_if_not_in_the_first() {
    let signer = key(1).address();
    let signers: Vec<_> = (10..40).map(|byte| (byte, 0)).chain([(1, 0)]).collect();
    let blocks = [
        (Vec::new(), Vec::new()),
        (vec![delegating(&signers)], vec![(signer, with_nonce(1))]),
        (vec![transfer(2, 0), transfer(1, 1)], vec![(signer, with_nonce(2))]),
    ];
    let before = Chain::new(&blocks[..2]);
    assert_eq!(before.query(signer).0, None);
    assert_eq!(before.query(signer), (None, SearchWork::default()), "the missing key is cached");
    let after = Chain::new(&blocks);
    let (found, work) = after.query(signer);
    assert_eq!(found, Some(key(1).public_key()));
    assert_eq!(work, SearchWork { sender_lists: 2, bodies: 1, decoded: 1, recovered: 1 });
}

#[test]
fn search_is_repeated_after_the_nonce_has_increased() {
    let cached = |nonce| Cached { genesis_nonce: 0, outcome: Outcome::NoneUpTo { nonce } };
    let signer = key(1).address();
    let chain = Chain::new(&[
        (Vec::new(), Vec::new()),
        (vec![transfer(1, 0)], vec![(signer, with_nonce(1))]),
    ]);
    chain.keys.entries(0).put(signer, cached(1));
    assert_eq!(chain.query(signer).0, None);
    chain.keys.entries(0).put(signer, cached(0));
    assert_eq!(chain.query(signer).0, Some(key(1).public_key()));
}

#[test]
fn cache_is_bounded_and_keeps_used_entries() {
    let mut cache = Generations::default();
    let address = |number: usize| Address::left_padding_from(&number.to_be_bytes());
    let cached = Cached { genesis_nonce: 0, outcome: Outcome::NoneUpTo { nonce: 1 } };
    for number in 0..3 * MAX_CACHED_ACCOUNTS {
        cache.put(address(number), cached);
        assert!(cache.get(address(0)).is_some(), "the entry is used in each round");
        assert!(cache.recent.len() + cache.older.len() <= MAX_CACHED_ACCOUNTS);
    }
    assert!(cache.get(address(1)).is_none());
}
