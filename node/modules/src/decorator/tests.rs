//! Violates each rule, by its row number (see [`super`]), and compares the code and the texts of the rejection.

use super::{
    BlobRules, CheckContext, Mode, Reject, Sender, Standing, account, check, check_sender,
    stateless, steps,
};
use alloy_consensus::{SignableTransaction, TxEip1559, TxEip4844, TxEip7702, TxLegacy};
use alloy_eips::eip7702::{Authorization, SignedAuthorization};
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256, keccak256};
use chain::{AccessRule, AccessType, EvmParams, Fork, RulesVersion, TokenUnit};
use feemarket::{GasWanted, LegacyDec, Price, TokenDecimals};
use proptest::prelude::*;
use std::{convert::Infallible, sync::OnceLock};
use storage::{Account, StateRead};
use transactions::{Code, RecoveredTx, Transaction};

const SENDER: Address = Address::repeat_byte(0xaa);
const CHAIN_ID: u64 = 262_144;
const GWEI: u128 = 1_000_000_000;
const ETHER: U256 = U256::from_limbs([1_000_000_000_000_000_000, 0, 0, 0]);

/// A state with one account.
struct OneAccount {
    account: Option<Account>,
    code: Bytes,
}

impl StateRead for OneAccount {
    type Error = Infallible;

    fn account(&self, address: Address) -> Result<Option<Account>, Infallible> {
        Ok(self.account.filter(|_| address == SENDER))
    }

    fn storage(&self, _: Address, _: U256) -> Result<U256, Infallible> {
        Ok(U256::ZERO)
    }

    fn code(&self, _: B256) -> Result<Bytes, Infallible> {
        Ok(self.code.clone())
    }

    fn has_storage(&self, _: Address) -> Result<bool, Infallible> {
        Ok(false)
    }
}

fn rich() -> OneAccount {
    let account = Account { nonce: 5, balance: ETHER, ..Account::default() };
    OneAccount { account: Some(account), code: Bytes::new() }
}

/// A transaction of [`SENDER`]; the checks do not verify the signature.
fn tx<T: SignableTransaction<Signature>>(tx: T) -> RecoveredTx
where
    Transaction: From<alloy_consensus::Signed<T>>,
{
    let tx = Transaction::from(tx.into_signed(Signature::test_signature()));
    RecoveredTx {
        raw: Bytes::new(),
        tx,
        hash: B256::ZERO,
        sender: SENDER,
        high_s: false,
        authorities: OnceLock::new(),
        cosmos: None,
    }
}

fn dynamic() -> TxEip1559 {
    TxEip1559 {
        chain_id: CHAIN_ID,
        nonce: 5,
        gas_limit: 21_000,
        max_fee_per_gas: 2 * GWEI,
        max_priority_fee_per_gas: GWEI / 10,
        to: TxKind::Call(Address::repeat_byte(0xbb)),
        ..TxEip1559::default()
    }
}

fn legacy() -> TxLegacy {
    TxLegacy {
        chain_id: Some(CHAIN_ID),
        nonce: 5,
        gas_limit: 21_000,
        gas_price: GWEI,
        to: TxKind::Call(Address::repeat_byte(0xbb)),
        ..TxLegacy::default()
    }
}

fn set_code(list: Vec<SignedAuthorization>) -> TxEip7702 {
    TxEip7702 {
        chain_id: CHAIN_ID,
        nonce: 5,
        gas_limit: 80_000,
        max_fee_per_gas: 3 * GWEI,
        max_priority_fee_per_gas: GWEI / 2,
        to: Address::repeat_byte(0xbb),
        authorization_list: list,
        ..TxEip7702::default()
    }
}

fn authorization() -> SignedAuthorization {
    let authorization =
        Authorization { chain_id: U256::ZERO, address: Address::repeat_byte(7), nonce: 0 };
    authorization.into_signed(Signature::test_signature())
}

fn context(evm: &EvmParams) -> CheckContext<'_> {
    CheckContext {
        chain_id: CHAIN_ID,
        fork: Fork::Prague,
        london: true,
        replay_protection: true,
        bech32_prefix: "cosmos",
        height: 1,
        evm,
        rules: RulesVersion::NEWEST,
        token_unit: TokenUnit::WEI,
        block_gas_limit: 10_000_000,
        base_fee: Some(875_000_000),
        cosmos_base_fee: LegacyDec::from(875_000_000_u64),
        blobs: None,
        base_fee_enabled: true,
        min_gas_price: LegacyDec::ZERO,
        mempool_min_gas_price: LegacyDec::ZERO,
        gas_wanted: GasWanted::default(),
    }
}

