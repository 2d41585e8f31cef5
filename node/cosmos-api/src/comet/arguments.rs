//! Parses the parameters of a call. In JSON, numbers may be strings, and bytes are base64 (hex for the parameters
//! that CometBFT decodes as hex). In a URI, strings are quoted, and bytes are a quoted string or hex with `0x`.

use super::error::Error;
use alloy_primitives::hex;
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde_json::Value;
use std::collections::BTreeMap;

/// Maximum number of characters of an invalid value that an error message repeats.
const SHOWN_CHARS: usize = 40;

/// A value as the client sent it.
#[derive(Clone, Debug)]
enum Given {
    Json(Value),
    Uri(String),
}

/// The parameters of a call, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Arguments(BTreeMap<&'static str, Given>);

/// Returns the name of the parameter if the method has it.
fn known(name: &str, names: &'static [&'static str]) -> Result<&'static str, Error> {
    let found = names.iter().find(|known| **known == name);
    found.copied().ok_or_else(|| Error::Unknown { name: name.to_owned(), known: names })
}

impl Arguments {
    /// Reads the member `params` of a call. `names` are the parameters of the method. A list holds values in the same
    /// order.
    ///
    /// # Errors
    /// If the method does not have a parameter, or `params` is neither an object nor a list.
    pub(super) fn of_json(params: Value, names: &'static [&'static str]) -> Result<Self, Error> {
        let named: Vec<_> = match params {
            Value::Null => Vec::new(),
            Value::Object(members) => {
                let named =
                    members.into_iter().map(|(name, value)| Ok((known(&name, names)?, value)));
                named.collect::<Result<_, Error>>()?
            }
            Value::Array(values) if values.len() > names.len() => {
                return Err(Error::TooMany { given: values.len(), known: names });
            }
            Value::Array(values) => names.iter().copied().zip(values).collect(),
            _ => return Err(Error::Request("params must be an object or a list".to_owned())),
        };
        let given = named.into_iter().filter(|(_, value)| !value.is_null());
        Ok(Self(given.map(|(name, value)| (name, Given::Json(value))).collect()))
    }

    /// Reads the query of a URI. An empty value counts as a missing parameter.
    ///
    /// # Errors
    /// Same as [`Self::of_json`].
    pub(super) fn of_uri(
        pairs: Vec<(String, String)>,
        names: &'static [&'static str],
    ) -> Result<Self, Error> {
        let given = pairs.into_iter().filter(|(_, text)| !text.is_empty());
        let named = given.map(|(name, text)| Ok((known(&name, names)?, Given::Uri(text))));
        named.collect::<Result<_, Error>>().map(Self)
    }

    pub(super) fn number(&self, name: &'static str) -> Result<Option<i64>, Error> {
        self.read(name, "a 64-bit number", |given| match given {
            Given::Json(Value::Number(number)) => number.as_i64(),
            Given::Json(Value::String(text)) => text.parse().ok(),
            Given::Json(_) => None,
            Given::Uri(text) => unquoted(text).unwrap_or_else(|| text.clone()).parse().ok(),
        })
    }

    pub(super) fn text(&self, name: &'static str) -> Result<Option<String>, Error> {
        self.read(name, "a string (in a URI: in double quotes)", |given| match given {
            Given::Json(value) => value.as_str().map(str::to_owned),
            Given::Uri(text) => unquoted(text),
        })
    }

    pub(super) fn flag(&self, name: &'static str) -> Result<Option<bool>, Error> {
        self.read(name, "true or false", |given| match given {
            Given::Json(value) => value.as_bool(),
            Given::Uri(text) => text.parse().ok(),
        })
    }

    /// Reads bytes that are base64 in JSON.
    pub(super) fn bytes(&self, name: &'static str) -> Result<Option<Vec<u8>>, Error> {
        self.read(name, "base64 (in a URI: hex with 0x, or a string in double quotes)", |given| {
            match given {
                Given::Json(value) => BASE64.decode(value.as_str()?).ok(),
                Given::Uri(text) => bytes_of(text),
            }
        })
    }

    /// Reads bytes that are hex in JSON.
    pub(super) fn hex(&self, name: &'static str) -> Result<Option<Vec<u8>>, Error> {
        self.read(
            name,
            "hex (in a URI: with 0x, or a string in double quotes)",
            |given| match given {
                Given::Json(value) => hex::decode(value.as_str()?).ok(),
                Given::Uri(text) => bytes_of(text),
            },
        )
    }

    fn read<T>(
        &self,
        name: &'static str,
        wanted: &'static str,
        read: impl FnOnce(&Given) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(given) = self.0.get(name) else { return Ok(None) };
        let value = read(given).ok_or_else(|| {
            let text = match given {
                Given::Json(value) => value.to_string(),
                Given::Uri(text) => text.clone(),
            };
            let found = text.chars().take(SHOWN_CHARS).collect();
            Error::Parameter { name, found, wanted }
        })?;
        Ok(Some(value))
    }
}

