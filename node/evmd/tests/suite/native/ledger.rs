//! Builds a chain of blocks on an in-memory map of accounts.

use crate::common::both_ways::{FastHost, execute_block_both_ways};
use alloy_consensus::{
    Header, SignableTransaction, Signed, TxEip1559, TxEip7702, TxLegacy,
    transaction::Transaction as _,
};
use alloy_eips::eip7702::{Authorization, SignedAuthorization};
use alloy_primitives::{
    Address, B256, Bytes, KECCAK256_EMPTY, Signature, TxKind, U256, hex, keccak256,
};
use chain::{ChainSpec, DEV_ACCOUNTS, FEE_COLLECTOR, Genesis};
use evm::{
    BlockBuilder, BlockInput, Executed, ExecutionError, ExecutionHost, PARENT_UNKNOWN,
    ParentUnknown, StateError, TxError, put_parent_hash,
};
use modules::Modules;
use secp256k1::{Message, SecretKey, ecdsa::RecoverableSignature};
use std::{collections::BTreeMap, convert::Infallible, sync::OnceLock};
use storage::{Account, ReceiptOutcome, StateChanges, StateRead};
use transactions::{RecoveredTx, Transaction};

pub(crate) const GWEI: u128 = 1_000_000_000;

/// Accounts with their storage, and contract codes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    pub(crate) accounts: BTreeMap<Address, (Account, BTreeMap<U256, U256>)>,
    codes: BTreeMap<B256, Bytes>,
}

impl Ledger {
    pub(crate) fn apply(&mut self, changes: &StateChanges) {
        self.codes.extend(changes.codes.iter().cloned());
        for change in &changes.accounts {
            let Some(account) = change.account else {
                self.accounts.remove(&change.address);
                continue;
            };
            let (stored, slots) = self.accounts.entry(change.address).or_default();
            *stored = account;
            if change.wiped {
                slots.clear();
            }
            slots.extend(change.slots.iter().copied());
        }
    }

    pub(crate) fn put(&mut self, address: Address, balance: U256, code: &[u8]) {
        let code_hash = keccak256(code);
        self.codes.insert(code_hash, Bytes::copy_from_slice(code));
        let account = Account { nonce: 0, balance, code_hash };
        self.accounts.insert(address, (account, BTreeMap::new()));
    }

    pub(crate) fn get(&self, address: Address) -> Account {
        self.accounts.get(&address).map(|(account, _)| *account).unwrap_or_default()
    }

    pub(crate) fn code_at(&self, address: Address) -> Bytes {
        self.codes.get(&self.get(address).code_hash).cloned().unwrap_or_default()
    }

    /// Returns the sum of all balances.
    pub(crate) fn supply(&self) -> U256 {
        self.accounts.values().map(|(account, _)| account.balance).sum()
    }
}

impl StateRead for Ledger {
    type Error = Infallible;

    fn account(&self, address: Address) -> Result<Option<Account>, Infallible> {
        Ok(self.accounts.get(&address).map(|(account, _)| *account))
    }

    fn storage(&self, address: Address, slot: U256) -> Result<U256, Infallible> {
        let slots = self.accounts.get(&address).map(|(_, slots)| slots);
        Ok(slots.and_then(|slots| slots.get(&slot)).copied().unwrap_or_default())
    }

    fn code(&self, code_hash: B256) -> Result<Bytes, Infallible> {
        if code_hash == KECCAK256_EMPTY {
            return Ok(Bytes::new());
        }
        Ok(self.codes[&code_hash].clone())
    }

    fn has_storage(&self, address: Address) -> Result<bool, Infallible> {
        Ok(self.accounts.get(&address).is_some_and(|(_, slots)| !slots.is_empty()))
    }
}

/// A native chain that is built block by block.
#[derive(Clone)]
pub(crate) struct Chain {
    pub(crate) spec: ChainSpec,
    pub(crate) ledger: Ledger,
    pub(crate) modules: Modules,
    pub(crate) header: Header,
}