fn evm() -> EvmParams {
    EvmParams::default()
}

fn run(tx: &RecoveredTx, context: &CheckContext<'_>, state: &OneAccount, mode: Mode) -> Verdict {
    check(tx, context, state, mode).unwrap()
}

type Verdict = Result<super::Admitted, Reject>;

/// Compares a rejection with its code and texts, on JSON-RPC and on the SDK's interfaces.
fn expect(found: Result<impl std::fmt::Debug, Reject>, code: (&str, u32), rpc: &str, log: &str) {
    let reject = found.expect_err(log);
    let Code { space, number, .. } = reject.code();
    assert_eq!((space, number), code, "{reject:?}");
    assert_eq!(reject.to_string(), rpc);
    assert_eq!(reject.log(), log);
    assert_eq!(reject.json_rpc_code(), -32000);
}

const MODES: [Mode; 4] = [Mode::Check, Mode::Recheck, Mode::Deliver, Mode::Simulate];

#[test]
fn valid_transactions_are_admitted_in_every_mode() {
    let evm = evm();
    for mode in MODES {
        for tx in [tx(dynamic()), tx(legacy()), tx(set_code(vec![authorization()]))] {
            run(&tx, &context(&evm), &rich(), mode).unwrap();
        }
    }
}

#[test]
fn admission_reports_prices_costs_and_position() {
    let evm = evm();
    let gas_limit = 100_000;
    let sent = tx(TxEip1559 { gas_limit, value: U256::from(9), ..dynamic() });
    let admitted = run(&sent, &context(&evm), &rich(), Mode::Deliver).unwrap();
    assert_eq!(admitted.effective_price, 975_000_000);
    assert_eq!(admitted.escrow, U256::from(97_500_000_000_000_u64));
    assert_eq!(admitted.cost, U256::from(200_000_000_000_009_u64));
    assert_eq!(admitted.priority, 100);
    assert_eq!(admitted.standing, Standing::Next);
    assert_eq!(admitted.gas_wanted.get(), 100_000);
    assert_eq!(admitted.sender.account.nonce, 5);
}

#[test]
fn row_0_invalid_fields_are_rejected() {
    let evm = evm();
    let context = context(&evm);
    let checked = |tx: &RecoveredTx| run(tx, &context, &rich(), Mode::Check);
    let priority = tx(TxEip1559 { max_priority_fee_per_gas: 3 * GWEI, ..dynamic() });
    let text = "max priority fee per gas higher than max fee per gas: \
                maxPriorityFeePerGas: 3000000000, maxFeePerGas: 2000000000";
    expect(checked(&priority), ("sdk", 18), text, &format!("{text}: invalid request"));
    let low = tx(TxEip1559 { gas_limit: 20_999, ..dynamic() });
    let text = "intrinsic gas too low: gas 20999, minimum needed 21000";
    expect(checked(&low), ("sdk", 18), text, &format!("{text}: invalid request"));
    // EIP-7623: 1,000 non-zero bytes cost 16,000 gas, but at least 40,000.
    let input = Bytes::from(vec![1; 1_000]);
    let floor = tx(TxEip1559 { gas_limit: 40_000, input, ..dynamic() });
    let text = "insufficient gas for floor data gas cost: gas 40000, minimum needed 61000";
    expect(checked(&floor), ("sdk", 18), text, &format!("{text}: invalid request"));
    let empty = tx(set_code(Vec::new()));
    let text = "set code transaction must have at least one authorization and a recipient";
    expect(checked(&empty), ("sdk", 18), text, &format!("{text}: invalid request"));
    let input = Bytes::from(vec![0; 49_153]);
    let code = tx(TxEip1559 { gas_limit: 9_000_000, to: TxKind::Create, input, ..dynamic() });
    let text = "max initcode size exceeded: code size 49153, limit 49152";
    expect(checked(&code), ("sdk", 18), text, &format!("{text}: invalid request"));
    let blob = tx(TxEip4844 { chain_id: CHAIN_ID, ..TxEip4844::default() });
    let text = "transaction type not supported";
    expect(checked(&blob), ("sdk", 29), text, &format!("{text}: invalid type"));
    let osaka = CheckContext { fork: Fork::Osaka, block_gas_limit: u64::MAX, ..context.clone() };
    let wide = tx(TxEip1559 { gas_limit: 16_777_217, ..dynamic() });
    let text = "transaction gas limit too high (cap: 16777216, tx: 16777217)";
    let verdict = run(&wide, &osaka, &rich(), Mode::Check);
    expect(verdict, ("sdk", 18), text, &format!("{text}: invalid request"));
}