/// Returns the content of a quoted string, which uses JSON's escapes.
fn unquoted(text: &str) -> Option<String> {
    serde_json::from_str(text).ok()
}

/// Returns the bytes of a value in a URI.
fn bytes_of(text: &str) -> Option<Vec<u8>> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => hex::decode(digits).ok(),
        None => unquoted(text).map(String::into_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NAMES: &[&str] = &["height", "tx"];

    fn json(params: Value) -> Arguments {
        Arguments::of_json(params, NAMES).unwrap()
    }

    fn uri(name: &str, text: &str) -> Arguments {
        Arguments::of_uri(vec![(name.to_owned(), text.to_owned())], NAMES).unwrap()
    }

    #[test]
    fn values_are_parsed_from_json_and_uris() {
        for given in [
            json(json!({ "height": "5" })),
            json(json!({ "height": 5, "tx": null })),
            json(json!(["5"])),
            uri("height", "5"),
            uri("height", "\"5\""),
        ] {
            assert_eq!(given.number("height"), Ok(Some(5)));
            assert_eq!(given.bytes("tx"), Ok(None));
        }
        for given in
            [json(json!({ "tx": "AQI=" })), uri("tx", "0x0102"), uri("tx", "\"\\u0001\\u0002\"")]
        {
            assert_eq!(given.bytes("tx"), Ok(Some(vec![1, 2])));
        }
        assert_eq!(json(json!({ "tx": "0102" })).hex("tx"), Ok(Some(vec![1, 2])));
        assert_eq!(uri("tx", "\"a\\\"b\"").text("tx"), Ok(Some("a\"b".to_owned())));
        assert_eq!(uri("tx", "true").flag("tx"), Ok(Some(true)));
        assert_eq!(uri("height", "").number("height"), Ok(None));
    }

    #[test]
    fn errors_name_the_invalid_parameter() {
        let message = uri("tx", &"x".repeat(100)).text("tx").unwrap_err().to_string();
        let shown = "x".repeat(SHOWN_CHARS);
        assert_eq!(
            message,
            format!("parameter tx: {shown} is not a string (in a URI: in double quotes)")
        );
        for wrong in [json!("x"), json!(1.5), json!({}), json!("99999999999999999999")] {
            assert!(json(json!({ "height": wrong })).number("height").is_err());
        }
        assert!(json(json!({ "tx": "!" })).bytes("tx").is_err());
        assert!(uri("tx", "0x0").bytes("tx").is_err());
        let unknown = Arguments::of_json(json!({ "heigth": 5 }), NAMES).unwrap_err().to_string();
        assert_eq!(unknown, r#"unknown parameter "heigth": the method has ["height", "tx"]"#);
        assert!(Arguments::of_json(json!([1, 2, 3]), NAMES).is_err());
        assert!(Arguments::of_json(json!("x"), NAMES).is_err());
    }
}
