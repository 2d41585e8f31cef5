//! Writes messages as JSON in the format of the Cosmos SDK's gRPC gateway: all fields except unset `optional` scalars,
//! 64-bit numbers as strings, bytes in base64 (in hex if their scalar type is `evmd.Hex`), and `null` for an absent
//! message and for empty bytes. Paths under `/chain/` use another [`Style`] for decimals and 64-bit numbers.

use alloy_primitives::hex;
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use prost_reflect::{
    DescriptorPool, DynamicMessage, ExtensionDescriptor, FieldDescriptor, Kind, MessageDescriptor,
    ReflectMessage, Value,
};
use serde::ser::{Error as _, Serialize, SerializeMap, SerializeSeq, Serializer};

/// Decimal places of fields with the scalar type `cosmos.Dec`.
const DECIMAL_PLACES: usize = 18;

/// The descriptors of all messages, and the extension that names the scalar type of a field.
#[derive(Clone, Debug)]
pub struct Descriptors {
    /// The descriptors.
    pub pool: DescriptorPool,
    scalar: ExtensionDescriptor,
}

/// The format of a field with a scalar type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalarFormat {
    /// A decimal, scaled by 10^18.
    Decimal,
    /// Bytes in hex.
    Hex,
}

/// How decimals and 64-bit integers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// As in the SDK's gateway: decimals with a decimal point, 64-bit integers as strings.
    Sdk,
    /// Under `/chain/`: decimals scaled by 10^18, as in the encoded message, and 64-bit integers as numbers.
    Plain,
}

impl Descriptors {
    /// Reads the descriptors of this program.
    pub fn read() -> Self {
        let pool = DescriptorPool::decode(crate::query::proto::DESCRIPTORS)
            .expect("the built-in descriptors are well-formed");
        let scalar = pool.get_extension_by_name("cosmos_proto.scalar");
        Self { scalar: scalar.expect("the descriptors contain the extension"), pool }
    }

    /// Returns the scalar format of a field.
    pub fn scalar_format(&self, field: &FieldDescriptor) -> Option<ScalarFormat> {
        let options = field.options();
        match options.get_extension(&self.scalar).as_str() {
            Some("cosmos.Dec") => Some(ScalarFormat::Decimal),
            Some("evmd.Hex") => Some(ScalarFormat::Hex),
            _ => None,
        }
    }

    /// Wraps a message so that it is serialized in the given style.
    pub const fn json<'a>(&'a self, message: &'a DynamicMessage, style: Style) -> Json<'a> {
        Json { descriptors: self, message, style }
    }

    /// Returns the message type of an `Any`.
    pub(super) fn message_type(&self, type_url: &str) -> Option<MessageDescriptor> {
        let (_, name) = type_url.rsplit_once('/')?;
        self.pool.get_message_by_name(name)
    }
}

/// A message that can be serialized.
#[derive(Debug)]
pub struct Json<'a> {
    descriptors: &'a Descriptors,
    message: &'a DynamicMessage,
    style: Style,
}

impl Json<'_> {
    fn text(&self, name: &str) -> String {
        let value = self.message.get_field_by_name(name);
        value.and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// Serializes the fields into a map, which may already have entries.
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        for field in self.message.descriptor().fields() {
            let value = self.message.get_field(&field);
            let absent = field.supports_presence() && !self.message.has_field(&field);
            if absent {
                // An absent field that is not a message is omitted.
                if matches!(field.kind(), Kind::Message(_)) {
                    map.serialize_entry(field.name(), &())?;
                }
                continue;
            }
            let format = self.descriptors.scalar_format(&field);
            if format.is_none() && matches!(&*value, Value::Bytes(bytes) if bytes.is_empty()) {
                // As in the SDK's gateway, for example for the `next_key` of the last page.
                map.serialize_entry(field.name(), &())?;
                continue;
            }
            let Self { descriptors, style, .. } = *self;
            let item = Item { descriptors, style, field: &field, format, value: &value };
            map.serialize_entry(field.name(), &item)?;
        }
        Ok(())
    }

    /// Serializes an `Any` as its type and the fields of its content.
    fn any<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let type_url = self.text("type_url");
        let value = self.message.get_field_by_name("value");
        let value = value.and_then(|value| value.as_bytes().cloned()).unwrap_or_default();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("@type", &type_url)?;
        match self.descriptors.message_type(&type_url) {
            Some(descriptor) => {
                let inner = DynamicMessage::decode(descriptor, value).map_err(S::Error::custom)?;
                self.descriptors.json(&inner, self.style).fields(&mut map)?;
            }
            None => map.serialize_entry("value", &BASE64.encode(value))?,
        }
        map.end()
    }

    /// Serializes a `Duration` in seconds.
    fn duration<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let span: prost_types::Duration = self.message.transcode_to().map_err(S::Error::custom)?;
        serializer.serialize_str(&seconds(span))
    }

    /// Serializes a `Timestamp` in RFC 3339 format.
    fn time<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let time: prost_types::Timestamp = self.message.transcode_to().map_err(S::Error::custom)?;
        serializer.collect_str(&time)
    }
}

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.message.descriptor().full_name() {
            "google.protobuf.Any" => self.any(serializer),
            "google.protobuf.Timestamp" => self.time(serializer),
            "google.protobuf.Duration" => self.duration(serializer),
            _ => {
                let mut map = serializer.serialize_map(None)?;
                self.fields(&mut map)?;
                map.end()
            }
        }
    }
}