#[test]
fn row_2_unknown_base_fee_is_rejected_since_london() {
    let evm = evm();
    let unknown = CheckContext { base_fee: None, ..context(&evm) };
    let text = "base fee is supported but evm block context value is nil";
    for mode in MODES {
        let verdict = run(&tx(dynamic()), &unknown, &rich(), mode);
        expect(verdict, ("evm", 13), text, &format!("{text}: invalid base fee"));
    }
    let frontier = CheckContext { london: false, ..unknown };
    run(&tx(legacy()), &frontier, &rich(), Mode::Check).unwrap();
}

#[test]
fn row_4_mempool_minimum_applies_in_the_pool_before_london() {
    let evm = evm();
    let minimum = |price: u128| {
        let frontier = CheckContext { london: false, base_fee: None, ..context(&evm) };
        frontier.with_mempool_minimum(LegacyDec::from(U256::from(price)))
    };
    let text = "got: 21000000000000, minimum required: 21000000021000";
    for mode in [Mode::Check, Mode::Recheck] {
        let verdict = run(&tx(legacy()), &minimum(GWEI + 1), &rich(), mode);
        expect(verdict, ("sdk", 13), text, &format!("{text}: insufficient fee"));
        for price in [0, GWEI - 1, GWEI] {
            run(&tx(legacy()), &minimum(price), &rich(), mode).unwrap();
        }
    }
    for mode in [Mode::Deliver, Mode::Simulate] {
        run(&tx(legacy()), &minimum(GWEI + 1), &rich(), mode).unwrap();
    }
    let london = CheckContext { london: true, base_fee: Some(0), ..minimum(GWEI + 1) };
    run(&tx(legacy()), &london, &rich(), Mode::Check).unwrap();
}

#[test]
fn mempool_minimum_is_in_the_base_unit_of_the_token() {
    let evm = evm();
    let unit = TokenUnit::of(TokenDecimals::new(6).unwrap());
    let minimum = |price: &str| {
        let before = CheckContext { token_unit: unit, ..context(&evm) };
        before.with_mempool_minimum(price.parse().unwrap()).mempool_min_gas_price
    };
    assert_eq!(minimum("0.000000000000000001").to_string(), "0.000001000000000000");
    assert_eq!(minimum("0.5"), LegacyDec::from(500_000_000_000_u64));
    let max = LegacyDec::MAX.to_string();
    assert_eq!(minimum(&max), LegacyDec::MAX, "no fee reaches the maximum");
}

#[test]
fn row_5_effective_price_must_reach_the_global_minimum() {
    let evm = evm();
    let at = |price: &str| CheckContext { min_gas_price: price.parse().unwrap(), ..context(&evm) };
    let text = |fee: u64, required: u64| {
        format!(
            "provided fee < minimum global fee ({fee} < {required}). Please increase the priority \
             tip (for EIP-1559 txs) or the gas prices (for access list or legacy txs)"
        )
    };
    // Step 2: the base fee plus the priority fee count, although the fee cap is far higher.
    let (fee, required) = (20_475_000_000_000, 20_475_000_000_000);
    for mode in MODES {
        let verdict = run(&tx(dynamic()), &at("975000000.000000000000000001"), &rich(), mode);
        let text = text(fee, required);
        expect(verdict, ("sdk", 13), &text, &format!("{text}: insufficient fee"));
        run(&tx(dynamic()), &at("975000000"), &rich(), mode).unwrap();
        run(&tx(legacy()), &at("1000000000"), &rich(), mode).unwrap();
    }
    let verdict = run(&tx(legacy()), &at("1000000001.9"), &rich(), Mode::Check);
    let text = text(21_000_000_000_000, 21_000_000_039_900);
    expect(verdict, ("sdk", 13), &text, &format!("{text}: insufficient fee"));
}

