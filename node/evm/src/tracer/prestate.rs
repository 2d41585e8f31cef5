//! Adds data that geth's `prestateTracer` shows but the inspector does not: code hashes, slots of destroyed accounts
//! and, if requested, accounts that did not exist before.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256};
use alloy_rpc_types_trace::geth::{AccountState, DiffMode, PreStateFrame, PreStateMode};
use revm::{
    DatabaseRef,
    bytecode::Bytecode,
    state::{Account as Touched, EvmState},
};
use serde::Serialize;
use serde_json::Value;

use super::is_set;

/// An account in the output.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Account {
    #[serde(flatten)]
    state: AccountState,
    /// Before the transaction: set if there is code. After it: set if the code changed, even to none.
    #[serde(skip_serializing_if = "Option::is_none")]
    code_hash: Option<B256>,
}

impl Account {
    /// Returns whether the account did not exist, according to the fields that are shown.
    fn is_empty(&self) -> bool {
        self.state.balance.unwrap_or_default().is_zero()
            && self.state.nonce.unwrap_or_default() == 0
            && self.code_hash.is_none()
    }
}

type Accounts = BTreeMap<Address, Account>;

/// The output for a transaction.
#[derive(Serialize)]
#[serde(untagged)]
enum Shown {
    /// The accounts before the transaction.
    Before(Accounts),
    /// The accounts before the transaction, and their changes.
    Changed { post: Accounts, pre: Accounts },
}

/// Returns the number of hexadecimal digits of the code that is shown.
pub(super) fn code_digits(frame: &PreStateFrame) -> usize {
    let of = |accounts: &BTreeMap<Address, AccountState>| {
        let code = accounts.values().filter_map(|account| account.code.as_ref());
        code.map(|code| code.len()).sum::<usize>()
    };
    2 * match frame {
        PreStateFrame::Default(PreStateMode(accounts)) => of(accounts),
        PreStateFrame::Diff(DiffMode { post, pre }) => of(post) + of(pre),
    }
}

/// Converts the inspector's result to geth's form with these settings. The transaction was executed on `before` and
/// resulted in `touched`. The caller has added the accounts in `looked_up`.
///
/// # Errors
/// If `before` cannot be read.
pub(super) fn show<D: DatabaseRef>(
    frame: PreStateFrame,
    config: &Value,
    to: Option<&Address>,
    looked_up: &[Address],
    touched: &EvmState,
    before: &D,
) -> Result<Value, D::Error> {
    let shown = match frame {
        PreStateFrame::Default(PreStateMode(mut accounts)) => {
            if is_set(config, "includeEmpty") {
                add_empty(&mut accounts, touched, !is_set(config, "disableStorage"));
            }
            if let Some(delegate) = new_delegate(to, touched, before)?
                && !looked_up.contains(&delegate)
            {
                accounts.remove(&delegate);
            }
            Shown::Before(with_hashes(accounts, before)?)
        }
        PreStateFrame::Diff(DiffMode { post, mut pre }) => {
            if !is_set(config, "disableStorage") {
                add_destroyed_slots(&mut pre, touched);
            }
            let mut pre = with_hashes(pre, before)?;
            pre.retain(|_, account| !account.is_empty());
            let post = with_new_hashes(post, !is_set(config, "disableCode"), touched, before)?;
            Shown::Changed { post, pre }
        }
    };
    Ok(serde_json::to_value(shown).expect("plain structures serialise"))
}

/// Returns the account to which the transaction makes its recipient `to` delegate (EIP-7702), if nothing else touches
/// this account. geth reads the recipient's code before the delegation, so it does not show the account.
fn new_delegate<D: DatabaseRef>(
    to: Option<&Address>,
    touched: &EvmState,
    before: &D,
) -> Result<Option<Address>, D::Error> {
    let Some((to, account)) = to.and_then(|to| touched.get_key_value(to)) else { return Ok(None) };
    let delegate = account.info.code.as_ref().and_then(Bytecode::eip7702_address);
    let is_new = code_hash(before, *to)? != account.info.code_hash;
    let delegate = delegate.filter(|delegate| {
        let is_touched = touched.get(delegate).is_some_and(Touched::is_touched);
        is_new && !is_touched
    });
    Ok(delegate)
}

/// Adds the touched accounts that the inspector left out because they were empty.
fn add_empty(accounts: &mut BTreeMap<Address, AccountState>, touched: &EvmState, storage: bool) {
    for (address, account) in touched {
        accounts.entry(*address).or_insert_with(|| AccountState {
            balance: Some(U256::ZERO),
            storage: if storage { slots_before(account) } else { BTreeMap::new() },
            ..AccountState::default()
        });
    }
}