/// A built block, and the result of each transaction.
pub(crate) struct Built {
    pub(crate) executed: Executed,
    pub(crate) verdicts: Vec<Result<u64, TxError>>,
    pub(crate) header: Header,
}

impl Built {
    /// Returns whether the receipt at `index` has the status success.
    pub(crate) fn succeeded(&self, index: usize) -> bool {
        self.executed.receipts[index].outcome == ReceiptOutcome::Status(true)
    }
}

impl Chain {
    /// Creates the development chain with these values in the section `config.evmd` of its genesis file.
    pub(crate) fn with(section: serde_json::Value) -> Self {
        Self::from_genesis(|file| {
            for (key, value) in section.as_object().unwrap() {
                file["config"]["evmd"][key] = value.clone();
            }
        })
    }

    /// Creates the development chain with a changed genesis file.
    pub(crate) fn from_genesis(change: impl FnOnce(&mut serde_json::Value)) -> Self {
        let mut file: serde_json::Value =
            serde_json::from_str(&Genesis::native_dev(1_700_000_000).to_json()).unwrap();
        change(&mut file);
        let genesis = Genesis::from_json(&file.to_string()).unwrap();
        let mut ledger = Ledger::default();
        ledger.apply(&genesis.state());
        let header = genesis.header();
        let modules = Modules::genesis(genesis.spec.native().unwrap());
        Self { spec: genesis.spec, ledger, modules, header }
    }

    pub(crate) fn new() -> Self {
        Self::with(serde_json::json!({}))
    }

    /// Builds the next block from the valid transactions and applies it. Asserts that the result is the same if the
    /// block is executed as an imported block, and if it is built before the hash of its parent is known.
    pub(crate) fn block(&mut self, txs: &[RecoveredTx]) -> Built {
        let native = self.spec.native().unwrap();
        let mut modules = self.modules.clone();
        let number = self.header.number + 1;
        modules.market.begin_block(number, native.max_gas);
        let header = Header {
            number,
            timestamp: self.header.timestamp + 1,
            parent_hash: self.header.hash_slow(),
            base_fee_per_gas: Some(modules.market.base_fee_wei()),
            gas_used: 0,
            ..self.header.clone()
        };
        let hashes = |_: u64| None;
        let root = |_: &StateChanges| Ok(B256::ZERO);
        let mut builder =
            BlockBuilder::start(&self.spec, &self.ledger, &hashes, Some(&modules), &header)
                .unwrap();
        let verdicts: Vec<_> = txs.iter().map(|tx| builder.push(tx, &root).unwrap()).collect();
        let executed = builder.finish(&[], Some(&[])).unwrap();
        let valid: Vec<_> =
            txs.iter().zip(&verdicts).filter(|(_, v)| v.is_ok()).map(|(tx, _)| tx).collect();
        let input = BlockInput {
            header: &header,
            transactions: &valid.into_iter().cloned().collect::<Vec<_>>(),
            ommers: &[],
            withdrawals: Some(&[]),
        };
        let again = execute_block_both_ways(
            &self.spec,
            &self.ledger,
            &hashes,
            &root,
            Some(&modules),
            &input,
        );
        assert_eq!(again.unwrap(), executed, "the imported block has a different result");
        match self.block_before_parent(&modules, &header, txs) {
            Ok(again) => {
                assert_eq!(again, executed, "the result differs before the parent's hash is known");
            }
            Err(error) => assert!(ParentUnknown::is_reason(&error), "{error}"),
        }
        modules.market.end_block(executed.gas_wanted, executed.gas_used).unwrap();
        self.ledger.apply(&executed.changes);
        self.modules = modules;
        self.header = header.clone();
        Built { executed, verdicts, header }
    }
}