#[test]
fn row_6_restricted_operations_are_rejected() {
    let mut evm = evm();
    let restricted =
        AccessRule { access_type: AccessType::Restricted, access_control_list: Vec::new() };
    let input = Bytes::from_static(&[0]);
    let create = tx(TxEip1559 { to: TxKind::Create, gas_limit: 60_000, input, ..dynamic() });
    evm.access_control.create = restricted.clone();
    for mode in MODES {
        let text = "failed to create new contract: EVM create operation is disabled";
        expect(run(&create, &context(&evm), &rich(), mode), ("evm", 5), text, text);
        run(&tx(dynamic()), &context(&evm), &rich(), mode).unwrap();
    }
    evm = EvmParams::default();
    evm.access_control.call = restricted;
    for mode in MODES {
        let text = "failed to perform a call: EVM Call operation is disabled";
        expect(run(&tx(dynamic()), &context(&evm), &rich(), mode), ("evm", 6), text, text);
        run(&create, &context(&evm), &rich(), mode).unwrap();
    }
}

#[test]
fn row_7_unprotected_foreign_and_malleable_transactions_are_rejected() {
    let mut evm = evm();
    let bare = tx(TxLegacy { chain_id: None, ..legacy() });
    for mode in [Mode::Check, Mode::Deliver, Mode::Simulate] {
        let log = "rejected unprotected ethereum transaction; please sign your transaction \
                   according to EIP-155 to protect it against replay-attacks: \
                   feature not supported";
        let rpc = "only replay-protected (EIP-155) transactions allowed over RPC";
        expect(run(&bare, &context(&evm), &rich(), mode), ("sdk", 37), rpc, log);
        let other = tx(TxEip1559 { chain_id: 1, ..dynamic() });
        let log = "rejected ethereum transaction with incorrect chain-id; expected 262144, got 1: \
                   invalid chain-id";
        let rpc = "invalid chain id for signer: have 1 want 262144";
        expect(run(&other, &context(&evm), &rich(), mode), ("sdk", 28), rpc, log);
        let malleable = RecoveredTx { high_s: true, ..tx(dynamic()) };
        let log = "signature verification failed: invalid transaction v, r, s values: \
                   tx intended signer does not match the given signer";
        expect(run(&malleable, &context(&evm), &rich(), mode), ("sdk", 24), "invalid sender", log);
    }
    evm.allow_unprotected_txs = true;
    run(&bare, &context(&evm), &rich(), Mode::Check).unwrap();
}

#[test]
fn row_8a_senders_with_code_are_rejected() {
    let evm = evm();
    let with_code = |code: &[u8]| {
        let mut state = rich();
        state.code = Bytes::copy_from_slice(code);
        state.account.as_mut().unwrap().code_hash = keccak256(code);
        state
    };
    let delegation = [&[0xef, 0x01, 0x00][..], &[7; 20]].concat();
    for mode in MODES {
        for code in [&[0x60][..], &delegation[..22], &[0xef, 0x01, 0x00]] {
            let verdict = run(&tx(dynamic()), &context(&evm), &with_code(code), mode);
            let address = "0xaAaAaAaaAaAaAaaAaAAAAAAAAaaaAaAaAaaAaaAa";
            let rpc = format!("sender not an eoa: address {address}");
            let log = format!("the sender is not EOA: address {address}: invalid type");
            expect(verdict, ("sdk", 29), &rpc, &log);
        }
        run(&tx(dynamic()), &context(&evm), &with_code(&delegation), mode).unwrap();
    }
}

#[test]
fn row_8b_and_8c_balance_must_cover_the_maximum_cost() {
    let evm = evm();
    // Fee cap x gas, and the value.
    let sent = tx(TxEip1559 { value: U256::from(1), ..dynamic() });
    let mut state = rich();
    for mode in MODES {
        state.account.as_mut().unwrap().balance = U256::from(42_000_000_000_000_u64);
        let rpc = "insufficient funds for gas * price + value: balance 42000000000000, \
                   tx cost 42000000000001, overshot 1";
        let log = "failed to check sender balance: sender balance < tx cost \
                   (42000000000000 < 42000000000001): insufficient funds";
        expect(run(&sent, &context(&evm), &state, mode), ("sdk", 5), rpc, log);
        state.account.as_mut().unwrap().balance = U256::from(42_000_000_000_001_u64);
        run(&sent, &context(&evm), &state, mode).unwrap();
    }
    // A missing account counts as an empty one.
    let missing = OneAccount { account: None, code: Bytes::new() };
    let free = tx(TxLegacy { gas_price: 0, nonce: 0, ..legacy() });
    let no_fee = CheckContext { base_fee: Some(0), ..context(&evm) };
    run(&free, &no_fee, &missing, Mode::Deliver).unwrap();
    let expensive = tx(TxEip1559 { value: U256::MAX, max_fee_per_gas: u128::MAX, ..dynamic() });
    let verdict = run(&expensive, &context(&evm), &rich(), Mode::Check);
    assert!(matches!(verdict, Err(Reject::InsufficientFunds { cost: U256::MAX, .. })));
}