/// Adds the slots of destroyed accounts. The inspector shows only slots with a new value, and the slots of a
/// destroyed account have none.
fn add_destroyed_slots(pre: &mut BTreeMap<Address, AccountState>, touched: &EvmState) {
    for (address, account) in touched {
        if let Some(shown) = pre.get_mut(address).filter(|_| account.is_selfdestructed()) {
            shown.storage = slots_before(account);
        }
    }
}

fn slots_before(account: &Touched) -> BTreeMap<B256, B256> {
    let slots = account.storage.iter();
    slots.map(|(key, slot)| (B256::from(*key), B256::from(slot.original_value))).collect()
}

/// Returns the code hash of an account; the empty hash if there is no code.
fn code_hash<D: DatabaseRef>(state: &D, address: Address) -> Result<B256, D::Error> {
    Ok(state.basic_ref(address)?.map_or(KECCAK256_EMPTY, |account| account.code_hash))
}

fn with_hashes<D: DatabaseRef>(
    accounts: BTreeMap<Address, AccountState>,
    before: &D,
) -> Result<Accounts, D::Error> {
    let with_hash = |(address, state)| {
        let code_hash = Some(code_hash(before, address)?).filter(|hash| *hash != KECCAK256_EMPTY);
        Ok::<_, D::Error>((address, Account { state, code_hash }))
    };
    accounts.into_iter().map(with_hash).collect()
}

