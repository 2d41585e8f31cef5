//! What a client wants tried: a transaction, and how accounts and the block differ for it.

use crate::{
    account::parse_address,
    chain::ChainSpec,
    execution::{AccountOverride, BlockOverrides, Call as Execution},
    rpc::{
        error::Error,
        params::{Arguments, Param, bytes, hash, object, quantity, wide_quantity},
    },
};
use alloy_eips::{
    eip2930::AccessList,
    eip4895::{Withdrawal, Withdrawals},
    eip7702::SignedAuthorization,
};
use alloy_primitives::{Address, B256, Bytes, TxKind, U256};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{borrow::Cow, collections::BTreeMap};

/// Most slots one request may override in all: more than any tool needs, few enough to be cheap.
const SLOTS_MAX: usize = 100_000;

/// A transaction to be tried, as given.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Object {
    from: Option<String>,
    to: Option<String>,
    gas: Option<String>,
    gas_price: Option<String>,
    max_fee_per_gas: Option<String>,
    max_priority_fee_per_gas: Option<String>,
    max_fee_per_blob_gas: Option<String>,
    value: Option<String>,
    nonce: Option<String>,
    chain_id: Option<String>,
    data: Option<String>,
    input: Option<String>,
    access_list: Option<AccessList>,
    blob_versioned_hashes: Option<Vec<B256>>,
    authorization_list: Option<Vec<SignedAuthorization>>,
}

/// A transaction to be tried: its fields are well-formed, not yet sensible together.
#[derive(Debug)]
pub(in crate::rpc) struct Request {
    pub(in crate::rpc) execution: Execution,
    chain_id: Option<u64>,
    conflict: Option<Cow<'static, str>>,
    /// `data` and `input` are both there and differ: `input` counts where nothing is signed.
    inputs_differ: bool,
}

impl Request {
    /// A request of an execution that is known to make sense.
    pub(super) const fn of(execution: Execution) -> Self {
        Self { execution, chain_id: None, conflict: None, inputs_differ: false }
    }

    /// The execution, if its fields make sense together on this chain.
    pub(in crate::rpc) fn check(self, spec: &ChainSpec) -> Result<Execution, Error> {
        if let Some(conflict) = self.conflict {
            return Err(Error::server(conflict));
        }
        let want = spec.chain_id;
        if let Some(have) = self.chain_id.filter(|have| *have != want) {
            let message = format!("chainId does not match node's (have={have}, want={want})");
            return Err(Error::server(message));
        }
        Ok(self.execution)
    }

    /// As [`Self::check`], for what is to be signed: then `data` and `input` must not differ.
    pub(super) fn check_to_sign(self, spec: &ChainSpec) -> Result<Execution, Error> {
        let differ = self.inputs_differ;
        let execution = self.check(spec)?;
        if differ {
            return Err(Error::server(
                "both \"data\" and \"input\" are set and not equal. \
                 Please use \"input\" to pass transaction call data",
            ));
        }
        Ok(execution)
    }
}

// An empty text in an object is nothing, or zero, as geth has it.

fn data(text: &str) -> Result<Vec<u8>, String> {
    if text.is_empty() { Ok(Vec::new()) } else { bytes(text) }
}

fn wide(text: &str) -> Result<U256, String> {
    if text.is_empty() { Ok(U256::ZERO) } else { wide_quantity(text) }
}

fn narrow(text: &str) -> Result<u64, String> {
    if text.is_empty() { Ok(0) } else { quantity(text) }
}

fn wei(text: Option<&String>) -> Result<Option<u128>, String> {
    let price = text.map(|text| wide(text)).transpose()?;
    let fitting = |price: U256| u128::try_from(price).map_err(|_| "price above 128 bits");
    Ok(price.map(fitting).transpose()?)
}

fn number(text: Option<&String>) -> Result<Option<u64>, String> {
    text.map(|text| narrow(text)).transpose()
}

fn address(text: Option<&String>, spec: &ChainSpec) -> Result<Option<Address>, String> {
    let read = |text: &String| parse_address(text, &spec.bech32_prefix);
    text.map(read).transpose().map_err(|error| error.to_string())
}