#[test]
fn row_9_fee_cap_must_reach_the_base_fee_and_balance_the_value() {
    let evm = evm();
    let low =
        tx(TxEip1559 { max_fee_per_gas: 874_999_999, max_priority_fee_per_gas: 0, ..dynamic() });
    let price = tx(TxLegacy { gas_price: 874_999_999, ..legacy() });
    let text = "max fee per gas less than block base fee (874999999 < 875000000)";
    for mode in MODES {
        for tx in [&low, &price] {
            let verdict = run(tx, &context(&evm), &rich(), mode);
            expect(verdict, ("sdk", 13), text, &format!("{text}: insufficient fee"));
        }
    }
    // A balance that covers the maximum cost also covers the value, so this check is called directly.
    let account = rich().account.unwrap();
    let text = "failed to transfer 1000000000000000001 from address \
                0xaAaAaAaaAaAaAaaAaAAAAAAAAaaaAaAaAaaAaaAa using the EVM block context transfer \
                function";
    let verdict = account::owns_value(&account, ETHER + U256::from(1), SENDER);
    expect(verdict, ("sdk", 5), text, &format!("{text}: insufficient funds"));
    account::owns_value(&account, ETHER, SENDER).unwrap();
}

#[test]
fn row_10_fee_is_deducted_only_if_gas_cap_and_balance_suffice() {
    let evm = evm();
    // A recheck omits the checks of the transaction's own fields, so the deduction detects the low gas limit.
    let low = tx(TxEip1559 { gas_limit: 20_999, ..dynamic() });
    let text = "gas limit too low: 20999 (gas limit) < 21000 (intrinsic gas)";
    let verdict = run(&low, &context(&evm), &rich(), Mode::Recheck);
    expect(verdict, ("sdk", 11), text, &format!("{text}: out of gas"));
    // The following checks cannot fail after the previous ones, so they are called directly.
    let account = rich().account.unwrap();
    let deduct = |tx: &RecoveredTx, base_fee, balance| {
        let account = Account { balance, ..account };
        let (price, fork) = (Price::of(&tx.tx), Fork::Prague);
        account::deduct_fee(tx, price, base_fee, &account, fork, Mode::Deliver)
    };
    let text = "the tx gasfeecap is lower than the tx baseFee: 2000000000 (gasfeecap), \
                2000000001 (basefee) ";
    let verdict = deduct(&tx(dynamic()), 2_000_000_001, ETHER);
    expect(verdict, ("sdk", 13), text, &format!("{text}: insufficient fee"));
    let fee = U256::from(20_475_000_000_000_u64);
    assert_eq!(deduct(&tx(dynamic()), 875_000_000, fee), Ok(fee));
    let verdict = deduct(&tx(dynamic()), 875_000_000, fee - U256::from(1));
    let text = "failed to deduct transaction costs from user balance: failed to deduct full gas \
                cost 20475000000000 from the user 0xaAaAaAaaAaAaAaaAaAAAAAAAAaaaAaAaAaaAaaAa \
                balance";
    expect(verdict, ("sdk", 5), text, &format!("{text}: insufficient funds"));
}

#[test]
fn row_12_only_pools_accept_nonces_above_the_next() {
    let evm = evm();
    let at = |nonce| tx(TxEip1559 { nonce, ..dynamic() });
    for mode in MODES {
        let low = run(&at(4), &context(&evm), &rich(), mode);
        let rpc = "nonce too low: next nonce 5, tx nonce 4";
        expect(low, ("sdk", 3), rpc, "invalid nonce; got 4, expected 5: invalid sequence");
        let last = run(&at(u64::MAX), &context(&evm), &rich(), mode);
        let text = "nonce has max value: address 0xaAaAaAaaAaAaAaaAaAAAAAAAAaaaAaAaAaaAaaAa, \
                    nonce: 18446744073709551615";
        expect(last, ("sdk", 3), text, &format!("{text}: invalid sequence"));
    }
    for mode in [Mode::Check, Mode::Recheck] {
        let ahead = run(&at(6), &context(&evm), &rich(), mode).unwrap();
        assert_eq!(ahead.standing, Standing::Ahead, "a pool accepts it");
    }
    for mode in [Mode::Deliver, Mode::Simulate] {
        let high = run(&at(6), &context(&evm), &rich(), mode);
        let text = "tx nonce: 6, account accountNonce: 5: tx nonce is higher than account nonce";
        expect(high, ("undefined", 1), text, text);
    }
}

