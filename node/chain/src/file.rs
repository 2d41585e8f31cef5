//! Reads a `genesis.json` as geth does. Accounts are read one at a time, because a file may contain millions of
//! them.

use std::{collections::BTreeMap, fmt};

use alloy_genesis::{Genesis as GenesisFile, GenesisAccount};
use alloy_primitives::Address;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::GenesisError;

/// Difficulty of a proof-of-work genesis that does not state one.
const DEFAULT_DIFFICULTY: u64 = 131_072;
/// The field with the accounts.
const ALLOC: &str = "alloc";
/// The field with the gas used in the genesis block.
pub(super) const GAS_USED: &str = "gasUsed";

/// Whether the accounts of a file are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accounts {
    /// They are read.
    Kept,
    /// They are skipped.
    Skipped,
}

#[derive(Debug, PartialEq)]
pub(super) struct ParsedFile {
    pub(super) file: GenesisFile,
    /// A field of geth's genesis that the library's type lacks.
    pub(super) gas_used: u64,
}

/// Reads the file. An error names the invalid field.
pub(super) fn parse(text: &str, accounts: Accounts) -> Result<ParsedFile, GenesisError> {
    let not_json = |error: serde_json::Error| GenesisError::Json(error.to_string());
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let parts = FileSeed(accounts).deserialize(&mut deserializer).map_err(not_json)?;
    deserializer.end().map_err(not_json)?;
    let Parts { mut fields, alloc } = parts;
    for required in ["config", "gasLimit"] {
        if !fields.contains_key(required) {
            return Err(GenesisError::field(required, "is missing"));
        }
    }
    let config = fields.get("config").cloned().unwrap_or_default();
    if !matches!(config.get("chainId"), Some(Value::Number(_) | Value::String(_))) {
        return Err(GenesisError::field("config.chainId", "is missing"));
    }
    let gas_used = fields.remove(GAS_USED).map_or(Ok(0), gas_used)?;
    if !fields.contains_key("difficulty") && config.get("ethash").is_some() {
        fields.insert("difficulty".to_owned(), DEFAULT_DIFFICULTY.into());
    }
    let alloc = match alloc {
        Some(Alloc { error: Some(error), .. }) => return Err(error),
        Some(Alloc { accounts, .. }) => {
            fields.insert(ALLOC.to_owned(), Map::new().into());
            accounts
        }
        None => BTreeMap::new(),
    };
    let file = serde_json::from_value::<GenesisFile>(fields.clone().into());
    let file = file.map_err(|error| invalid_field(&fields, &error.to_string()))?;
    Ok(ParsedFile { file: GenesisFile { alloc, ..file }, gas_used })
}

/// Reads a number, or a string with a hexadecimal or decimal number, as geth does.
fn gas_used(value: Value) -> Result<u64, GenesisError> {
    let number = match &value {
        Value::Null => Some(0),
        Value::Number(number) => number.as_u64(),
        Value::String(text) => match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        },
        _ => None,
    };
    number.ok_or_else(|| {
        GenesisError::field(GAS_USED, format!("must be a number of 64 bits, got {value}"))
    })
}

/// The fields of the file, with the accounts separate.
struct Parts {
    fields: Map<String, Value>,
    /// `None` if the file has no field `alloc`.
    alloc: Option<Alloc>,
}

/// The accounts before the first malformed one, and the error of the malformed one.
#[derive(Default)]
struct Alloc {
    accounts: BTreeMap<Address, GenesisAccount>,
    error: Option<GenesisError>,
}

struct FileSeed(Accounts);

