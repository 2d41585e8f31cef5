//! Sets accounts, and allows clients to send transactions from accounts whose keys the node does not have.

use super::{Answer, Call, Develop, Error, development, json, mining::produce};
use alloy_primitives::{Address, Bytes, U256};
use chain::ChainSpec;
use evm::AccountOverride;
use rpc_eth::development::MAX_IMPERSONATED;
use rpc_types::params::{Number, Param};
use serde_json::Value;

/// A number of up to 32 bytes in hexadecimal, or a JSON number of up to 64 bits. Leading zeros are allowed, because
/// clients pass 32-byte words.
struct Word(U256);

impl Param for Word {
    fn read(json: &str, spec: &ChainSpec) -> Result<Self, String> {
        if let Ok(number) = json.parse() {
            return Ok(Self(U256::from::<u64>(number)));
        }
        let text = String::read(json, spec)?;
        let digits = text.strip_prefix("0x").ok_or("hex string without 0x prefix")?;
        match digits.is_empty() || digits.len() > 64 {
            true => Err(format!("{} hexadecimal digits, want 1 to 64", digits.len())),
            false => U256::from_str_radix(digits, 16)
                .map(Self)
                .map_err(|_| "invalid hex string".to_owned()),
        }
    }
}

/// Sets an account in a block of its own.
async fn set(call: &Call, account: AccountOverride) -> Result<(), Error> {
    produce(call, Develop::SetAccounts(vec![account])).await
}

fn unchanged(address: Address) -> AccountOverride {
    AccountOverride { address, ..AccountOverride::default() }
}

/// Returns true from a method of Hardhat and null from others, as Hardhat and anvil do.
pub(super) fn done(call: &Call) -> Answer {
    let is_hardhat = call.method.name.starts_with("hardhat_");
    json(&if is_hardhat { Value::Bool(true) } else { Value::Null })
}

pub(super) async fn set_balance(call: Call) -> Answer {
    let account = {
        let mut arguments = call.arguments()?;
        let account = unchanged(arguments.required()?);
        let Word(balance) = arguments.required()?;
        AccountOverride { balance: Some(balance), ..account }
    };
    set(&call, account).await?;
    done(&call)
}

pub(super) async fn set_nonce(call: Call) -> Answer {
    let account = {
        let mut arguments = call.arguments()?;
        let account = unchanged(arguments.required()?);
        let Number(nonce) = arguments.required()?;
        AccountOverride { nonce: Some(nonce), ..account }
    };
    set(&call, account).await?;
    done(&call)
}

pub(super) async fn set_code(call: Call) -> Answer {
    let account = {
        let mut arguments = call.arguments()?;
        let account = unchanged(arguments.required()?);
        let code: Bytes = arguments.required()?;
        AccountOverride { code: Some(code), ..account }
    };
    set(&call, account).await?;
    done(&call)
}

pub(super) async fn set_storage(call: Call) -> Answer {
    let account = {
        let mut arguments = call.arguments()?;
        let account = unchanged(arguments.required()?);
        let (Word(slot), Word(value)) = (arguments.required()?, arguments.required()?);
        AccountOverride { state_diff: Some(vec![(slot, value)]), ..account }
    };
    set(&call, account).await?;
    // anvil returns true here.
    json(&true)
}

pub(super) fn impersonate(call: &Call) -> Answer {
    let account: Address = call.arguments()?.required()?;
    if !development(call)?.impersonate(account) {
        let message = format!("at most {MAX_IMPERSONATED} accounts can be impersonated at a time");
        return Err(Error::limit(message, MAX_IMPERSONATED as u64, None));
    }
    done(call)
}

pub(super) fn stop_impersonating(call: &Call) -> Answer {
    let account: Address = call.arguments()?.required()?;
    let was_impersonated = development(call)?.stop_impersonating(account);
    match call.method.name.starts_with("hardhat_") {
        true => json(&was_impersonated),
        false => json(&Value::Null),
    }
}

pub(super) fn impersonate_all(call: &Call) -> Answer {
    let all = call.arguments()?.required()?;
    development(call)?.impersonate_all(all);
    done(call)
}