impl Param for Request {
    fn read(json: &str, spec: &ChainSpec) -> Result<Self, String> {
        let object: Object = object(json)?;
        let given = |text: &Option<String>| text.as_deref().map(data).transpose();
        let (data, input) = (given(&object.data)?, given(&object.input)?);
        let inputs_differ = data.is_some() && input.is_some() && data != input;
        let price = wei(object.gas_price.as_ref())?;
        let cap = wei(object.max_fee_per_gas.as_ref())?;
        let tip = wei(object.max_priority_fee_per_gas.as_ref())?;
        let from = address(object.from.as_ref(), spec)?.unwrap_or_default();
        let conflict = if price.is_some() && (cap.is_some() || tip.is_some()) {
            Some("both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified".into())
        } else if object.to.is_none() && object.blob_versioned_hashes.is_some() {
            Some("blob transaction of type create".into())
        } else if object.blob_versioned_hashes.as_ref().is_some_and(Vec::is_empty) {
            Some("blob transaction missing blob hashes".into())
        } else if object.to.is_none() && object.authorization_list.is_some() {
            let reason = "EIP-7702 transaction cannot be used to create contract";
            Some(format!("{reason} (sender {from})").into())
        } else if object.authorization_list.as_ref().is_some_and(Vec::is_empty) {
            Some(format!("EIP-7702 transaction with empty auth list (sender {from})").into())
        } else {
            None
        };
        let execution = Execution {
            from,
            to: address(object.to.as_ref(), spec)?.map_or(TxKind::Create, TxKind::Call),
            gas: number(object.gas.as_ref())?,
            max_fee_per_gas: price.or(cap).unwrap_or_default(),
            max_priority_fee_per_gas: tip.or_else(|| cap.map(|_| 0)),
            value: object.value.as_deref().map(wide).transpose()?.unwrap_or_default(),
            input: Bytes::from(input.or(data).unwrap_or_default()),
            access_list: object.access_list,
            blob_hashes: object.blob_versioned_hashes.unwrap_or_default(),
            max_fee_per_blob_gas: wei(object.max_fee_per_blob_gas.as_ref())?,
            authorizations: object.authorization_list.unwrap_or_default(),
            nonce: number(object.nonce.as_ref())?,
            is_legacy: price.is_some(),
            overrides: Vec::new(),
            blob_base_fee: None,
        };
        let chain_id = number(object.chain_id.as_ref())?;
        Ok(Self { execution, chain_id, conflict, inputs_differ })
    }
}

/// Overrides of one account, as given.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AccountObject {
    balance: Option<String>,
    nonce: Option<String>,
    code: Option<String>,
    state: Option<BTreeMap<String, String>>,
    state_diff: Option<BTreeMap<String, String>>,
    move_precompile_to_address: Option<String>,
}

/// Overrides of accounts, ascending by address.
#[derive(Debug, Default)]
pub(in crate::rpc) struct AccountOverrides(pub(in crate::rpc) Vec<AccountOverride>);

impl Param for AccountOverrides {
    fn read(json: &str, spec: &ChainSpec) -> Result<Self, String> {
        let objects: BTreeMap<String, AccountObject> = object(json)?;
        let mut overrides = Vec::with_capacity(objects.len());
        let mut slots_left = SLOTS_MAX;
        for (text, object) in &objects {
            let account = address(Some(text), spec)?.unwrap_or_default();
            let mut slots = |map: &Option<BTreeMap<String, String>>| {
                map.as_ref().map(|map| read_slots(map, &mut slots_left)).transpose()
            };
            overrides.push(AccountOverride {
                address: account,
                balance: object.balance.as_deref().map(wide).transpose()?,
                nonce: number(object.nonce.as_ref())?,
                code: object.code.as_deref().map(data).transpose()?.map(Bytes::from),
                state: slots(&object.state)?,
                state_diff: slots(&object.state_diff)?,
                move_precompile_to: address(object.move_precompile_to_address.as_ref(), spec)?,
            });
        }
        overrides.sort_unstable_by_key(|account| account.address);
        let twice = overrides.windows(2).any(|pair| pair[0].address == pair[1].address);
        if twice {
            return Err("an account is overridden twice".to_owned());
        }
        Ok(Self(overrides))
    }
}

fn read_slots(
    map: &BTreeMap<String, String>,
    slots_left: &mut usize,
) -> Result<Vec<(U256, U256)>, String> {
    *slots_left = slots_left
        .checked_sub(map.len())
        .ok_or_else(|| format!("more than {SLOTS_MAX} slots are overridden"))?;
    let word = |text: &str| hash(text).map(|word| U256::from_be_bytes(word.0));
    map.iter().map(|(slot, value)| Ok((word(slot)?, word(value)?))).collect()
}

/// Overrides of a block, as given. Two spellings of some fields are in use.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BlockObject {
    number: Option<String>,
    difficulty: Option<String>,
    time: Option<String>,
    gas_limit: Option<String>,
    #[serde(alias = "coinbase")]
    fee_recipient: Option<String>,
    #[serde(alias = "random")]
    prev_randao: Option<B256>,
    #[serde(alias = "baseFee")]
    base_fee_per_gas: Option<String>,
    blob_base_fee: Option<String>,
    beacon_root: Option<B256>,
    withdrawals: Option<Vec<Withdrawal>>,
}

