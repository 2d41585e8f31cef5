//! What geth's `prestateTracer` shows and the inspector does not: code hashes and, if requested, accounts
//! that did not exist before.

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
    /// Whether the account did not exist, judged by the fields that are shown.
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

/// Hexadecimal digits of the code that is shown.
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

/// Converts the inspector's result for a transaction that was executed on `before` and left `touched` to
/// geth's form with these settings. The accounts in `looked_up` have been added.
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

/// The account to which the recipient `to` delegates since this transaction (EIP-7702), if nothing else
/// touches it. geth reads the recipient's code before the delegation, so it does not see this account.
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

/// Adds the slots of destroyed accounts. The inspector shows only slots that have another value afterwards,
/// and those of a destroyed account have none.
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

/// The code hash of an account; the empty hash if there is no code.
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

/// Accounts after a transaction, with the code hash if the code changed. Removed code is shown as no bytes.
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

    const HERE: Address = Address::with_last_byte(1);
    const THERE: Address = Address::with_last_byte(2);
    const NOWHERE: Address = Address::with_last_byte(3);

    fn with_code(code: &'static [u8]) -> AccountInfo {
        let code = Bytecode::new_raw(Bytes::from_static(code));
        AccountInfo::from_bytecode(code)
    }

    /// A state with a contract and an account with one wei.
    fn state() -> (InMemoryDB, B256) {
        let contract = with_code(&[0x60, 0]);
        let hash = contract.code_hash;
        let mut state = InMemoryDB::default();
        state.insert_account_info(HERE, contract);
        state.insert_account_info(THERE, AccountInfo::from_balance(U256::from(1)));
        (state, hash)
    }

    #[test]
    fn digits_of_code_are_those_of_every_account() {
        let account = |code: &'static [u8]| AccountState {
            code: Some(Bytes::from_static(code)),
            ..AccountState::default()
        };
        let accounts = BTreeMap::from([(HERE, account(&[1, 2, 3])), (THERE, account(&[1, 2, 3]))]);
        let before = PreStateFrame::Default(PreStateMode(accounts.clone()));
        assert_eq!(code_digits(&before), 12);
        let pre = BTreeMap::from([(NOWHERE, account(&[7])), (HERE, balance(1))]);
        assert_eq!(code_digits(&PreStateFrame::Diff(DiffMode { post: accounts, pre })), 14);
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
        let frame_data = BTreeMap::from([(HERE, balance(0)), (THERE, balance(1))]);
        let slot = EvmStorageSlot::new_changed(U256::ZERO, U256::from(9), TransactionId::ZERO);
        let created = changed(with_code(&[0])).with_storage([(U256::from(5), slot)].into_iter());
        let touched = EvmState::from_iter([
            (HERE, changed(AccountInfo::default())),
            (THERE, changed(AccountInfo::default())),
            (NOWHERE, created),
        ]);
        let show = |config: Value| {
            let frame = PreStateFrame::Default(PreStateMode(frame_data.clone()));
            show(frame, &config, None, &[], &touched, &state).unwrap()
        };
        let (here, there) = (json!({ "balance": "0x0", "codeHash": hash }), balance(1));
        let keys = [HERE, THERE, NOWHERE].map(|address| format!("{address:?}").to_lowercase());
        let shown = show(json!({ "disableCode": true }));
        assert_eq!(shown, json!({ &keys[0]: here, &keys[1]: there }));
        let shown = show(json!({ "includeEmpty": true }));
        let slots = json!({ B256::with_last_byte(5).to_string(): B256::ZERO });
        let nowhere = json!({ "balance": "0x0", "storage": slots });
        assert_eq!(shown, json!({ &keys[0]: here, &keys[1]: there, &keys[2]: nowhere }));
        let shown = show(json!({ "includeEmpty": true, "disableStorage": true }));
        assert_eq!(shown[&keys[2]], json!({ "balance": "0x0" }));
    }

    #[test]
    fn diff_shows_the_hash_of_changed_code() {
        let (state, hash) = state();
        let diff = |config: Value, touched: EvmState| {
            let frame_data = DiffMode {
                pre: BTreeMap::from([
                    (HERE, balance(0)),
                    (THERE, balance(1)),
                    (NOWHERE, balance(0)),
                ]),
                post: BTreeMap::from([(THERE, balance(2))]),
            };
            show(PreStateFrame::Diff(frame_data), &config, None, &[], &touched, &state).unwrap()
        };
        let keys = [HERE, THERE, NOWHERE].map(|address| format!("{address:?}").to_lowercase());
        let created = with_code(&[0]);
        let new_hash = created.code_hash;
        let touched = EvmState::from_iter([
            // The account gave up its code, as by EIP-7702.
            (HERE, changed(AccountInfo { nonce: 2, ..AccountInfo::default() })),
            (THERE, changed(AccountInfo::from_balance(U256::from(2)))),
            (NOWHERE, changed(created.clone())),
        ]);
        let shown = diff(json!({ "diffMode": true }), touched.clone());
        let here = json!({ "balance": "0x0", "codeHash": hash });
        assert_eq!(shown["pre"], json!({ &keys[0]: here, &keys[1]: balance(1) }));
        let gone = json!({ "code": "0x", "codeHash": KECCAK256_EMPTY });
        let made = json!({ "codeHash": new_hash });
        let post = json!({ &keys[0]: gone, &keys[1]: balance(2), &keys[2]: made });
        assert_eq!(shown["post"], post);
        let shown = diff(json!({ "diffMode": true, "disableCode": true }), touched);
        assert_eq!(shown["post"][&keys[0]], json!({ "codeHash": KECCAK256_EMPTY }));
        // A destroyed account is not shown.
        let destroyed = changed(created).with_selfdestruct_mark();
        let shown = diff(json!({ "diffMode": true }), EvmState::from_iter([(NOWHERE, destroyed)]));
        assert_eq!(shown["post"], json!({ &keys[1]: balance(2) }));
    }

    #[test]
    fn an_account_delegated_to_by_the_transaction_is_not_seen_before_it() {
        let (mut state, _) = state();
        let delegating = || {
            let code = Bytecode::new_eip7702(HERE);
            AccountInfo { nonce: 1, ..AccountInfo::from_bytecode(code) }
        };
        let addresses = |state: &InMemoryDB, delegate: Touched| {
            let found = BTreeMap::from([(HERE, balance(0)), (THERE, balance(1))]);
            let touched = EvmState::from_iter([(HERE, delegate), (THERE, changed(delegating()))]);
            let frame = PreStateFrame::Default(PreStateMode(found));
            let shown = show(frame, &Value::Null, Some(&THERE), &[], &touched, state).unwrap();
            shown.as_object().unwrap().keys().cloned().collect::<Vec<_>>()
        };
        let [here, there] = [HERE, THERE].map(|address| format!("{address:?}").to_lowercase());
        let loaded = || Touched::from(with_code(&[0x60, 0]));
        assert_eq!(addresses(&state, loaded()), std::slice::from_ref(&there));
        // The account is shown if something else touches it, or if the delegation existed before.
        let both = [here, there];
        assert_eq!(addresses(&state, loaded().with_touched_mark()), both);
        state.insert_account_info(THERE, delegating());
        assert_eq!(addresses(&state, loaded()), both);
    }
}
