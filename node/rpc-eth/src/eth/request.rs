//! Parses the parameters of a call: a transaction, and overrides of accounts and of the block.

use alloy_eips::{
    eip2930::{AccessList, AccessListItem},
    eip4895::{Withdrawal, Withdrawals},
    eip7702::{Authorization, SignedAuthorization},
};
use alloy_primitives::{Address, Bytes, TxKind, U256};
use chain::ChainSpec;
use evm::{AccountOverride, BlockOverrides, Call as Execution, WidePrices};
use keys::parse_address_in_any_case;
use rpc_types::{
    error::Error,
    fields::{self, HashField, QuantityField, WideField},
    params::{Arguments, Param, bytes, quantity, wide_quantity},
};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{borrow::Cow, collections::BTreeMap};

/// Maximum number of slots that one request may override in all accounts together. No known tool needs more.
const MAX_OVERRIDE_SLOTS: usize = 100_000;

// As in geth, an empty string in an object means zero, or no bytes.
rpc_types::text_fields! {
    Data(Vec<u8>) = |text| if text.is_empty() { Ok(Vec::new()) } else { bytes(text) };
    Wide(U256) = wide;
    Narrow(u64) = |text| if text.is_empty() { Ok(0) } else { quantity(text) };
    /// The blob base fee of a block in wei, which has at most 128 bits.
    Wei(u128) = |text| u128::try_from(wide(text)?).map_err(|_| "exceeds 128 bits".to_owned());
}

fn wide(text: &str) -> Result<U256, String> {
    if text.is_empty() { Ok(U256::ZERO) } else { wide_quantity(text) }
}

/// A transaction as JSON. Its addresses are parsed later, with the prefix of the chain.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Object {
    from: Option<String>,
    to: Option<String>,
    gas: Option<Narrow>,
    gas_price: Option<Wide>,
    max_fee_per_gas: Option<Wide>,
    max_priority_fee_per_gas: Option<Wide>,
    max_fee_per_blob_gas: Option<Wide>,
    value: Option<Wide>,
    nonce: Option<Narrow>,
    chain_id: Option<Narrow>,
    data: Option<Data>,
    input: Option<Data>,
    access_list: Option<Vec<AccessObject>>,
    blob_versioned_hashes: Option<Vec<HashField>>,
    authorization_list: Option<Vec<AuthorizationObject>>,
}

/// An entry of an access list (EIP-2930).
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AccessObject {
    address: String,
    storage_keys: Vec<HashField>,
}

/// A signed authorization (EIP-7702).
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuthorizationObject {
    chain_id: WideField,
    address: String,
    nonce: QuantityField,
    y_parity: QuantityField,
    r: WideField,
    s: WideField,
}

impl AccessObject {
    fn read(self, spec: &ChainSpec) -> Result<AccessListItem, String> {
        let address = required_address("accessList: address", &self.address, spec)?;
        let storage_keys = self.storage_keys.into_iter().map(|HashField(key)| key).collect();
        Ok(AccessListItem { address, storage_keys })
    }
}

impl AuthorizationObject {
    fn read(self, spec: &ChainSpec) -> Result<SignedAuthorization, String> {
        let address = required_address("authorizationList: address", &self.address, spec)?;
        let parity = u8::try_from(self.y_parity.0)
            .map_err(|_| "authorizationList: yParity: exceeds 8 bits".to_owned())?;
        let authorization =
            Authorization { chain_id: self.chain_id.0, address, nonce: self.nonce.0 };
        let (WideField(r), WideField(s)) = (self.r, self.s);
        Ok(SignedAuthorization::new_unchecked(authorization, parity, r, s))
    }
}

/// A transaction whose fields are well-formed, but may be inconsistent.
#[derive(Debug)]
pub struct Request {
    /// The call before the limits of the node are applied.
    pub execution: Execution,
    chain_id: Option<u64>,
    /// The error about inconsistent fields.
    conflict: Option<Cow<'static, str>>,
    /// Whether `data` and `input` are both present and differ. A call uses `input`; a transaction to sign is refused.
    inputs_differ: bool,
}