/// Returns accounts after a transaction, with the code hash if the code changed. Removed code is shown as no bytes.
fn with_new_hashes<D: DatabaseRef>(
    accounts: BTreeMap<Address, AccountState>,
    code: bool,
    touched: &EvmState,
    before: &D,
) -> Result<Accounts, D::Error> {
    let bare = |(address, state)| (address, Account { state, code_hash: None });
    let mut accounts: Accounts = accounts.into_iter().map(bare).collect();
    for (address, account) in touched {
        let hash = account.info.code_hash;
        if account.is_selfdestructed() || hash == code_hash(before, *address)? {
            continue;
        }
        let shown = accounts.entry(*address).or_default();
        shown.code_hash = Some(hash);
        if code && hash == KECCAK256_EMPTY {
            shown.state.code = Some(Bytes::new());
        }
    }
    Ok(accounts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use revm::{
        database::InMemoryDB,
        state::{AccountInfo, EvmStorageSlot, TransactionId},
    };
    use serde_json::json;

    const CONTRACT: Address = Address::with_last_byte(1);
    const EOA: Address = Address::with_last_byte(2);
    const ABSENT: Address = Address::with_last_byte(3);

    fn with_code(code: &'static [u8]) -> AccountInfo {
        let code = Bytecode::new_raw(Bytes::from_static(code));
        AccountInfo::from_bytecode(code)
    }

    /// Returns a state with a contract and an account with one wei.
    fn state() -> (InMemoryDB, B256) {
        let contract = with_code(&[0x60, 0]);
        let hash = contract.code_hash;
        let mut state = InMemoryDB::default();
        state.insert_account_info(CONTRACT, contract);
        state.insert_account_info(EOA, AccountInfo::from_balance(U256::from(1)));
        (state, hash)
    }

    #[test]
    fn code_digits_include_the_code_of_every_account() {
        let account = |code: &'static [u8]| AccountState {
            code: Some(Bytes::from_static(code)),
            ..AccountState::default()
        };
        let post = BTreeMap::from([(CONTRACT, account(&[1, 2, 3])), (EOA, account(&[1, 2, 3]))]);
        let before = PreStateFrame::Default(PreStateMode(post.clone()));
        assert_eq!(code_digits(&before), 12);
        let pre = BTreeMap::from([(ABSENT, account(&[7])), (CONTRACT, balance(1))]);
        assert_eq!(code_digits(&PreStateFrame::Diff(DiffMode { post, pre })), 14);
    }

    fn balance(wei: u64) -> AccountState {
        AccountState { balance: Some(U256::from(wei)), ..AccountState::default() }
    }

    fn changed(account: AccountInfo) -> Touched {
        Touched::from(account).with_touched_mark()
    }

    #[test]
    fn code_hash_is_shown_and_absent_accounts_only_on_request() {
        let (state, hash) = state();
        let frame_data = BTreeMap::from([(CONTRACT, balance(0)), (EOA, balance(1))]);
        let slot = EvmStorageSlot::new_changed(U256::ZERO, U256::from(9), TransactionId::ZERO);
        let created = changed(with_code(&[0])).with_storage([(U256::from(5), slot)].into_iter());
        let touched = EvmState::from_iter([
            (CONTRACT, changed(AccountInfo::default())),
            (EOA, changed(AccountInfo::default())),
            (ABSENT, created),
        ]);
        let show = |config: Value| {
            let frame = PreStateFrame::Default(PreStateMode(frame_data.clone()));
            show(frame, &config, None, &[], &touched, &state).unwrap()
        };
        let (contract, eoa) = (json!({ "balance": "0x0", "codeHash": hash }), balance(1));
        let keys = [CONTRACT, EOA, ABSENT].map(|address| format!("{address:?}").to_lowercase());
        let shown = show(json!({ "disableCode": true }));
        assert_eq!(shown, json!({ &keys[0]: contract, &keys[1]: eoa }));
        let shown = show(json!({ "includeEmpty": true }));
        let slots = json!({ B256::with_last_byte(5).to_string(): B256::ZERO });
        let absent = json!({ "balance": "0x0", "storage": slots });
        assert_eq!(shown, json!({ &keys[0]: contract, &keys[1]: eoa, &keys[2]: absent }));
        let shown = show(json!({ "includeEmpty": true, "disableStorage": true }));
        assert_eq!(shown[&keys[2]], json!({ "balance": "0x0" }));
    }

    #[test]
    fn diff_shows_the_hash_of_changed_code() {
        let (state, hash) = state();
        let diff = |config: Value, touched: EvmState| {
            let frame_data = DiffMode {
                pre: BTreeMap::from([
                    (CONTRACT, balance(0)),
                    (EOA, balance(1)),
                    (ABSENT, balance(0)),
                ]),
                post: BTreeMap::from([(EOA, balance(2))]),
            };
            show(PreStateFrame::Diff(frame_data), &config, None, &[], &touched, &state).unwrap()
        };
        let keys = [CONTRACT, EOA, ABSENT].map(|address| format!("{address:?}").to_lowercase());
        let created = with_code(&[0]);
        let new_hash = created.code_hash;
        let touched = EvmState::from_iter([
            // The account removed its code, as EIP-7702 allows.
            (CONTRACT, changed(AccountInfo { nonce: 2, ..AccountInfo::default() })),
            (EOA, changed(AccountInfo::from_balance(U256::from(2)))),
            (ABSENT, changed(created.clone())),
        ]);
        let shown = diff(json!({ "diffMode": true }), touched.clone());
        let contract = json!({ "balance": "0x0", "codeHash": hash });
        assert_eq!(shown["pre"], json!({ &keys[0]: contract, &keys[1]: balance(1) }));
        let removed = json!({ "code": "0x", "codeHash": KECCAK256_EMPTY });
        let added = json!({ "codeHash": new_hash });
        let post = json!({ &keys[0]: removed, &keys[1]: balance(2), &keys[2]: added });
        assert_eq!(shown["post"], post);
        let shown = diff(json!({ "diffMode": true, "disableCode": true }), touched);
        assert_eq!(shown["post"][&keys[0]], json!({ "codeHash": KECCAK256_EMPTY }));
        // A destroyed account is not shown.
        let destroyed = changed(created).with_selfdestruct_mark();
        let shown = diff(json!({ "diffMode": true }), EvmState::from_iter([(ABSENT, destroyed)]));
        assert_eq!(shown["post"], json!({ &keys[1]: balance(2) }));
    }

    #[test]
    fn account_to_which_the_transaction_delegates_is_shown_only_if_touched() {
        let (mut state, _) = state();
        let delegating = || {
            let code = Bytecode::new_eip7702(CONTRACT);
            AccountInfo { nonce: 1, ..AccountInfo::from_bytecode(code) }
        };
        let addresses = |state: &InMemoryDB, delegate: Touched| {
            let found = BTreeMap::from([(CONTRACT, balance(0)), (EOA, balance(1))]);
            let touched = EvmState::from_iter([(CONTRACT, delegate), (EOA, changed(delegating()))]);
            let frame = PreStateFrame::Default(PreStateMode(found));
            let shown = show(frame, &Value::Null, Some(&EOA), &[], &touched, state).unwrap();
            shown.as_object().unwrap().keys().cloned().collect::<Vec<_>>()
        };
        let [contract, eoa] = [CONTRACT, EOA].map(|address| format!("{address:?}").to_lowercase());
        let loaded = || Touched::from(with_code(&[0x60, 0]));
        assert_eq!(addresses(&state, loaded()), std::slice::from_ref(&eoa));
        // The account is shown if something else touches it, or if the delegation existed before.
        let expected = [contract, eoa];
        assert_eq!(addresses(&state, loaded().with_touched_mark()), expected);
        state.insert_account_info(EOA, delegating());
        assert_eq!(addresses(&state, loaded()), expected);
    }
}
