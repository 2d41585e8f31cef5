//! Parses the parameters of a call. The errors of quantities and hex strings have geth's texts.

use crate::error::Error;
use alloy_primitives::{Address, B256, Bytes, U256, hex};
use chain::ChainSpec;
use keys::parse_address_in_any_case;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// A type of parameter.
pub trait Param: Sized {
    /// Parses the JSON text of a value that is not `null`, or returns the reason why it is invalid.
    fn read(json: &str, spec: &ChainSpec) -> Result<Self, String>;
}

impl Param for Vec<f64> {
    fn read(json: &str, _: &ChainSpec) -> Result<Self, String> {
        serde_json::from_str(json).map_err(|_| "not a list of numbers".to_owned())
    }
}

/// The parameters of a call, which are read in order.
#[derive(Debug)]
pub struct Arguments<'a> {
    values: std::vec::IntoIter<&'a RawValue>,
    taken: usize,
    spec: &'a ChainSpec,
}

impl<'a> Arguments<'a> {
    /// Splits `params`, and returns an error if there are more than `max`.
    pub fn new(params: &'a [u8], max: usize, spec: &'a ChainSpec) -> Result<Self, Error> {
        let values: Vec<&RawValue> = match params {
            b"" | b"null" => Vec::new(),
            text => serde_json::from_slice(text).map_err(|_| Error::params_not_a_list())?,
        };
        if values.len() > max {
            return Err(Error::too_many_arguments(max));
        }
        Ok(Self { values: values.into_iter(), taken: 0, spec })
    }

    /// Reads the next parameter, and returns `None` if it is absent or `null`.
    pub fn optional<T: Param>(&mut self) -> Result<Option<T>, Error> {
        let index = self.taken;
        self.taken += 1;
        let value = self.values.next().map(RawValue::get).filter(|text| *text != "null");
        let read = |text| T::read(text, self.spec);
        value.map(read).transpose().map_err(|reason| Error::invalid_argument(index, &reason))
    }

    /// Reads the next parameter, which is required.
    pub fn required<T: Param>(&mut self) -> Result<T, Error> {
        let index = self.taken;
        self.optional()?.ok_or_else(|| Error::missing_argument(index))
    }

    /// Reads the next parameter, which is required but may be `null`. As in geth, `null` is the zero value.
    pub fn nullable<T: Param + Default>(&mut self) -> Result<T, Error> {
        match self.values.len() {
            0 => Err(Error::missing_argument(self.taken)),
            _ => Ok(self.optional()?.unwrap_or_default()),
        }
    }
}

/// Parses a JSON string.
pub fn string(json: &str) -> Result<Cow<'_, str>, String> {
    /// A string, which is copied only if the text has escapes.
    #[derive(serde::Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    let text: Text<'_> = serde_json::from_str(json).map_err(|_| "not a string".to_owned())?;
    Ok(text.0)
}

/// Maximum number of addresses, or of alternatives for one topic, in a filter, as in geth.
const MAX_ALTERNATIVES: usize = 1000;

/// Parses a string or a list of strings. As in geth's topics, `null`, alone or in a list, matches everything. The
/// result is then empty.
pub fn one_or_many<T>(
    raw: &RawValue,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    #[derive(serde::Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    let malformed = |_| "neither a string nor a list of strings".to_owned();
    let json = raw.get();
    let texts: Vec<Option<Text<'_>>> = if json.starts_with('[') {
        serde_json::from_str(json).map_err(malformed)?
    } else {
        vec![serde_json::from_str(json).map_err(malformed)?]
    };
    if texts.len() > MAX_ALTERNATIVES {
        return Err("exceed max addresses or topics per search position".to_owned());
    }
    let texts: Option<Vec<_>> = texts.into_iter().collect();
    texts.unwrap_or_default().iter().map(|text| read(&text.0)).collect()
}

/// Parses an address or a list of addresses.
pub fn addresses(raw: &RawValue, spec: &ChainSpec) -> Result<Vec<Address>, String> {
    let address = |text: &str| {
        parse_address_in_any_case(text, &spec.bech32_prefix).map_err(|error| error.to_string())
    };
    one_or_many(raw, address)
}

/// Returns the hex digits of a quantity, and rejects what geth rejects.
fn quantity_digits(text: &str) -> Result<&str, String> {
    if text.is_empty() {
        return Err("empty hex string".to_owned());
    }
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let digits = digits.ok_or("hex string without 0x prefix")?;
    match digits.as_bytes() {
        [] => Err("hex string \"0x\"".to_owned()),
        [b'0', _, ..] => Err("hex number with leading zero digits".to_owned()),
        bytes if bytes.iter().all(u8::is_ascii_hexdigit) => Ok(digits),
        _ => Err("invalid hex string".to_owned()),
    }
}