#[test]
fn rows_13_and_16_gas_limit_must_fit_into_the_block() {
    let evm = evm();
    let wide = tx(TxEip1559 { gas_limit: 10_000_001, max_fee_per_gas: GWEI, ..dynamic() });
    for mode in MODES {
        let verdict = run(&wide, &context(&evm), &rich(), mode);
        let rpc = "exceeds block gas limit: tx gas 10000001, block gas limit 10000000";
        let log = "tx gas (10000001) exceeds block gas limit (10000000): out of gas";
        expect(verdict, ("sdk", 11), rpc, log);
    }
    let mut gas_wanted = GasWanted::default();
    gas_wanted.add(i64::MAX as u64 - 20_999).unwrap();
    let full = CheckContext { gas_wanted, ..context(&evm) };
    let text = "block gas wanted overflows with a transaction of 21000 gas";
    let verdict = run(&tx(dynamic()), &full, &rich(), Mode::Deliver);
    expect(verdict, ("evm", 14), text, &format!("{text}: gas overflow"));
    // The gas is counted only with London and an enabled base fee.
    for (london, base_fee_enabled, counted) in
        [(true, true, 21_000), (true, false, 0), (false, true, 0)]
    {
        let context = CheckContext { london, base_fee_enabled, ..context(&evm) };
        assert_eq!(steps::gas_wanted(21_000, &context).unwrap().get(), counted);
    }
}

#[test]
fn first_violated_rule_determines_the_reason() {
    let evm = evm();
    let restricted =
        AccessRule { access_type: AccessType::Restricted, access_control_list: Vec::new() };
    let mut closed = evm.clone();
    closed.access_control.call = restricted;
    // All fields are invalid at first; each correction reveals the next reason.
    let invalid = TxEip1559 {
        chain_id: 1,
        nonce: 4,
        gas_limit: 20_000_000,
        max_fee_per_gas: 5,
        max_priority_fee_per_gas: 6,
        value: ETHER + ETHER,
        ..dynamic()
    };
    let code = Account { code_hash: B256::repeat_byte(1), nonce: 5, ..Account::default() };
    let contract = OneAccount { account: Some(code), code: Bytes::from_static(&[0x60]) };
    let min_gas_price = LegacyDec::from(10);
    let strict = CheckContext { min_gas_price, ..context(&closed) };
    let label = |tx: TxEip1559, high_s, context: &CheckContext<'_>, state: &OneAccount| {
        let tx = RecoveredTx { high_s, ..self::tx(tx) };
        run(&tx, context, state, Mode::Deliver).unwrap_err().label()
    };
    assert_eq!(label(invalid.clone(), true, &strict, &contract), "chain_id");
    let invalid = TxEip1559 { chain_id: CHAIN_ID, ..invalid };
    assert_eq!(label(invalid.clone(), true, &strict, &contract), "invalid_sender");
    assert_eq!(label(invalid.clone(), false, &strict, &contract), "tip_above_cap");
    let invalid = TxEip1559 { max_priority_fee_per_gas: 5, ..invalid };
    assert_eq!(label(invalid.clone(), false, &strict, &contract), "global_minimum");
    let strict = CheckContext { min_gas_price: LegacyDec::ZERO, ..strict };
    assert_eq!(label(invalid.clone(), false, &strict, &contract), "call_disabled");
    let open = context(&evm);
    assert_eq!(label(invalid.clone(), false, &open, &contract), "sender_not_eoa");
    assert_eq!(label(invalid.clone(), false, &open, &rich()), "insufficient_funds");
    let invalid = TxEip1559 { value: U256::ZERO, ..invalid };
    assert_eq!(label(invalid.clone(), false, &open, &rich()), "fee_cap_too_low");
    let invalid = TxEip1559 { max_fee_per_gas: GWEI, ..invalid };
    assert_eq!(label(invalid.clone(), false, &open, &rich()), "nonce_too_low");
    let invalid = TxEip1559 { nonce: 5, ..invalid };
    assert_eq!(label(invalid.clone(), false, &open, &rich()), "block_gas_limit");
    let valid = TxEip1559 { gas_limit: 21_000, ..invalid };
    run(&tx(valid), &open, &rich(), Mode::Deliver).unwrap();
}

