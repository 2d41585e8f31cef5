//! Accounts, storage words and the state changes of a block.

use alloy_primitives::{Bytes, KECCAK256_EMPTY, U256};

use crate::{Account, AccountChange, StateChanges};
use trie::primitive::{
    DecodeError, Input, put_count, put_counted_bytes, put_counted_word, put_varint, put_word,
};

/// Flag in the first byte of an account: the code hash follows.
const HAS_CODE: u8 = 0x40;
/// Mask in the first byte of an account: size of the balance in bytes, 0 to 32.
const BALANCE_BYTES: u8 = 0x3f;
/// Flag of a change: the account exists after the block.
const EXISTS: u8 = 1;
/// Flag of a change: earlier storage was cleared.
const WIPED: u8 = 2;

/// Minimum size of an account change in bytes: address, flags, number of slots.
const MIN_CHANGE_BYTES: usize = 22;
/// Minimum size of a slot in bytes: the lengths of key and value.
const MIN_SLOT_BYTES: usize = 2;
/// Minimum size of a code in bytes: hash and length.
const MIN_CODE_BYTES: usize = 33;

pub(crate) fn encode_account(out: &mut Vec<u8>, account: &Account) {
    let has_code = account.code_hash != KECCAK256_EMPTY;
    let flags = account.balance.byte_len() as u8 | if has_code { HAS_CODE } else { 0 };
    out.push(flags);
    put_varint(out, account.nonce);
    put_word(out, account.balance);
    if has_code {
        out.extend_from_slice(account.code_hash.as_slice());
    }
}

fn take_account(input: &mut Input<'_>) -> Result<Account, DecodeError> {
    let flags = input.byte()?;
    if flags & !(HAS_CODE | BALANCE_BYTES) != 0 {
        return Err(input.error("unknown account flag"));
    }
    let nonce = input.varint()?;
    let balance = input.word_of(usize::from(flags & BALANCE_BYTES))?;
    let code_hash = if flags & HAS_CODE != 0 { input.b256()? } else { KECCAK256_EMPTY };
    if flags & HAS_CODE != 0 && code_hash == KECCAK256_EMPTY {
        return Err(input.error("explicit hash of empty code"));
    }
    Ok(Account { nonce, balance, code_hash })
}

pub(crate) fn decode_account(bytes: &[u8]) -> Result<Account, DecodeError> {
    let mut input = Input::borrowed(bytes);
    let account = take_account(&mut input)?;
    input.finish()?;
    Ok(account)
}

/// Encodes an account that may not exist. A missing account is encoded as no bytes.
pub(crate) fn encode_account_entry(out: &mut Vec<u8>, account: Option<&Account>) {
    if let Some(account) = account {
        encode_account(out, account);
    }
}

pub(crate) fn decode_account_entry(bytes: &[u8]) -> Result<Option<Account>, DecodeError> {
    if bytes.is_empty() { Ok(None) } else { decode_account(bytes).map(Some) }
}

pub(crate) fn encode_word(out: &mut Vec<u8>, word: U256) {
    put_word(out, word);
}

pub(crate) fn decode_word(bytes: &[u8]) -> Result<U256, DecodeError> {
    Input::borrowed(bytes).word_of(bytes.len())
}

pub(crate) fn encode_changes(out: &mut Vec<u8>, changes: &StateChanges) {
    put_count(out, changes.accounts.len());
    for change in &changes.accounts {
        encode_change(out, change);
    }
    put_count(out, changes.codes.len());
    for (hash, code) in &changes.codes {
        out.extend_from_slice(hash.as_slice());
        put_counted_bytes(out, code);
    }
}

fn encode_change(out: &mut Vec<u8>, change: &AccountChange) {
    out.extend_from_slice(change.address.as_slice());
    let exists = if change.account.is_some() { EXISTS } else { 0 };
    out.push(exists | if change.wiped { WIPED } else { 0 });
    if let Some(account) = &change.account {
        encode_account(out, account);
    }
    put_count(out, change.slots.len());
    for &(slot, value) in &change.slots {
        put_counted_word(out, slot);
        put_counted_word(out, value);
    }
}

/// Deducts `items` from the number of items that are still allowed. Must be called before memory is allocated.
fn take_items(allowed: &mut usize, items: usize, input: &Input<'_>) -> Result<(), DecodeError> {
    *allowed = allowed.checked_sub(items).ok_or_else(|| input.error("more items than allowed"))?;
    Ok(())
}

fn take_change(input: &mut Input<'_>, allowed: &mut usize) -> Result<AccountChange, DecodeError> {
    let address = input.address()?;
    let flags = input.byte()?;
    if flags & !(EXISTS | WIPED) != 0 {
        return Err(input.error("unknown change flag"));
    }
    let account = if flags & EXISTS != 0 { Some(take_account(input)?) } else { None };
    let count = input.count(MIN_SLOT_BYTES)?;
    take_items(allowed, count, input)?;
    let mut slots = Vec::with_capacity(count);
    for _ in 0..count {
        slots.push((input.counted_word()?, input.counted_word()?));
    }
    Ok(AccountChange { address, account, wiped: flags & WIPED != 0, slots })
}

/// Decodes the stored form of state changes. Contract code is returned as slices of `bytes`. Neither the order
/// nor the meaning of the changes is checked.
///
/// # Errors
/// If the bytes are not a valid encoding.
pub fn decode_changes(bytes: Bytes) -> Result<StateChanges, DecodeError> {
    decode_changes_within(bytes, usize::MAX)
}

/// Does the same as [`decode_changes`], but limits the total number of accounts, slots and contract codes to bound
/// memory use: an encoded slot can be as small as 2 bytes but occupies 64 bytes of memory.
///
/// # Errors
/// If there are more than `max_items`, or if the bytes are not a valid encoding.
pub fn decode_changes_within(bytes: Bytes, max_items: usize) -> Result<StateChanges, DecodeError> {
    let mut allowed = max_items;
    let mut input = Input::shared(&bytes);
    let count = input.count(MIN_CHANGE_BYTES)?;
    take_items(&mut allowed, count, &input)?;
    let mut accounts = Vec::with_capacity(count);
    for _ in 0..count {
        accounts.push(take_change(&mut input, &mut allowed)?);
    }
    let count = input.count(MIN_CODE_BYTES)?;
    take_items(&mut allowed, count, &input)?;
    let mut codes = Vec::with_capacity(count);
    for _ in 0..count {
        codes.push((input.b256()?, input.counted_bytes()?));
    }
    input.finish()?;
    Ok(StateChanges { accounts, codes })
}
