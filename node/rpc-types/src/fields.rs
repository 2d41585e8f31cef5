//! Parses request objects with geth's rules: field names are compared without regard to ASCII case, the last of several
//! fields with the same name counts, and unknown fields are ignored. An error names the field. Messages of serde_json
//! are sent without their positions, which are relative to a part of the request.

use alloy_primitives::{B256, Bytes, U256};
use serde::{
    Deserialize, Deserializer,
    de::{
        DeserializeOwned, DeserializeSeed, Error as _, Expected, IntoDeserializer, MapAccess,
        SeqAccess, Unexpected, Visitor,
    },
};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt};

/// The reason why a request object cannot be parsed, with the field.
#[derive(Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The names of fields and the indexes of items, from the outermost inwards, each followed by a colon and a space.
    path: String,
    reason: String,
}

impl FieldError {
    fn within(mut self, name: impl fmt::Display) -> Self {
        self.path.insert_str(0, &format!("{name}: "));
        self
    }

    /// Converts an error of serde_json without its position.
    fn from_serde_json(error: &serde_json::Error) -> Self {
        let text = error.to_string();
        Self::custom(text.split(" at line ").next().unwrap_or_default())
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.path, self.reason)
    }
}

impl std::error::Error for FieldError {}

impl serde::de::Error for FieldError {
    fn custom<T: fmt::Display>(reason: T) -> Self {
        Self { path: String::new(), reason: reason.to_string() }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let found = match found {
            Unexpected::Map => "an object".to_owned(),
            Unexpected::Seq => "a list".to_owned(),
            Unexpected::Unit => "null".to_owned(),
            found => found.to_string(),
        };
        Self::custom(format_args!("must be {expected}, got {found}"))
    }

    fn missing_field(name: &'static str) -> Self {
        Self::custom(format_args!("missing required field '{name}'"))
    }
}

/// Parses a JSON object, or a list or value inside one.
pub fn read<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, String> {
    T::deserialize(Text { json, names: None }).map_err(|error| error.to_string())
}

/// Does the same as [`read`] for a type that does not report its field `names`, because some fields are flattened.
pub fn read_named<T: DeserializeOwned>(
    json: &str,
    names: &'static [&'static str],
) -> Result<T, String> {
    T::deserialize(Text { json, names: Some(names) }).map_err(|error| error.to_string())
}

/// Returns the name that geth matches with `given`: the equal one, or else the first that differs only in ASCII case.
pub fn name_of<'n>(names: &[&'n str], given: &str) -> Option<&'n str> {
    let exact = names.iter().find(|name| **name == given);
    exact.or_else(|| names.iter().find(|name| name.eq_ignore_ascii_case(given))).copied()
}

/// A JSON text. An object is split into its members before its fields are parsed. The text is therefore scanned once
/// for each level of the type, and not once for each level of nesting in the text.
#[derive(Clone, Copy)]
struct Text<'a> {
    json: &'a str,
    /// The field names, if the type does not report them.
    names: Option<&'static [&'static str]>,
}

/// Returns the deserializer for a nested text.
fn inner(raw: &RawValue) -> Text<'_> {
    Text { json: raw.get(), names: None }
}

impl<'a> Text<'a> {
    /// Parses the text with serde_json.
    fn parse<T>(
        self,
        read: impl FnOnce(
            &mut serde_json::Deserializer<serde_json::de::StrRead<'a>>,
        ) -> Result<T, serde_json::Error>,
    ) -> Result<T, FieldError> {
        let mut source = serde_json::Deserializer::from_str(self.json);
        read(&mut source).map_err(|error| FieldError::from_serde_json(&error))
    }

    /// Parses a string, a number, a boolean or null.
    fn scalar<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, FieldError> {
        match self.json.as_bytes().first() {
            Some(b'{') => Err(FieldError::invalid_type(Unexpected::Map, &visitor)),
            Some(b'[') => Err(FieldError::invalid_type(Unexpected::Seq, &visitor)),
            Some(b'"') => match self.parse(|source| BorrowedText::deserialize(source))?.0 {
                Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
                Cow::Owned(text) => visitor.visit_string(text),
            },
            Some(b't') => visitor.visit_bool(true),
            Some(b'f') => visitor.visit_bool(false),
            Some(b'n') => visitor.visit_unit(),
            _ => {
                let number = self.parse(|source| serde_json::Number::deserialize(source))?;
                match (number.as_u64(), number.as_i64(), number.as_f64()) {
                    (Some(number), ..) => visitor.visit_u64(number),
                    (_, Some(number), _) => visitor.visit_i64(number),
                    (.., Some(number)) => visitor.visit_f64(number),
                    _ => Err(FieldError::custom("number out of range")),
                }
            }
        }
    }

