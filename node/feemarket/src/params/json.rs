//! Reads parameters from JSON, and writes them as JSON in the two forms that clients use and as YAML.
//!
//! REST, the command line and genesis use decimals with a point, and strings for 64-bit integers. The JSON form of
//! gRPC uses scaled integers and plain numbers. Both forms are read everywhere. Decimals are taken as scaled if none
//! has a point and the multiplier, which is at most 1, would exceed 1.

use super::{Draft, Params, ParamsError};
use crate::dec::LegacyDec;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::SerializeStruct,
};
use serde_json::Value;
use std::fmt::Write;

/// Parameters that are serialised in the form of gRPC: with scaled integers and plain numbers.
#[derive(Clone, Copy, Debug)]
pub struct Scaled<'a>(pub &'a Params);

impl Serialize for Params {
    /// Writes the form of REST, the command line and genesis.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let enable_height = self.enable_height.to_string();
        self.write_fields(serializer, &enable_height, LegacyDec::to_string)
    }
}

impl Serialize for Scaled<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let to_scaled = |value: &LegacyDec| value.to_scaled();
        self.0.write_fields(serializer, &self.0.enable_height, to_scaled)
    }
}

impl Params {
    /// Writes the fields in the order of the protobuf message.
    fn write_fields<S: Serializer>(
        &self,
        serializer: S,
        enable_height: &impl Serialize,
        decimal: impl Fn(&LegacyDec) -> String,
    ) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Params", 7)?;
        fields.serialize_field("no_base_fee", &self.no_base_fee)?;
        fields.serialize_field("base_fee_change_denominator", &self.base_fee_change_denominator)?;
        fields.serialize_field("elasticity_multiplier", &self.elasticity_multiplier)?;
        fields.serialize_field("enable_height", enable_height)?;
        fields.serialize_field("base_fee", &decimal(&self.base_fee))?;
        fields.serialize_field("min_gas_price", &decimal(&self.min_gas_price))?;
        fields.serialize_field("min_gas_multiplier", &decimal(&self.min_gas_multiplier))?;
        fields.end()
    }

    /// Returns the text of the command line: YAML in alphabetical order under `params:`.
    pub fn to_text(&self) -> String {
        let mut out = String::from("params:\n");
        let mut line = |name, value: String| {
            writeln!(out, "  {name}: {value}").expect("a string takes all");
        };
        line("base_fee", quoted(&self.base_fee));
        line("base_fee_change_denominator", self.base_fee_change_denominator.to_string());
        line("elasticity_multiplier", self.elasticity_multiplier.to_string());
        line("enable_height", quoted(&self.enable_height));
        line("min_gas_multiplier", quoted(&self.min_gas_multiplier));
        line("min_gas_price", quoted(&self.min_gas_price));
        line("no_base_fee", self.no_base_fee.to_string());
        out
    }
}

fn quoted(value: &impl ToString) -> String {
    format!("\"{}\"", value.to_string())
}

/// The JSON fields of parameters.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Raw {
    no_base_fee: bool,
    #[serde(deserialize_with = "integer")]
    base_fee_change_denominator: u32,
    #[serde(deserialize_with = "integer")]
    elasticity_multiplier: u32,
    #[serde(deserialize_with = "integer")]
    enable_height: i64,
    base_fee: Option<String>,
    min_gas_price: Option<String>,
    min_gas_multiplier: Option<String>,
}

impl<'de> Deserialize<'de> for Params {
    /// Reads either form and validates the parameters.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Raw::deserialize(deserializer)?.draft().and_then(Draft::check).map_err(D::Error::custom)
    }
}

impl Raw {
    fn draft(self) -> Result<Draft, ParamsError> {
        let scaled = self.is_scaled();
        let decimal = |field, text: Option<String>| {
            let read = |text: String| {
                if scaled { LegacyDec::from_scaled(&text) } else { text.parse() }
            };
            text.map(read).transpose().map_err(|source| ParamsError::Decimal { field, source })
        };
        Ok(Draft {
            no_base_fee: self.no_base_fee,
            base_fee_change_denominator: self.base_fee_change_denominator,
            elasticity_multiplier: self.elasticity_multiplier,
            enable_height: self.enable_height,
            base_fee: decimal("base_fee", self.base_fee)?,
            min_gas_price: decimal("min_gas_price", self.min_gas_price)?,
            min_gas_multiplier: decimal("min_gas_multiplier", self.min_gas_multiplier)?,
        })
    }

    fn is_scaled(&self) -> bool {
        let texts = [&self.base_fee, &self.min_gas_price, &self.min_gas_multiplier];
        let point = texts.iter().any(|text| text.as_ref().is_some_and(|text| text.contains('.')));
        let multiplier = self.min_gas_multiplier.as_ref().and_then(|text| text.parse().ok());
        !point && multiplier.is_some_and(|multiplier: LegacyDec| multiplier > LegacyDec::ONE)
    }
}

/// Reads an integer from a JSON number or a JSON string.
pub(crate) fn integer<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: std::str::FromStr,
{
    let text = match Value::deserialize(deserializer)? {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text,
        _ => return Err(D::Error::custom("not an integer")),
    };
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let value = if plain { text.parse().ok() } else { None };
    value.ok_or_else(|| D::Error::custom(format!("`{text}` is not an integer in range")))
}

/// Does the same as [`integer`], but the value may be `null`.
pub fn optional_integer<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: std::str::FromStr,
{
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        value => integer(value).map(Some).map_err(D::Error::custom),
    }
}
