//! Results that a replica receives with a block. They are checked against the header and then used instead of executing
//! the block.
//!
//! The header commits to the transactions, the receipts and the state. From rules version 2 on it also commits to the
//! senders and the events. The parts that it does not commit to directly are checked here: the order of the state
//! changes, the storage of removed accounts, and the code of accounts.

use super::modules_block::ModulesOutcome;
use alloy_consensus::Header;
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256, keccak256};
use chain::{ChainSpec, Fork, Violation};
use evm::Executed;
use feemarket::store::Record;
use modules::{Modules, gov};
use std::{collections::BTreeSet, sync::Arc};
use storage::{
    Account, AccountChange, GovernanceRow, ReadError, StateChanges, StateRead, StoredReceipt,
};
use transactions::{RecoveredTx, participants};

/// The data that a source sends with a block in addition to its header and body.
#[derive(Clone, Debug, Default)]
pub struct ReceivedParts {
    /// The receipt of each transaction.
    pub receipts: Vec<StoredReceipt>,
    /// The state changes of the block.
    pub changes: StateChanges,
    /// The row of the native modules; empty on other chains.
    pub module: Bytes,
    /// The governance rows that the block changed.
    pub governance: Vec<GovernanceRow>,
}

/// The reason why a received part is wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReceivedError {
    /// The number of receipts is not the number of transactions.
    #[error("{receipts} receipts for {transactions} transactions")]
    Receipts {
        /// The number of receipts.
        receipts: usize,
        /// The number of transactions.
        transactions: usize,
    },
    /// The cumulative gas decreases from one receipt to the next.
    #[error("receipt {0} has less cumulative gas than the one before it")]
    CumulativeGas(usize),
    /// The addresses of changed accounts do not ascend strictly.
    #[error("the change of account {0} is not in ascending order")]
    AccountOrder(Address),
    /// The changed slots of an account do not ascend strictly.
    #[error("the changed slots of account {0} are not in ascending order")]
    SlotOrder(Address),
    /// The storage of a removed account does not change as the rules of the fork require.
    #[error("the storage of removed account {0} does not change as the fork requires")]
    StorageOfRemoved(Address),
    /// An account or slot that is listed as changed has the same value as before.
    #[error("account {0} is listed as changed, but it or one of its slots is not")]
    Unchanged(Address),
    /// Code was sent that no changed account uses.
    #[error("no account of the block has the code with hash {0}")]
    UnusedCode(B256),
    /// A code does not have the hash that was sent with it.
    #[error("the code that was sent for hash {expected} has the hash {found}")]
    CodeHash {
        /// The hash that was sent with it.
        expected: B256,
        /// The Keccak-256 of the code.
        found: B256,
    },
    /// The hashes of codes do not ascend strictly.
    #[error("code {0} is not in ascending order of hashes")]
    CodeOrder(B256),
    /// An account has code that is neither stored nor received.
    #[error(
        "account {address} has the code hash {hash}, but that code is neither stored nor in the block"
    )]
    MissingCode {
        /// The account.
        address: Address,
        /// The hash of its code.
        hash: B256,
    },
    /// The module row is not the one that the header commits to.
    #[error("module row: {0}")]
    Module(String),
    /// A value differs from the header.
    #[error(transparent)]
    Header(#[from] Violation),
    /// The state before the block could not be read.
    #[error("the state before the block cannot be read: {0}")]
    State(#[source] ReadError),
}

impl ReceivedError {
    /// Returns whether the source is at fault rather than this node.
    pub(super) const fn is_source_at_fault(&self) -> bool {
        !matches!(self, Self::State(_))
    }
}

/// Builds what executing a block would return from the results that were received with it. Roots are compared later, as
/// for other blocks.
pub(super) fn executed(
    txs: &[Arc<RecoveredTx>],
    received: &mut ReceivedParts,
    fork: Fork,
    before: &impl StateRead<Error = ReadError>,
) -> Result<Executed, ReceivedError> {
    let receipts = std::mem::take(&mut received.receipts);
    let changes = std::mem::take(&mut received.changes);
    if receipts.len() != txs.len() {
        let (receipts, transactions) = (receipts.len(), txs.len());
        return Err(ReceivedError::Receipts { receipts, transactions });
    }
    let tx_gas = gas_per_transaction(&receipts)?;
    check_changes(&changes, fork, before)?;
    let named = txs.iter().flat_map(|tx| participants(&tx.tx, tx.sender, tx.cosmos.as_deref()));
    Ok(Executed {
        gas_used: receipts.last().map_or(0, |receipt| receipt.cumulative_gas_used),
        tx_gas,
        senders: txs.iter().map(|tx| tx.sender).collect(),
        named: named.collect(),
        blob_gas_used: txs.iter().map(|tx| tx.blob_gas()).sum(),
        receipts,
        changes,
        ..Executed::default()
    })
}

fn gas_per_transaction(receipts: &[StoredReceipt]) -> Result<Vec<u64>, ReceivedError> {
    let mut before = 0;
    let gas = |(index, receipt): (usize, &StoredReceipt)| {
        let used = receipt.cumulative_gas_used.checked_sub(before);
        before = receipt.cumulative_gas_used;
        used.ok_or(ReceivedError::CumulativeGas(index))
    };
    receipts.iter().enumerate().map(gas).collect()
}

/// Checks what a state root does not prove: that the changes are exactly those that execution would return. Execution
/// returns each account and slot whose value differs afterwards, in ascending order, and the code that is new to an
/// account.
fn check_changes(
    changes: &StateChanges,
    fork: Fork,
    before: &impl StateRead<Error = ReadError>,
) -> Result<(), ReceivedError> {
    for pair in changes.accounts.windows(2) {
        if pair[0].address >= pair[1].address {
            return Err(ReceivedError::AccountOrder(pair[1].address));
        }
    }
    let mut last = None;
    for (hash, code) in &changes.codes {
        let (expected, found) = (*hash, keccak256(code));
        if found != expected {
            return Err(ReceivedError::CodeHash { expected, found });
        }
        if last >= Some(expected) {
            return Err(ReceivedError::CodeOrder(expected));
        }
        last = Some(*hash);
    }
    let addresses: Vec<_> = changes.accounts.iter().map(|change| change.address).collect();
    let accounts = before.accounts(&addresses).map_err(ReceivedError::State)?;
    let mut used = BTreeSet::new();
    for (change, account) in changes.accounts.iter().zip(accounts) {
        check_account(change, account, fork, before)?;
        used.extend(check_code(change, account, changes, before)?);
    }
    match changes.codes.iter().find(|(hash, _)| !used.contains(hash)) {
        Some((hash, _)) => Err(ReceivedError::UnusedCode(*hash)),
        None => Ok(()),
    }
}

fn check_account(
    change: &AccountChange,
    account: Option<Account>,
    fork: Fork,
    before: &impl StateRead<Error = ReadError>,
) -> Result<(), ReceivedError> {
    let AccountChange { address, account: after, wiped, slots } = change;
    let address = *address;
    if slots.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
        return Err(ReceivedError::SlotOrder(address));
    }
    if account == *after && slots.is_empty() && !wiped || *wiped && account.is_none() {
        return Err(ReceivedError::Unchanged(address));
    }
    let clears = *wiped || after.is_none();
    let has_storage = clears && before.has_storage(address).map_err(ReceivedError::State)?;
    // EIP-6780: from Cancun on, only the transaction that created an account can remove it, so it had no storage.
    if has_storage && (!wiped || fork >= Fork::Cancun) || after.is_none() && !slots.is_empty() {
        return Err(ReceivedError::StorageOfRemoved(address));
    }
    let keys: Vec<_> = slots.iter().map(|(slot, _)| *slot).collect();
    let values = match *wiped || account.is_none() {
        true => vec![U256::ZERO; keys.len()],
        false => before.slots(address, &keys).map_err(ReceivedError::State)?,
    };
    match slots.iter().zip(values).any(|((_, after), before)| *after == before) {
        true => Err(ReceivedError::Unchanged(address)),
        false => Ok(()),
    }
}