impl Param for BlockOverrides {
    fn read(json: &str, spec: &ChainSpec) -> Result<Self, String> {
        let object: BlockObject = object(json)?;
        Ok(Self {
            number: number(object.number.as_ref())?,
            difficulty: object.difficulty.as_deref().map(wide).transpose()?,
            time: number(object.time.as_ref())?,
            gas_limit: number(object.gas_limit.as_ref())?,
            fee_recipient: address(object.fee_recipient.as_ref(), spec)?,
            prev_randao: object.prev_randao,
            base_fee: number(object.base_fee_per_gas.as_ref())?,
            blob_base_fee: wei(object.blob_base_fee.as_ref())?,
            beacon_root: object.beacon_root,
            withdrawals: object.withdrawals.map(Withdrawals::new),
        })
    }
}

/// Both kinds of overrides of one call.
#[derive(Debug, Default)]
pub(in crate::rpc) struct GivenOverrides {
    pub(super) accounts: AccountOverrides,
    pub(super) block: BlockOverrides,
}

impl GivenOverrides {
    /// The next two parameters of a call.
    pub(in crate::rpc) fn next(arguments: &mut Arguments<'_>) -> Result<Self, Error> {
        let accounts = arguments.optional()?.unwrap_or_default();
        let block = arguments.optional()?.unwrap_or_default();
        Ok(Self { accounts, block })
    }

    /// Reads what is there of the two.
    pub(in crate::rpc) fn read(
        accounts: Option<&RawValue>,
        block: Option<&RawValue>,
        spec: &ChainSpec,
    ) -> Result<Self, String> {
        let accounts = accounts.map(|raw| AccountOverrides::read(raw.get(), spec)).transpose()?;
        let block = block.map(|raw| BlockOverrides::read(raw.get(), spec)).transpose()?;
        Ok(Self { accounts: accounts.unwrap_or_default(), block: block.unwrap_or_default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::Genesis;

    fn read<T: Param>(json: &str) -> Result<T, String> {
        T::read(json, &Genesis::native_dev(0).spec)
    }

    #[test]
    fn requests_are_read() {
        let request: Request = read(
            "{\"to\":\"0x0101010101010101010101010101010101010101\",\"gas\":\"0x10\",\
             \"data\":\"0x1234\",\"maxFeePerGas\":\"0x7\",\"type\":\"0x2\",\"unknown\":[1]}",
        )
        .expect("valid");
        assert_eq!(request.execution.to, TxKind::Call(Address::repeat_byte(1)));
        assert_eq!(request.execution.gas, Some(16));
        assert_eq!(request.execution.input.as_ref(), [0x12, 0x34]);
        assert_eq!(request.execution.max_priority_fee_per_gas, Some(0));
        assert!(request.conflict.is_none() && !request.execution.is_legacy);
        let differing = "{\"data\":\"0x12\",\"input\":\"\",\"value\":\"\",\"gas\":\"\"}";
        let request: Request = read(differing).expect("empty texts are taken");
        assert!(request.inputs_differ && request.conflict.is_none());
        assert!(request.execution.input.is_empty(), "input counts");
        assert_eq!((request.execution.value, request.execution.gas), (U256::ZERO, Some(0)));
        let spec = &Genesis::native_dev(0).spec;
        assert!(request.check_to_sign(spec).is_err(), "who signs is told");
        assert!(read::<Request>(differing).expect("read").check(spec).is_ok());
        let both = "{\"gasPrice\":\"0x1\",\"maxFeePerGas\":\"0x2\"}";
        assert!(read::<Request>(both).expect("well-formed").conflict.is_some());
        let bad = ["[]", "{\"gas\":1}", "{\"data\":\"0x1\"}", "{\"to\":\"0x1\"}", "\"0x\""];
        for json in bad {
            assert!(read::<Request>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn overrides_are_read() {
        let one = format!("0x{:064x}", 1);
        let json = format!(
            "{{\"0x0101010101010101010101010101010101010101\":{{\"balance\":\"0x7\",\
             \"stateDiff\":{{\"{one}\":\"{one}\"}}}}}}"
        );
        let overrides: AccountOverrides = read(&json).expect("valid");
        let account = &overrides.0[0];
        assert_eq!(account.address, Address::repeat_byte(1));
        assert_eq!(account.balance, Some(U256::from(7)));
        assert_eq!(account.state_diff, Some(vec![(U256::from(1), U256::from(1))]));
        for json in ["[]", "{\"0x1\":{}}", "{\"0x0101010101010101010101010101010101010101\":1}"] {
            assert!(read::<AccountOverrides>(json).is_err(), "{json}");
        }
        let block: BlockOverrides = read("{\"random\":null,\"coinbase\":null,\"time\":\"0x5\"}")
            .expect("other spellings are known");
        assert_eq!(block.time, Some(5));
    }
}