/// Parses a quantity of at most 64 bits: hex digits after `0x`, without leading zeros.
pub fn quantity(text: &str) -> Result<u64, String> {
    let digits = quantity_digits(text)?;
    u64::from_str_radix(digits, 16).map_err(|_| "hex number > 64 bits".to_owned())
}

/// Parses a quantity of at most 256 bits.
pub fn wide_quantity(text: &str) -> Result<U256, String> {
    let digits = quantity_digits(text)?;
    U256::from_str_radix(digits, 16).map_err(|_| "hex number > 256 bits".to_owned())
}

/// Parses bytes: pairs of hex digits after `0x`.
pub fn bytes(text: &str) -> Result<Vec<u8>, String> {
    if text.is_empty() {
        return Err("empty hex string".to_owned());
    }
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let digits = digits.ok_or("hex string without 0x prefix")?;
    if digits.len() % 2 == 1 {
        return Err("hex string of odd length".to_owned());
    }
    hex::decode(digits).map_err(|_| "invalid hex string".to_owned())
}

/// Parses a hash of 32 bytes.
pub fn hash(text: &str) -> Result<B256, String> {
    let bytes = bytes(text)?;
    B256::try_from(bytes.as_slice())
        .map_err(|_| format!("hex string has length {}, want 64 for a hash", bytes.len() * 2))
}

impl Param for u64 {
    fn read(json: &str, _: &ChainSpec) -> Result<Self, String> {
        quantity(&string(json)?)
    }
}

/// A number, as a JSON number or as a quantity.
#[derive(Debug)]
pub struct Number(pub u64);

impl Param for Number {
    fn read(json: &str, spec: &ChainSpec) -> Result<Self, String> {
        match json.parse() {
            Ok(number) => Ok(Self(number)),
            Err(_) => u64::read(json, spec).map(Self),
        }
    }
}

impl Param for B256 {
    fn read(json: &str, _: &ChainSpec) -> Result<Self, String> {
        hash(&string(json)?)
    }
}

impl Param for Address {
    fn read(json: &str, spec: &ChainSpec) -> Result<Self, String> {
        parse_address_in_any_case(&string(json)?, &spec.bech32_prefix)
            .map_err(|error| error.to_string())
    }
}

impl Param for Bytes {
    fn read(json: &str, _: &ChainSpec) -> Result<Self, String> {
        bytes(&string(json)?).map(Self::from)
    }
}

impl Param for String {
    fn read(json: &str, _: &ChainSpec) -> Result<Self, String> {
        string(json).map(Cow::into_owned)
    }
}

impl Param for bool {
    fn read(json: &str, _: &ChainSpec) -> Result<Self, String> {
        serde_json::from_str(json).map_err(|_| "not a boolean".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_as_strict_as_in_geth() {
        assert_eq!(quantity("0x0"), Ok(0));
        assert_eq!(quantity("0xffffffffffffffff"), Ok(u64::MAX));
        for (text, reason) in [
            ("", "empty hex string"),
            ("12", "hex string without 0x prefix"),
            ("0x", "hex string \"0x\""),
            ("0x01", "hex number with leading zero digits"),
            ("0x+1", "invalid hex string"),
            ("0x10000000000000000", "hex number > 64 bits"),
        ] {
            assert_eq!(quantity(text).expect_err(text), reason);
        }
    }

    #[test]
    fn bytes_and_hashes_need_whole_bytes() {
        assert_eq!(bytes("0x"), Ok(vec![]));
        assert_eq!(bytes("0xABcd"), Ok(vec![0xab, 0xcd]));
        assert!(bytes("0xabc").is_err() && bytes("abcd").is_err() && bytes("0xé").is_err());
        assert!(hash("0x12").expect_err("short").contains("want 64"));
    }

    #[test]
    fn missing_null_and_surplus_arguments_are_distinguished() {
        let genesis = chain::Genesis::native_dev(0);
        let list = b"[\"0x1\", null]";
        let mut arguments = Arguments::new(list, 3, &genesis.spec).expect("a list");
        assert_eq!(arguments.required::<u64>().expect("there"), 1);
        assert_eq!(arguments.optional::<u64>().expect("null"), None);
        let error = arguments.required::<u64>().expect_err("absent");
        assert!(format!("{error:?}").contains("missing value for required argument 2"));
        let mut arguments = Arguments::new(b"[null]", 2, &genesis.spec).expect("a list");
        assert!(!arguments.nullable::<bool>().expect("null"));
        let error = arguments.nullable::<bool>().expect_err("absent");
        assert!(format!("{error:?}").contains("missing value for required argument 1"));
        assert!(Arguments::new(list, 1, &genesis.spec).is_err(), "too many");
        assert!(Arguments::new(b"{}", 1, &genesis.spec).is_err(), "not a list");
    }
}
