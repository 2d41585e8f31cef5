//! The methods that return accounts, code and storage after a block.

use crate::method::{Answer, Call, write_json};
use alloy_primitives::{Address, B256, U64, U256, hex};
use rpc_types::{block_id::BlockId, error::Error, params::Arguments};
use storage::StateRead;

/// Maximum number of hex digits of a storage key.
const MAX_KEY_DIGITS: usize = 64;

/// Returns the state after the block in the next parameter. The default is the newest block.
fn state_at(call: &Call, arguments: &mut Arguments<'_>) -> Result<state::StateReader, Error> {
    let id: Option<BlockId> = arguments.optional()?;
    let number = call.require(id.unwrap_or(BlockId::LATEST))?;
    Ok(call.view.state.reader_at(number)?)
}

pub(super) fn balance(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let address: Address = arguments.required()?;
    let account = state_at(call, &mut arguments)?.account(address)?;
    write_json(&account.unwrap_or_default().balance)
}

pub(super) fn code(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let address: Address = arguments.required()?;
    let state = state_at(call, &mut arguments)?;
    let account = state.account(address)?.unwrap_or_default();
    write_json(&state.code(account.code_hash)?)
}

pub(super) fn storage_at(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let address: Address = arguments.required()?;
    let slot = storage_key(&arguments.required::<String>()?)?;
    let value = state_at(call, &mut arguments)?.storage(address, slot)?;
    write_json(&B256::from(value))
}

/// Parses a storage key. As in geth, leading zeros may be missing, but `0x` may not.
pub(super) fn storage_key(text: &str) -> Result<U256, Error> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let digits = digits.ok_or_else(|| {
        let shown: String = text.chars().take(2 * MAX_KEY_DIGITS).collect();
        Error::invalid_params(format!("storage key without 0x prefix: {shown:?}"))
    })?;
    if digits.len() > MAX_KEY_DIGITS {
        let shown: String = text.chars().take(2 * MAX_KEY_DIGITS).collect();
        let message = format!("storage key too long (want at most 32 bytes): {shown:?}");
        return Err(Error::invalid_params(message));
    }
    let padded = format!("{digits:0>MAX_KEY_DIGITS$}");
    let mut key = [0; 32];
    hex::decode_to_slice(padded, &mut key)
        .map_err(|_| Error::invalid_params(format!("invalid hex in storage key: {text:?}")))?;
    Ok(U256::from_be_bytes(key))
}

/// Returns the next nonce. At `pending` it includes the consecutive pooled transactions.
pub(super) async fn transaction_count(call: Call) -> Answer {
    let (address, on_chain, pending) = {
        let mut arguments = call.arguments()?;
        let address: Address = arguments.required()?;
        let id: BlockId = arguments.optional()?.unwrap_or(BlockId::LATEST);
        let number = id.require(&call.view)?;
        let account = call.view.state.reader_at(number)?.account(address)?;
        (address, account.unwrap_or_default().nonce, id.is_pending())
    };
    let pooled = if pending { call.context.pool.nonce(address).await? } else { None };
    write_json(&U64::from(pooled.map_or(on_chain, |pooled| pooled.max(on_chain))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_keys_need_0x_and_no_leading_zeros() {
        for text in ["0x7", "0X7", "0x07", &format!("0x{:064x}", 7)] {
            assert_eq!(storage_key(text).expect(text), U256::from(7));
        }
        for text in ["0xasdf", "é", "7", "", &format!("{:064x}", 7), &format!("0x{:065x}", 7)] {
            assert!(storage_key(text).is_err(), "{text}");
        }
    }
}