impl Request {
    /// Creates a request from a valid execution.
    pub const fn of(execution: Execution) -> Self {
        Self { execution, chain_id: None, conflict: None, inputs_differ: false }
    }

    /// Returns the execution, or an error if its fields are inconsistent or its chain ID is not this chain's.
    pub fn check(self, spec: &ChainSpec) -> Result<Execution, Error> {
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

    /// Like [`Self::check`], but for a transaction to sign, in which `data` and `input` must not differ.
    pub fn check_to_sign(self, spec: &ChainSpec) -> Result<Execution, Error> {
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

fn required_address(field: &str, text: &str, spec: &ChainSpec) -> Result<Address, String> {
    let read = parse_address_in_any_case(text, &spec.bech32_prefix);
    read.map_err(|error| format!("{field}: {error}"))
}

fn address(
    field: &str,
    text: Option<&String>,
    spec: &ChainSpec,
) -> Result<Option<Address>, String> {
    text.map(|text| required_address(field, text, spec)).transpose()
}

impl Param for Request {
    fn read(json: &str, spec: &ChainSpec) -> Result<Self, String> {
        let object: Object = fields::read(json)?;
        let (data, input) = (object.data, object.input);
        let inputs_differ = data.is_some() && input.is_some() && data != input;
        let price = object.gas_price.map(|Wide(price)| price);
        let cap = object.max_fee_per_gas.map(|Wide(cap)| cap);
        let tip = object.max_priority_fee_per_gas.map(|Wide(tip)| tip);
        let blob_cap = object.max_fee_per_blob_gas.map(|Wide(cap)| cap);
        let from = address("from", object.from.as_ref(), spec)?.unwrap_or_default();
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
        let access_list = object.access_list.map(|list| {
            list.into_iter().map(|entry| entry.read(spec)).collect::<Result<Vec<_>, _>>()
        });
        let authorizations = object.authorization_list.into_iter().flatten();
        let hashes = object.blob_versioned_hashes.into_iter().flatten();
        let blob_hashes: Vec<_> = hashes.map(|HashField(hash)| hash).collect();
        let fee_cap = price.or(cap).unwrap_or_default();
        // A transaction without blobs does not pay a blob fee.
        let paid_blob_cap = blob_cap.filter(|_| !blob_hashes.is_empty()).unwrap_or_default();
        let wide_prices = WidePrices::of(fee_cap, tip.unwrap_or_default(), paid_blob_cap);
        let narrow = |price: U256| price.saturating_to::<u128>();
        let Data(input) = input.or(data).unwrap_or_default();
        let execution = Execution {
            from,
            to: address("to", object.to.as_ref(), spec)?.map_or(TxKind::Create, TxKind::Call),
            gas: object.gas.map(|Narrow(gas)| gas),
            max_fee_per_gas: narrow(fee_cap),
            max_priority_fee_per_gas: tip.map(narrow).or_else(|| cap.map(|_| 0)),
            value: object.value.map(|Wide(value)| value).unwrap_or_default(),
            input: Bytes::from(input),
            access_list: access_list.transpose()?.map(AccessList),
            blob_hashes,
            max_fee_per_blob_gas: blob_cap.map(narrow),
            authorizations: authorizations.map(|auth| auth.read(spec)).collect::<Result<_, _>>()?,
            nonce: object.nonce.map(|Narrow(nonce)| nonce),
            is_legacy: price.is_some(),
            overrides: Vec::new(),
            blob_base_fee: None,
            wide_prices,
        };
        let chain_id = object.chain_id.map(|Narrow(id)| id);
        Ok(Self { execution, chain_id, conflict, inputs_differ })
    }
}

type Slots = BTreeMap<HashField, HashField>;

/// The overrides of one account as JSON.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AccountObject {
    balance: Option<Wide>,
    nonce: Option<Narrow>,
    code: Option<Data>,
    state: Option<Slots>,
    state_diff: Option<Slots>,
    move_precompile_to_address: Option<String>,
}

/// The overrides of accounts, ordered by address.
#[derive(Debug, Default)]
pub struct AccountOverrides(pub Vec<AccountOverride>);

impl Param for AccountOverrides {
    fn read(json: &str, spec: &ChainSpec) -> Result<Self, String> {
        let objects: BTreeMap<String, Option<AccountObject>> = fields::read(json)?;
        let mut overrides = Vec::with_capacity(objects.len());
        let mut slots_left = MAX_OVERRIDE_SLOTS;
        for (text, object) in objects {
            let address = parse_address_in_any_case(&text, &spec.bech32_prefix);
            let address = address.map_err(|error| error.to_string())?;
            let account = object.unwrap_or_default().read(address, &mut slots_left, spec);
            overrides.push(account.map_err(|reason| format!("{text}: {reason}"))?);
        }
        overrides.sort_unstable_by_key(|account| account.address);
        let twice = overrides.windows(2).find(|pair| pair[0].address == pair[1].address);
        if let Some([account, _]) = twice {
            return Err(format!("account {} is overridden twice", account.address));
        }
        Ok(Self(overrides))
    }
}

impl AccountObject {
    fn read(
        self,
        address: Address,
        slots_left: &mut usize,
        spec: &ChainSpec,
    ) -> Result<AccountOverride, String> {
        let target = self.move_precompile_to_address.as_ref();
        let mut slots = |map: Option<Slots>| map.map(|map| read_slots(map, slots_left)).transpose();
        Ok(AccountOverride {
            address,
            balance: self.balance.map(|Wide(balance)| balance),
            nonce: self.nonce.map(|Narrow(nonce)| nonce),
            code: self.code.map(|Data(code)| Bytes::from(code)),
            state: slots(self.state)?,
            state_diff: slots(self.state_diff)?,
            move_precompile_to: self::address("movePrecompileToAddress", target, spec)?,
        })
    }
}

fn read_slots(map: Slots, slots_left: &mut usize) -> Result<Vec<(U256, U256)>, String> {
    *slots_left = slots_left.checked_sub(map.len()).ok_or_else(|| {
        format!("a request may override at most {MAX_OVERRIDE_SLOTS} slots of all accounts")
    })?;
    let word = |HashField(hash): HashField| U256::from_be_bytes(hash.0);
    Ok(map.into_iter().map(|(slot, value)| (word(slot), word(value))).collect())
}

/// The overrides of a block as JSON. Clients use two names for some fields.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BlockObject {
    number: Option<Narrow>,
    difficulty: Option<Wide>,
    time: Option<Narrow>,
    gas_limit: Option<Narrow>,
    fee_recipient: Option<String>,
    coinbase: Option<String>,
    prev_randao: Option<HashField>,
    random: Option<HashField>,
    base_fee_per_gas: Option<Narrow>,
    base_fee: Option<Narrow>,
    blob_base_fee: Option<Wei>,
    beacon_root: Option<HashField>,
    withdrawals: Option<Vec<WithdrawalObject>>,
}

/// A withdrawal (EIP-4895).
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WithdrawalObject {
    index: QuantityField,
    validator_index: QuantityField,
    address: String,
    amount: QuantityField,
}

impl WithdrawalObject {
    /// Returns the withdrawal.
    ///
    /// # Errors
    /// Returns the reason why a field is invalid.
    pub fn read(self, spec: &ChainSpec) -> Result<Withdrawal, String> {
        Ok(Withdrawal {
            index: self.index.0,
            validator_index: self.validator_index.0,
            address: required_address("withdrawals: address", &self.address, spec)?,
            amount: self.amount.0,
        })
    }
}

/// The parameter `blockOverrides`.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockOverridesParam(pub(super) BlockOverrides);

impl Param for BlockOverridesParam {
    fn read(json: &str, spec: &ChainSpec) -> Result<Self, String> {
        read_block_overrides(json, spec).map(Self)
    }
}

/// Parses the `blockOverrides` of a call.
///
/// # Errors
/// Returns the reason why a field is invalid.
pub fn read_block_overrides(json: &str, spec: &ChainSpec) -> Result<BlockOverrides, String> {
    let object: BlockObject = fields::read(json)?;
    let recipient = object.fee_recipient.or(object.coinbase);
    let withdrawals = object.withdrawals.map(|list| {
        list.into_iter().map(|withdrawal| withdrawal.read(spec)).collect::<Result<Vec<_>, _>>()
    });
    Ok(BlockOverrides {
        number: object.number.map(|Narrow(number)| number),
        difficulty: object.difficulty.map(|Wide(difficulty)| difficulty),
        time: object.time.map(|Narrow(time)| time),
        gas_limit: object.gas_limit.map(|Narrow(limit)| limit),
        fee_recipient: address("feeRecipient", recipient.as_ref(), spec)?,
        prev_randao: object.prev_randao.or(object.random).map(|HashField(hash)| hash),
        base_fee: object.base_fee_per_gas.or(object.base_fee).map(|Narrow(fee)| fee),
        blob_base_fee: object.blob_base_fee.map(|Wei(fee)| fee),
        beacon_root: object.beacon_root.map(|HashField(root)| root),
        withdrawals: withdrawals.transpose()?.map(Withdrawals::new),
    })
}

/// The overrides of a call.
#[derive(Debug, Default)]
pub struct CallOverrides {
    /// The overrides of accounts.
    pub accounts: AccountOverrides,
    /// The overrides of the block.
    pub block: BlockOverrides,
}

impl CallOverrides {
    /// Parses the next two parameters of a call.
    pub fn next(arguments: &mut Arguments<'_>) -> Result<Self, Error> {
        let accounts = arguments.optional()?.unwrap_or_default();
        let BlockOverridesParam(block) = arguments.optional()?.unwrap_or_default();
        Ok(Self { accounts, block })
    }