#[test]
fn malformed_oversized_and_busy_have_their_codes() {
    let malformed = Reject::Malformed("typed transaction too short".to_owned());
    assert_eq!(malformed.log(), "typed transaction too short: tx parse error");
    assert_eq!(malformed.code().number, 2);
    let oversized = Reject::Oversized { size: 2, limit: 1 };
    assert_eq!(oversized.to_string(), "oversized data: transaction size 2, limit 1");
    assert_eq!(oversized.code().number, 21);
    assert_eq!(Reject::Busy("stopping").json_rpc_code(), -32005);
}

prop_compose! {
    fn any_tx()(
        numbers in any::<(u64, u64, u128, u128)>(),
        near in any::<bool>(),
        value in any::<[u64; 4]>(),
        input in proptest::collection::vec(any::<u8>(), 0..200),
        create: bool,
        kind in 0..4_u8,
        high_s: bool,
        chain in prop_oneof![Just(CHAIN_ID), any::<u64>()],
        authorizations in 0..3_usize,
    ) -> RecoveredTx {
        let (nonce, gas_limit, max_fee_per_gas, max_priority_fee_per_gas) = if near {
            let (a, b, c, d) = numbers;
            (a % 8, b % 20_000_000, c % (4 * GWEI), d % GWEI)
        } else {
            numbers
        };
        let value = if near { U256::from(value[0]) } else { U256::from_limbs(value) };
        let to = if create { TxKind::Create } else { TxKind::Call(SENDER) };
        let input = Bytes::from(input);
        let envelope = match kind {
            0 => tx(TxLegacy {
                chain_id: Some(chain), nonce, gas_limit, gas_price: max_fee_per_gas, to, value,
                input,
            }),
            1 => tx(TxLegacy {
                chain_id: None, nonce, gas_limit, gas_price: max_fee_per_gas, to, value, input,
            }),
            2 => tx(TxEip1559 {
                chain_id: chain, nonce, gas_limit, max_fee_per_gas, max_priority_fee_per_gas, to,
                value, input, ..TxEip1559::default()
            }),
            _ => tx(TxEip7702 {
                chain_id: chain, nonce, gas_limit, max_fee_per_gas, max_priority_fee_per_gas,
                value, input,
                authorization_list: vec![authorization(); authorizations],
                ..TxEip7702::default()
            }),
        };
        RecoveredTx { high_s, ..envelope }
    }
}

proptest! {
    /// Checks never panic. The sender of an admitted transaction can pay for it, and its price reaches the base fee
    /// and the global minimum. The pool accepts every transaction that a block accepts.
    #[test]
    fn checks_admit_only_transactions_that_a_block_can_contain(
        tx in any_tx(),
        nonce in 0..8_u64,
        balance in prop_oneof![any::<u64>().prop_map(U256::from), Just(ETHER), Just(U256::MAX)],
        base_fee in prop_oneof![Just(0), 0..3_000_000_000_u64, any::<u64>()],
        least in any::<u32>(),
    ) {
        let evm = evm();
        let account = Account { nonce, balance, ..Account::default() };
        let sender = Sender { account, may_send: true };
        let context = CheckContext {
            base_fee: Some(base_fee),
            min_gas_price: LegacyDec::from(u64::from(least)),
            ..context(&evm)
        };
        let verdicts = MODES.map(|mode| check_sender(&tx, &context, &sender, mode));
        let [checked, _, delivered, simulated] = &verdicts;
        prop_assert_eq!(delivered, simulated);
        for admitted in verdicts.iter().flatten() {
            prop_assert!(admitted.escrow <= admitted.cost && admitted.cost <= balance);
            prop_assert!(admitted.effective_price >= u128::from(base_fee.max(least.into())));
        }
        if let Ok(admitted) = delivered {
            prop_assert_eq!(checked.as_ref(), Ok(admitted));
            prop_assert_eq!(admitted.standing, Standing::Next);
            let (intrinsic, floor) = stateless::intrinsic_gas(&tx.tx, Fork::Prague);
            prop_assert!(alloy_consensus::Transaction::gas_limit(&tx.tx) >= intrinsic.max(floor));
        }
        for reject in verdicts.iter().filter_map(|verdict| verdict.as_ref().err()) {
            prop_assert!(!reject.log().is_empty() && !reject.to_string().is_empty());
        }
    }
}

fn blob_tx(blobs: usize, max_fee_per_blob_gas: u128) -> TxEip4844 {
    TxEip4844 {
        chain_id: CHAIN_ID,
        nonce: 5,
        gas_limit: 21_000,
        max_fee_per_gas: 2 * GWEI,
        max_priority_fee_per_gas: GWEI / 10,
        blob_versioned_hashes: vec![B256::with_last_byte(1); blobs],
        max_fee_per_blob_gas,
        ..TxEip4844::default()
    }
}