/// A value that can be serialized: a field's value, or an item of a repeated field.
struct Item<'a> {
    descriptors: &'a Descriptors,
    style: Style,
    field: &'a FieldDescriptor,
    format: Option<ScalarFormat>,
    value: &'a Value,
}

impl Serialize for Item<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let is_plain = self.style == Style::Plain;
        match (self.value, self.format) {
            (Value::Bool(value), _) => serializer.serialize_bool(*value),
            (Value::I32(value), _) => serializer.serialize_i32(*value),
            (Value::U32(value), _) => serializer.serialize_u32(*value),
            (Value::I64(value), _) if is_plain => serializer.serialize_i64(*value),
            (Value::U64(value), _) if is_plain => serializer.serialize_u64(*value),
            (Value::I64(value), _) => serializer.collect_str(value),
            (Value::U64(value), _) => serializer.collect_str(value),
            (Value::String(value), Some(ScalarFormat::Decimal)) if !is_plain => {
                serializer.serialize_str(&decimal(value))
            }
            (Value::String(value), _) => serializer.serialize_str(value),
            // The SDK stores some decimals in bytes fields.
            (Value::Bytes(value), Some(ScalarFormat::Decimal)) => {
                let scaled = String::from_utf8_lossy(value);
                serializer.serialize_str(&if is_plain { scaled } else { decimal(&scaled).into() })
            }
            (Value::Bytes(value), Some(ScalarFormat::Hex)) => {
                serializer.serialize_str(&hex::encode_prefixed(value))
            }
            (Value::Bytes(value), _) => serializer.serialize_str(&BASE64.encode(value)),
            (Value::EnumNumber(number), _) => {
                let kind = self.field.kind();
                match kind.as_enum().and_then(|kind| kind.get_value(*number)) {
                    Some(value) => serializer.serialize_str(value.name()),
                    None => serializer.serialize_i32(*number),
                }
            }
            (Value::Message(message), _) => {
                self.descriptors.json(message, self.style).serialize(serializer)
            }
            (Value::List(items), _) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for value in items {
                    list.serialize_element(&Item { value, ..*self })?;
                }
                list.end()
            }
            (Value::Map(_) | Value::F32(_) | Value::F64(_), _) => {
                Err(S::Error::custom("the descriptors have neither maps nor floating point"))
            }
        }
    }
}

/// Adds the decimal point to a decimal that is scaled by 10^18. Text that is not an integer is left unchanged, because
/// the content of a decoded transaction comes from the client.
fn decimal(scaled: &str) -> String {
    let (sign, digits) = scaled.strip_prefix('-').map_or(("", scaled), |digits| ("-", digits));
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return scaled.to_owned();
    }
    let digits = format!("{digits:0>width$}", width = DECIMAL_PLACES + 1);
    let (whole, fraction) = digits.split_at(digits.len() - DECIMAL_PLACES);
    format!("{sign}{whole}.{fraction}")
}

/// Writes a duration in protobuf's JSON format: seconds with 0, 3, 6 or 9 decimal places. The type's own `Display`
/// overflows for the minimum number of seconds, which a client can put into a transaction.
fn seconds(mut span: prost_types::Duration) -> String {
    span.normalize();
    let sign = if span.seconds < 0 || span.nanos < 0 { "-" } else { "" };
    let (seconds, nanos) = (span.seconds.unsigned_abs(), span.nanos.unsigned_abs());
    match nanos {
        0 => format!("{sign}{seconds}s"),
        _ if nanos.is_multiple_of(1_000_000) => {
            format!("{sign}{seconds}.{:03}s", nanos / 1_000_000)
        }
        _ if nanos.is_multiple_of(1_000) => format!("{sign}{seconds}.{:06}s", nanos / 1_000),
        _ => format!("{sign}{seconds}.{nanos:09}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_shown_with_a_decimal_point() {
        for (scaled, shown) in [
            ("1000000000000000000000000000", "1000000000.000000000000000000"),
            ("500000000000000000", "0.500000000000000000"),
            ("7", "0.000000000000000007"),
            ("0", "0.000000000000000000"),
            ("-1500000000000000000", "-1.500000000000000000"),
        ] {
            assert_eq!(decimal(scaled), shown);
        }
    }

    /// Without the check for digits, the first two texts would be split inside a character.
    #[test]
    fn text_that_is_not_a_decimal_is_shown_unchanged() {
        for text in ["é00000000000000000", "-é00000000000000000", "1.5", "ten", "\u{1f600}"] {
            assert_eq!(decimal(text), text);
        }
    }

    #[test]
    fn durations_have_the_json_format_of_protobuf() {
        for (span, shown) in [
            ((0, 0), "0s"),
            ((172_800, 0), "172800s"),
            ((1, 500_000_000), "1.500s"),
            ((0, -1_000), "-0.000001s"),
            ((-1, -7), "-1.000000007s"),
            ((i64::MAX, 999_999_999), "9223372036854775807.999999999s"),
            ((i64::MIN, 0), "-9223372036854775808s"),
            ((i64::MIN, -1), "-9223372036854775808.000000001s"),
        ] {
            let (seconds, nanos) = span;
            assert_eq!(super::seconds(prost_types::Duration { seconds, nanos }), shown);
        }
    }
}