    /// Splits an object into its members, or returns the error for a value that is not an object.
    fn members(self, expected: &dyn Expected) -> Result<Vec<Member<'a>>, FieldError> {
        if !self.json.starts_with('{') {
            return self.wrong_type(expected);
        }
        self.parse(|source| source.deserialize_map(Members))
    }

    /// Returns the error for a value whose type is not `expected`.
    fn wrong_type<T>(self, expected: &dyn Expected) -> Result<T, FieldError> {
        let found = match self.json.as_bytes().first() {
            Some(b'{') => Unexpected::Map,
            Some(b'[') => Unexpected::Seq,
            Some(b'"') => Unexpected::Other("a string"),
            Some(b't' | b'f') => Unexpected::Other("a boolean"),
            Some(b'n') => Unexpected::Unit,
            _ => Unexpected::Other("a number"),
        };
        Err(FieldError::invalid_type(found, expected))
    }

    fn fields<V: Visitor<'a>>(
        self,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        let mut known: Vec<Member<'a>> = Vec::with_capacity(names.len());
        for (given, value) in self.members(&"an object")? {
            let Some(name) = name_of(names, &given) else { continue };
            match known.iter_mut().find(|(earlier, _)| earlier == name) {
                Some(earlier) => earlier.1 = value,
                None => known.push((Cow::Borrowed(name), value)),
            }
        }
        visitor.visit_map(Rest { members: known.into_iter(), value: None })
    }
}

type Member<'a> = (Cow<'a, str>, &'a RawValue);

/// A string, which is copied only if the text has escapes.
#[derive(Deserialize)]
struct BorrowedText<'a>(#[serde(borrow)] Cow<'a, str>);

/// The visitor that splits an object into its members.
struct Members;

impl<'a> Visitor<'a> for Members {
    type Value = Vec<Member<'a>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(BorrowedText(name)) = map.next_key()? {
            members.push((name, map.next_value()?));
        }
        Ok(members)
    }
}

/// The members of an object that are not parsed yet.
struct Rest<'a> {
    members: std::vec::IntoIter<Member<'a>>,
    value: Option<Member<'a>>,
}

impl<'a> MapAccess<'a> for Rest<'a> {
    type Error = FieldError;

    fn next_key_seed<K: DeserializeSeed<'a>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, FieldError> {
        let Some((name, value)) = self.members.next() else { return Ok(None) };
        self.value = Some((name.clone(), value));
        let key = seed.deserialize(name.clone().into_deserializer());
        key.map(Some).map_err(|error: FieldError| error.within(name))
    }

    fn next_value_seed<V: DeserializeSeed<'a>>(&mut self, seed: V) -> Result<V::Value, FieldError> {
        let (name, value) = self.value.take().ok_or_else(|| FieldError::custom("no field"))?;
        seed.deserialize(inner(value)).map_err(|error| error.within(name))
    }
}

/// The items of a list that are not parsed yet.
struct Items<'a>(std::iter::Enumerate<std::vec::IntoIter<&'a RawValue>>);

impl<'a> SeqAccess<'a> for Items<'a> {
    type Error = FieldError;

    fn next_element_seed<T: DeserializeSeed<'a>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, FieldError> {
        let Some((index, item)) = self.0.next() else { return Ok(None) };
        seed.deserialize(inner(item)).map(Some).map_err(|error| error.within(index))
    }
}

/// Forwards these methods to [`Text::scalar`].
macro_rules! scalars {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, FieldError> {
            self.scalar(visitor)
        }
    )*};
}

impl<'a> Deserializer<'a> for Text<'a> {
    type Error = FieldError;

    scalars! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_i128 deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
        deserialize_u128 deserialize_f32 deserialize_f64 deserialize_char deserialize_str
        deserialize_string deserialize_bytes deserialize_byte_buf deserialize_unit
        deserialize_identifier
    }

    fn deserialize_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, FieldError> {
        // A value of any type may be nested deeply, and serde_json limits the depth. serde_json must not parse
        // numbers, because it represents them as objects if its feature `arbitrary_precision` is enabled.
        match self.json.as_bytes().first() {
            Some(b'{' | b'[') => self.parse(|source| source.deserialize_any(visitor)),
            _ => self.scalar(visitor),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, FieldError> {
        visitor.visit_unit()
    }

    fn deserialize_option<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, FieldError> {
        if self.json == "null" { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_unit_struct<V: Visitor<'a>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        self.scalar(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'a>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        // `RawValue` is a newtype struct, and only serde_json can parse it.
        self.parse(|source| source.deserialize_newtype_struct(name, visitor))
    }

    fn deserialize_seq<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, FieldError> {
        if !self.json.starts_with('[') {
            return self.wrong_type(&"a list");
        }
        let items: Vec<&RawValue> = self.parse(|source| Vec::deserialize(source))?;
        visitor.visit_seq(Items(items.into_iter().enumerate()))
    }

    fn deserialize_tuple<V: Visitor<'a>>(
        self,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'a>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, FieldError> {
        if let Some(names) = self.names {
            return self.fields(names, visitor);
        }
        let members = self.members(&"an object")?.into_iter();
        visitor.visit_map(Rest { members, value: None })
    }

    fn deserialize_struct<V: Visitor<'a>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        self.fields(names, visitor)
    }

    fn deserialize_enum<V: Visitor<'a>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        self.parse(|source| source.deserialize_enum(name, variants, visitor))
    }
}