#[test]
fn blob_limits_apply_if_blobs_are_accepted() {
    let evm = evm();
    let rules = BlobRules { per_tx: 6, block_gas: 9 << 17, base_fee: 1_000 };
    let context = CheckContext { blobs: Some(rules), ..context(&evm) };
    let checked = |blob| run(&tx(blob), &context, &rich(), Mode::Check);
    let admitted = checked(blob_tx(6, 1_000)).unwrap();
    let blob_cost = U256::from(6 * (1 << 17) * 1_000_u64);
    assert_eq!(admitted.cost, U256::from(21_000 * 2 * GWEI) + blob_cost);
    let text = "blobless blob transaction";
    expect(checked(blob_tx(0, 1_000)), ("sdk", 18), text, &format!("{text}: invalid request"));
    let text = "too many blobs in transaction: have 7, permitted 6";
    expect(checked(blob_tx(7, 1_000)), ("sdk", 18), text, &format!("{text}: invalid request"));
    let text = "max fee per blob gas less than block blob gas fee: \
                blobGasFeeCap: 999, blobBaseFee: 1000";
    expect(checked(blob_tx(1, 999)), ("sdk", 13), text, &format!("{text}: insufficient fee"));
    // The balance is one ether, and what the gas leaves of it pays for blobs.
    let left = ETHER - U256::from(21_000 * 2 * GWEI);
    let cap = (left / U256::from(6 << 17)).to::<u128>();
    checked(blob_tx(6, cap)).unwrap();
    let poor = checked(blob_tx(6, cap + 1)).unwrap_err();
    assert!(matches!(poor, Reject::InsufficientFunds { .. }), "{poor}");
}

/// Each limit of the checks with the values just below it, at it and just above it. The flag states whether the
/// value is admitted.
#[test]
fn checks_admit_exactly_up_to_their_limits() {
    let evm = evm();
    let context = context(&evm);
    let osaka = CheckContext { fork: Fork::Osaka, block_gas_limit: u64::MAX, ..context.clone() };
    let admitted = |tx: &RecoveredTx, context: &CheckContext<'_>, balance: U256| {
        let account = Account { nonce: 5, balance, ..Account::default() };
        let state = OneAccount { account: Some(account), code: Bytes::new() };
        run(tx, context, &state, Mode::Check).is_ok()
    };
    let base_fee = u128::from(context.base_fee.unwrap());
    let cost = U256::from(21_000 * 2 * GWEI + 7);
    for (step, up_to, from) in [(-1, true, false), (0, true, true), (1, false, true)] {
        let near = |limit: u64| limit.checked_add_signed(step).unwrap();
        let wide = |limit: u128| limit.checked_add_signed(step.into()).unwrap();
        let gas = |gas_limit| tx(TxEip1559 { gas_limit, ..dynamic() });
        let input = Bytes::from(vec![0; near(49_152) as usize]);
        let code = TxEip1559 { gas_limit: 9_000_000, to: TxKind::Create, input, ..dynamic() };
        let priority = TxEip1559 { max_priority_fee_per_gas: wide(2 * GWEI), ..dynamic() };
        let (max_fee_per_gas, max_priority_fee_per_gas) = (wide(base_fee), 0);
        let cap = TxEip1559 { max_fee_per_gas, max_priority_fee_per_gas, ..dynamic() };
        let value = tx(TxEip1559 { value: U256::from(7), ..dynamic() });
        let balance = U256::from(wide(cost.to()));
        for (what, found, expected) in [
            ("intrinsic gas", admitted(&gas(near(21_000)), &context, ETHER), from),
            ("block gas limit", admitted(&gas(near(10_000_000)), &context, ETHER), up_to),
            ("gas cap of Osaka", admitted(&gas(near(1 << 24)), &osaka, ETHER), up_to),
            ("init code", admitted(&tx(code), &context, ETHER), up_to),
            ("priority fee and cap", admitted(&tx(priority), &context, ETHER), up_to),
            ("base fee", admitted(&tx(cap), &context, ETHER), from),
            ("balance", admitted(&value, &context, balance), from),
            (
                "nonce",
                admitted(&tx(TxEip1559 { nonce: near(5), ..dynamic() }), &context, ETHER),
                from,
            ),
        ] {
            assert_eq!(found, expected, "{what} {step:+}");
        }
    }
}