/// Returns the hash of the new code of an account if that code was sent with the block.
fn check_code(
    change: &AccountChange,
    account: Option<Account>,
    changes: &StateChanges,
    before: &impl StateRead<Error = ReadError>,
) -> Result<Option<B256>, ReceivedError> {
    let hash = change.account.map_or(KECCAK256_EMPTY, |account| account.code_hash);
    let known = account.map_or(KECCAK256_EMPTY, |account| account.code_hash);
    if hash == known || hash == KECCAK256_EMPTY {
        return Ok(None);
    }
    if changes.codes.binary_search_by_key(&hash, |(hash, _)| *hash).is_ok() {
        return Ok(Some(hash));
    }
    // Accounts share code, so the code may have been stored for another account.
    match before.code(hash) {
        Ok(_) => Ok(None),
        Err(ReadError::MissingCode { .. }) => {
            Err(ReceivedError::MissingCode { address: change.address, hash })
        }
        Err(error) => Err(ReceivedError::State(error)),
    }
}

/// Returns the modules after a native block, from the results that were received with it.
pub(super) fn modules_outcome(
    spec: &ChainSpec,
    before: &Modules,
    header: &Header,
    senders: &[Address],
    received: &ReceivedParts,
) -> Result<Option<ModulesOutcome>, ReceivedError> {
    let Some(native) = spec.native() else { return Ok(None) };
    let wrong = |text: String| ReceivedError::Module(text);
    let number = header.number;
    let record = Record::from_bytes(&received.module).map_err(|error| wrong(error.to_string()))?;
    let mut modules =
        Modules::of_record(&record, native).map_err(|error| wrong(error.to_string()))?;
    let (gov, governance) =
        gov::store::after_block(&before.gov, native, number, &record, &received.governance)
            .map_err(|error| wrong(error.to_string()))?;
    modules.gov = gov;
    let Record { row, events, gov } = record;
    let expected = modules.record(native, number, senders.iter().copied(), events);
    if expected.row != row {
        return Err(wrong(
            "it differs from the row computed from the modules, senders and events of the block"
                .to_owned(),
        ));
    }
    let record = Record { gov, ..expected };
    let outcome = ModulesOutcome { modules: Arc::new(modules), record, governance };
    outcome.check(header)?;
    Ok(Some(outcome))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// The state before a block.
    #[derive(Default)]
    struct Before {
        accounts: BTreeMap<Address, Account>,
        slots: BTreeMap<(Address, U256), U256>,
    }

    impl StateRead for Before {
        type Error = ReadError;

        fn account(&self, address: Address) -> Result<Option<Account>, ReadError> {
            Ok(self.accounts.get(&address).copied())
        }

        fn storage(&self, address: Address, slot: U256) -> Result<U256, ReadError> {
            Ok(self.slots.get(&(address, slot)).copied().unwrap_or_default())
        }

        fn code(&self, code_hash: B256) -> Result<Bytes, ReadError> {
            let (path, remedy) = (std::path::PathBuf::new(), "");
            Err(ReadError::MissingCode { path, code_hash, remedy })
        }

        fn has_storage(&self, address: Address) -> Result<bool, ReadError> {
            Ok(self.slots.keys().any(|(of, _)| *of == address))
        }
    }

    const FUNDED: Address = Address::repeat_byte(1);
    const CONTRACT: Address = Address::repeat_byte(2);
    const NEW: Address = Address::repeat_byte(3);

    fn account(balance: u64) -> Account {
        Account { balance: U256::from(balance), ..Account::default() }
    }

    /// Returns two accounts with a balance of 5. Slot 1 of the second one holds 7.
    fn before() -> Before {
        let accounts = [FUNDED, CONTRACT].map(|address| (address, account(5)));
        let slots = [((CONTRACT, U256::from(1)), U256::from(7))];
        Before { accounts: accounts.into(), slots: slots.into() }
    }

    fn change(address: Address, after: Option<Account>, slots: &[(u64, u64)]) -> AccountChange {
        let slots = slots.iter().map(|(slot, value)| (U256::from(*slot), U256::from(*value)));
        AccountChange { address, account: after, wiped: false, slots: slots.collect() }
    }

    fn check(accounts: Vec<AccountChange>, codes: Vec<(B256, Bytes)>, fork: Fork) -> String {
        match check_changes(&StateChanges { accounts, codes }, fork, &before()) {
            Ok(()) => "accepted".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn changes_of_an_execution_are_accepted_and_others_are_not() {
        let wiped = |change| AccountChange { wiped: true, ..change };
        let some = |balance| Some(account(balance));
        let cases: [(Vec<AccountChange>, &str); 18] = [
            (vec![], "accepted"),
            (vec![change(FUNDED, some(6), &[]), change(NEW, some(1), &[])], "accepted"),
            (vec![change(CONTRACT, some(5), &[(1, 8)])], "accepted"),
            (vec![change(CONTRACT, some(5), &[(1, 0), (2, 1)])], "accepted"),
            (vec![change(NEW, some(1), &[(9, 9)])], "accepted"),
            (vec![change(FUNDED, None, &[])], "accepted"),
            (vec![wiped(change(FUNDED, None, &[]))], "accepted"),
            (vec![change(FUNDED, some(5), &[])], "is listed as changed"),
            (vec![change(NEW, None, &[])], "is listed as changed"),
            (vec![wiped(change(NEW, some(1), &[]))], "is listed as changed"),
            (vec![change(CONTRACT, some(6), &[(1, 7)])], "is listed as changed"),
            (vec![change(CONTRACT, some(6), &[(2, 0)])], "is listed as changed"),
            (vec![change(NEW, some(1), &[(2, 0)])], "is listed as changed"),
            (vec![change(CONTRACT, some(6), &[(2, 1), (1, 8)])], "slots of account"),
            (vec![change(CONTRACT, some(6), &[(2, 1), (2, 1)])], "slots of account"),
            (vec![change(CONTRACT, None, &[])], "storage of removed account"),
            (vec![change(FUNDED, None, &[(1, 1)])], "storage of removed account"),
            (vec![change(NEW, some(1), &[]), change(FUNDED, some(6), &[])], "ascending order"),
        ];
        for (accounts, expected) in cases {
            let found = check(accounts.clone(), Vec::new(), Fork::Prague);
            assert!(found.contains(expected), "{accounts:?}: {found}");
        }
        let twice = vec![change(FUNDED, some(6), &[]), change(FUNDED, some(7), &[])];
        assert!(check(twice, Vec::new(), Fork::Prague).contains("ascending order"));
        // EIP-6780: before Cancun, a contract with storage could be removed.
        for after in [None, some(5)] {
            let removed = vec![wiped(change(CONTRACT, after, &[]))];
            assert_eq!(check(removed.clone(), Vec::new(), Fork::Shanghai), "accepted");
            assert!(
                check(removed, Vec::new(), Fork::Cancun).contains("storage of removed account")
            );
        }
    }

    #[test]
    fn code_is_present_and_used() {
        let code = Bytes::from_static(&[0x60]);
        let hash = keccak256(&code);
        let with = |code_hash| {
            let account = Account { code_hash, ..account(1) };
            vec![change(NEW, Some(account), &[])]
        };
        let received = vec![(hash, code.clone())];
        assert_eq!(check(with(hash), received.clone(), Fork::Prague), "accepted");
        assert!(check(with(hash), Vec::new(), Fork::Prague).contains("neither stored nor"));
        assert!(check(vec![], received.clone(), Fork::Prague).contains("no account of the block"));
        let wrong = vec![(B256::repeat_byte(1), code)];
        assert!(check(with(B256::repeat_byte(1)), wrong, Fork::Prague).contains("has the hash"));
        let twice = [received.clone(), received].concat();
        assert!(check(with(hash), twice, Fork::Prague).contains("ascending order of hashes"));
    }

    #[test]
    fn gas_of_transactions_is_the_difference_of_receipts() {
        let receipt = |cumulative_gas_used| StoredReceipt {
            tx_type: 2,
            outcome: storage::ReceiptOutcome::Status(true),
            cumulative_gas_used,
            logs: Vec::new(),
        };
        let gas = gas_per_transaction(&[5, 5, 12].map(receipt));
        assert_eq!(gas.unwrap(), [5, 0, 7]);
        let error = gas_per_transaction(&[5, 4].map(receipt)).unwrap_err();
        assert!(matches!(error, ReceivedError::CumulativeGas(1)), "{error}");
    }
}