/// Parses a string field with a function.
pub fn from_text<'a, D: Deserializer<'a>, T>(
    source: D,
    read: fn(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    struct ByFunction<T>(fn(&str) -> Result<T, String>);

    impl<T> Visitor<'_> for ByFunction<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
            (self.0)(text).map_err(E::custom)
        }
    }

    source.deserialize_str(ByFunction(read))
}

/// Defines types of string fields, each with the function that parses it.
#[macro_export]
macro_rules! text_fields {
    ($($(#[$about:meta])* $name:ident($value:ty) = $read:expr;)*) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(pub $value);

        impl<'a> serde::Deserialize<'a> for $name {
            fn deserialize<D: serde::Deserializer<'a>>(source: D) -> Result<Self, D::Error> {
                $crate::fields::from_text(source, $read).map(Self)
            }
        }
    )*};
}

text_fields! {
    /// A hash of 32 bytes in hex with `0x`.
    HashField(B256) = crate::params::hash;
    /// Bytes in hex with `0x`.
    BytesField(Bytes) = |text| crate::params::bytes(text).map(Bytes::from);
    /// A quantity of 64 bits in hex with `0x`.
    QuantityField(u64) = crate::params::quantity;
    /// A quantity of 256 bits in hex with `0x`.
    WideField(U256) = crate::params::wide_quantity;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(rename_all = "camelCase", default)]
    struct Outer {
        block_hash: Option<HashField>,
        list: Option<Vec<Inner>>,
        by_hash: Option<BTreeMap<HashField, QuantityField>>,
        flag: Option<bool>,
        number: Option<u64>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "camelCase")]
    struct Inner {
        storage_key: QuantityField,
    }

    fn reason(json: &str) -> String {
        read::<Outer>(json).expect_err(json)
    }

    #[test]
    fn field_names_match_in_any_case_at_every_level() {
        let hash = B256::repeat_byte(7);
        let text = format!(
            "{{\"BLOCKHASH\":\"{hash}\",\"List\":[{{\"StorageKey\":\"0x1\",\"more\":[{{}}]}}],\"FLAG\":true}}"
        );
        let expected = Outer {
            block_hash: Some(HashField(hash)),
            list: Some(vec![Inner { storage_key: QuantityField(1) }]),
            flag: Some(true),
            ..Outer::default()
        };
        assert_eq!(read::<Outer>(&text), Ok(expected));
    }

    #[test]
    fn last_of_several_equal_fields_counts_and_null_is_absent() {
        let read = |json: &str| read::<Outer>(json).expect(json).number;
        assert_eq!(read("{\"number\":1,\"NUMBER\":2}"), Some(2));
        assert_eq!(read("{\"NUMBER\":2,\"number\":1,\"Number\":3}"), Some(3));
        assert_eq!(read("{\"number\":1,\"Number\":null}"), None);
        assert_eq!(read("{\"num\\u0062er\":9}"), Some(9), "an escaped name");
        assert_eq!(read("{\"nu\":9,\"numbers\":1}"), None, "unknown fields are ignored");
    }

    #[test]
    fn errors_name_the_field_and_not_a_position_in_the_text() {
        let zero = B256::ZERO;
        let cases = [
            ("[]".to_owned(), "must be an object, got a list"),
            ("7".to_owned(), "must be an object, got a number"),
            ("{\"blockHash\":1}".to_owned(), "blockHash: must be a string, got integer `1`"),
            ("{\"blockhash\":\"12\"}".to_owned(), "blockHash: hex string without 0x prefix"),
            ("{\"blockHash\":{}}".to_owned(), "blockHash: must be a string, got an object"),
            ("{\"list\":\"\"}".to_owned(), "list: must be a list, got a string"),
            ("{\"list\":[{}]}".to_owned(), "list: 0: missing required field 'storageKey'"),
            ("{\"list\":[7]}".to_owned(), "list: 0: must be an object, got a number"),
            ("{\"flag\":\"yes\"}".to_owned(), "flag: must be a boolean, got string \"yes\""),
            ("{\"number\":-1}".to_owned(), "number: invalid value: integer `-1`, expected u64"),
            (format!("{{\"byHash\":{{\"{zero}\":\"7\"}}}}"), "hex string without 0x prefix"),
            ("{\"byHash\":{\"0x1\":\"0x7\"}}".to_owned(), "byHash: 0x1: hex string of odd length"),
        ];
        for (json, expected) in cases {
            let found = reason(&json);
            assert!(found.ends_with(expected), "{json}: {found}");
            assert!(!found.contains("line") && !found.contains("column"), "{found}");
        }
        assert!(reason("{\"flag\":tru}").len() < 100, "malformed JSON is an error, too");
    }

    #[test]
    fn deep_nesting_is_rejected_unless_the_field_is_unknown() {
        let deep = format!("{{\"any\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
        let error = read::<BTreeMap<String, serde_json::Value>>(&deep).expect_err("too deep");
        assert!(error.contains("recursion limit"), "{error}");
        assert_eq!(read::<Outer>(&deep), Ok(Outer::default()), "unknown fields are not read");
    }
}