impl Chain {
    /// Builds the block of these transactions before the hash of its parent is known.
    pub(crate) fn block_before_parent(
        &self,
        modules: &Modules,
        header: &Header,
        txs: &[RecoveredTx],
    ) -> Result<Executed, ExecutionError> {
        let unknown = Header { parent_hash: PARENT_UNKNOWN, ..header.clone() };
        let (host, root) = (NoParentHash(header.number - 1), |_: &StateChanges| Ok(B256::ZERO));
        let host = FastHost(&host);
        let mut builder = BlockBuilder::start_before_parent(
            &self.spec,
            &self.ledger,
            &host,
            Some(modules),
            &unknown,
        )?;
        for tx in txs {
            // Invalid transactions are omitted.
            let _ = builder.push(tx, &root)?;
        }
        let mut executed = builder.finish(&[], Some(&[]))?;
        put_parent_hash(&mut executed.changes, header.number, header.parent_hash);
        Ok(executed)
    }
}

/// A host without block hashes. A request for the hash of block `self.0`, which is the parent, fails with
/// [`ParentUnknown`].
struct NoParentHash(u64);

impl ExecutionHost for NoParentHash {
    fn block_hash(&self, number: u64) -> Result<Option<B256>, StateError> {
        if number == self.0 { Err(ParentUnknown.into()) } else { Ok(None) }
    }
}

pub(crate) fn dev(index: usize) -> Address {
    DEV_ACCOUNTS[index].address
}

pub(crate) fn collected(chain: &Chain) -> U256 {
    chain.ledger.get(FEE_COLLECTOR).balance
}

/// Returns a transaction whose sender is not checked: execution does not verify signatures.
pub(crate) fn from<T: SignableTransaction<Signature>>(sender: Address, tx: T) -> RecoveredTx
where
    Transaction: From<Signed<T>>,
{
    let tx = Transaction::from(tx.into_signed(Signature::test_signature()));
    let unique = [sender.as_slice(), &tx.nonce().to_be_bytes()].concat();
    RecoveredTx {
        raw: Bytes::new(),
        tx,
        hash: keccak256(unique),
        sender,
        high_s: false,
        authorities: OnceLock::new(),
        cosmos: None,
    }
}

pub(crate) fn call(nonce: u64, to: Address, gas_limit: u64) -> TxEip1559 {
    TxEip1559 {
        chain_id: 262_144,
        nonce,
        gas_limit,
        max_fee_per_gas: 100 * GWEI,
        max_priority_fee_per_gas: GWEI / 10,
        to: TxKind::Call(to),
        ..TxEip1559::default()
    }
}

pub(crate) fn legacy(nonce: u64, to: Address, gas_limit: u64) -> TxLegacy {
    TxLegacy {
        chain_id: Some(262_144),
        nonce,
        gas_limit,
        gas_price: 2 * GWEI,
        to: TxKind::Call(to),
        ..TxLegacy::default()
    }
}

pub(crate) fn set_code(nonce: u64, to: Address, list: Vec<SignedAuthorization>) -> TxEip7702 {
    TxEip7702 {
        chain_id: 262_144,
        nonce,
        gas_limit: 200_000,
        max_fee_per_gas: 100 * GWEI,
        max_priority_fee_per_gas: GWEI / 2,
        to,
        authorization_list: list,
        ..TxEip7702::default()
    }
}

/// Returns an authorization that delegates development account `index` to the code of `address`.
pub(crate) fn authorize(index: usize, address: Address, nonce: u64) -> SignedAuthorization {
    let authorization = Authorization { chain_id: U256::ZERO, address, nonce };
    let key = SecretKey::from_secret_bytes(DEV_ACCOUNTS[index].private_key.0).unwrap();
    let message = Message::from_digest(authorization.signature_hash().0);
    let signature = RecoverableSignature::sign_ecdsa_recoverable(message, &key);
    let (id, compact) = signature.serialize_compact();
    let signature = Signature::from_bytes_and_parity(&compact, id.to_u8() & 1 == 1);
    authorization.into_signed(signature)
}

/// Reverts without data.
pub(crate) const REVERT: &[u8] = &hex!("5f5ffd");
/// Stores 1 in slot 0.
pub(crate) const STORE: &[u8] = &hex!("60015f5500");
/// Sets slot 0 to zero, which causes a refund.
pub(crate) const CLEAR: &[u8] = &hex!("5f5f5500");
/// Uses up all gas.
pub(crate) const INVALID: &[u8] = &hex!("fe");