    /// Parses the overrides that are present.
    pub fn read(
        accounts: Option<&RawValue>,
        block: Option<&RawValue>,
        spec: &ChainSpec,
    ) -> Result<Self, String> {
        let accounts = accounts.map(|raw| AccountOverrides::read(raw.get(), spec)).transpose()?;
        let block = block.map(|raw| read_block_overrides(raw.get(), spec)).transpose()?;
        Ok(Self { accounts: accounts.unwrap_or_default(), block: block.unwrap_or_default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chain::Genesis;

    fn read<T: Param>(json: &str) -> Result<T, String> {
        T::read(json, &Genesis::native_dev(0).spec)
    }

    #[test]
    fn requests_are_parsed_and_conflicts_are_recorded() {
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
        let request: Request = read(differing).expect("empty strings are accepted");
        assert!(request.inputs_differ && request.conflict.is_none());
        assert!(request.execution.input.is_empty(), "`input` takes precedence");
        assert_eq!((request.execution.value, request.execution.gas), (U256::ZERO, Some(0)));
        let spec = &Genesis::native_dev(0).spec;
        assert!(request.check_to_sign(spec).is_err(), "`data` and `input` differ");
        assert!(read::<Request>(differing).expect("read").check(spec).is_ok());
        let two_prices = "{\"gasPrice\":\"0x1\",\"maxFeePerGas\":\"0x2\"}";
        assert!(read::<Request>(two_prices).expect("well-formed").conflict.is_some());
        let invalid = ["[]", "{\"gas\":1}", "{\"data\":\"0x1\"}", "{\"to\":\"0x1\"}", "\"0x\""];
        for json in invalid {
            assert!(read::<Request>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn overrides_are_parsed_with_either_name() {
        let word = format!("0x{:064x}", 1);
        let json = format!(
            "{{\"0x0101010101010101010101010101010101010101\":{{\"balance\":\"0x7\",\
             \"stateDiff\":{{\"{word}\":\"{word}\"}}}}}}"
        );
        let overrides: AccountOverrides = read(&json).expect("valid");
        let account = &overrides.0[0];
        assert_eq!(account.address, Address::repeat_byte(1));
        assert_eq!(account.balance, Some(U256::from(7)));
        assert_eq!(account.state_diff, Some(vec![(U256::from(1), U256::from(1))]));
        for json in ["[]", "{\"0x1\":{}}", "{\"0x0101010101010101010101010101010101010101\":1}"] {
            assert!(read::<AccountOverrides>(json).is_err(), "{json}");
        }
        let json = "{\"random\":null,\"coinbase\":null,\"time\":\"0x5\"}";
        let BlockOverridesParam(block) = read(json).expect("both names are known");
        assert_eq!(block.time, Some(5));
    }
}