impl<'de> DeserializeSeed<'de> for FileSeed {
    type Value = Parts;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Parts, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FileSeed {
    type Value = Parts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Parts, A::Error> {
        let mut parts = Parts { fields: Map::new(), alloc: None };
        while let Some(key) = map.next_key::<String>()? {
            if key != ALLOC {
                parts.fields.insert(key, map.next_value()?);
            } else if self.0 == Accounts::Skipped {
                map.next_value::<IgnoredAny>()?;
                parts.alloc = Some(Alloc::default());
            } else {
                parts.alloc = Some(map.next_value_seed(AllocSeed)?);
            }
        }
        Ok(parts)
    }
}

struct AllocSeed;

impl<'de> DeserializeSeed<'de> for AllocSeed {
    type Value = Alloc;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Alloc, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for AllocSeed {
    type Value = Alloc;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of accounts by address in `alloc`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Alloc, A::Error> {
        let mut alloc = Alloc::default();
        while let Some((key, value)) = map.next_entry::<String, Value>()? {
            if alloc.error.is_some() {
                continue;
            }
            match account(&key, value) {
                Ok((address, account)) => {
                    alloc.accounts.insert(address, account);
                }
                Err(reason) => {
                    alloc.error = Some(GenesisError::field(format!("{ALLOC}.{key}"), reason));
                }
            }
        }
        Ok(alloc)
    }
}

/// Reads one account. Unlike the library, it ignores unknown fields of an account, as geth does.
fn account(key: &str, mut value: Value) -> Result<(Address, GenesisAccount), String> {
    let address = key.parse::<Address>().map_err(|error| error.to_string())?;
    if let Value::Object(account) = &mut value {
        account.retain(|key, _| ACCOUNT_FIELDS.contains(&key.as_str()));
        if let Some(Value::Object(storage)) = account.get_mut("storage") {
            *storage = std::mem::take(storage)
                .into_iter()
                .map(|(slot, value)| {
                    (word(&slot), value.as_str().map_or(value.clone(), |v| word(v).into()))
                })
                .collect();
        }
    }
    let account = serde_json::from_value(value).map_err(|error| error.to_string())?;
    Ok((address, account))
}

/// Pads a hex number to 32 bytes, as geth does. Other text is padded too, and the parser rejects it.
fn word(text: &str) -> String {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    format!("0x{digits:0>64}")
}

const ACCOUNT_FIELDS: [&str; 5] = ["nonce", "balance", "code", "storage", "secretKey"];

/// Finds the invalid field by parsing one field at a time.
fn invalid_field(fields: &Map<String, Value>, error: &str) -> GenesisError {
    let fails = |key: &str, value: Value| {
        let single = Value::Object(Map::from_iter([(key.to_owned(), value)]));
        serde_json::from_value::<GenesisFile>(single).err().map(|error| error.to_string())
    };
    for (key, value) in fields {
        let Some(reason) = fails(key, value.clone()) else { continue };
        let inner = match value {
            Value::Object(inner) if key == "config" => inner,
            _ => return GenesisError::field(key, reason),
        };
        for (name, value) in inner {
            let single = Value::Object(Map::from_iter([(name.clone(), value.clone())]));
            if let Some(reason) = fails(key, single) {
                return GenesisError::field(format!("{key}.{name}"), reason);
            }
        }
        return GenesisError::field(key, reason);
    }
    GenesisError::Json(error.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(alloc: &str) -> String {
        let text =
            format!(r#"{{"config": {{"chainId": 1}}, "gasLimit": "0x1", "alloc": {alloc}}}"#);
        parse(&text, Accounts::Kept).unwrap_err().to_string()
    }

    #[test]
    fn accounts_are_read_as_geth_reads_them() {
        let text = r#"{"alloc": {
            "f39Fd6e51aad88F6F4ce6aB8827279cffFb92266": {"balance": "10", "comment": "mine"},
            "0x70997970C51812dc3A010C7d01b50e0d17dc79C8":
                {"balance": "0x1", "storage": {"0x1": "0x2", "3": "04"}}
        }, "config": {"chainId": 7}, "gasLimit": "0x1000"}"#;
        let file = parse(text, Accounts::Kept).unwrap().file;
        let balances: Vec<_> =
            file.alloc.values().map(|account| account.balance.to::<u64>()).collect();
        assert_eq!(balances, [1, 10]);
        let slots = file.alloc.values().next().unwrap().storage_slots().count();
        assert_eq!((slots, file.config.chain_id, file.gas_limit), (2, 7, 0x1000));
        let skipped = parse(text, Accounts::Skipped).unwrap().file;
        assert_eq!(skipped, GenesisFile { alloc: BTreeMap::new(), ..file });
    }

    #[test]
    fn gas_used_is_read_as_geth_reads_it() {
        let parse = |gas_used: &str| {
            let text = format!(
                r#"{{"config": {{"chainId": 1}}, "gasLimit": "0x1", "gasUsed": {gas_used}}}"#
            );
            parse(&text, Accounts::Kept).map(|parsed| parsed.gas_used)
        };
        for (text, expected) in [
            ("null", 0),
            ("7", 7),
            ("\"7\"", 7),
            ("\"0x1f\"", 31),
            ("\"0xffffffffffffffff\"", u64::MAX),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
        for text in ["-1", "\"\"", "\"0x\"", "[]", "\"0x10000000000000000\"", "\"much\""] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains("`gasUsed`") && error.contains(text), "{error}");
        }
    }

    #[test]
    fn error_names_the_malformed_account() {
        let address = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
        let text = error(&format!(r#"{{"{address}": {{"balance": "much"}}}}"#));
        assert!(text.contains(&format!("`alloc.{address}`")), "{text}");
        assert!(error(r#"{"0x12": {"balance": "1"}}"#).contains("`alloc.0x12`"));
        assert!(error("[]").contains("`alloc`"));
        assert!(parse("[]", Accounts::Kept).unwrap_err().to_string().contains("an object"));
        assert!(parse("{}", Accounts::Kept).unwrap_err().to_string().contains("config"));
        assert!(parse("{} x", Accounts::Kept).unwrap_err().to_string().contains("valid JSON"));
    }
}
