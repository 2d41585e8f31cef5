//! Writes JSON text for values that are large or frequent. Hex is written directly into the buffer, without
//! intermediate strings. Tests compare the writers with serde.

use alloy_eips::{eip2930::AccessList, eip4895::Withdrawal, eip7702::SignedAuthorization};
use alloy_primitives::{Address, B64, B256, Bloom, Bytes, U64, U128, U256, hex};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::Error;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The JSON text of a result. Clones share it, and it is sent to a socket without a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Json(Bytes);

impl Json {
    /// Wraps text that is already JSON.
    pub fn from_text(text: impl Into<Vec<u8>>) -> Self {
        Self(Bytes::from(text.into()))
    }

    /// Wraps a constant.
    pub const fn fixed(text: &'static str) -> Self {
        Self(Bytes::from_static(text.as_bytes()))
    }

    /// Serialises a value with serde.
    pub fn of(value: &(impl Serialize + ?Sized)) -> Result<Self, Error> {
        serde_json::to_vec(value).map(Self::from_text).map_err(Error::internal)
    }

    /// Serialises a value with its own writer.
    pub fn write(value: &(impl WriteJson + ?Sized)) -> Self {
        let mut out = Vec::with_capacity(value.size_hint());
        value.write_json(&mut out);
        Self::from_text(out)
    }

    /// Returns the text as bytes.
    pub const fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// Converts the text to serde's type, for servers that build responses with serde. This scans and copies the text.
    pub fn to_raw(&self) -> Result<Box<RawValue>, Error> {
        serde_json::from_slice(&self.0).map_err(Error::internal)
    }
}

/// A value with a writer of its own instead of serde's.
pub trait WriteJson {
    /// Appends the JSON text.
    fn write_json(&self, out: &mut Vec<u8>);

    /// Returns the approximate length of the text, so that the buffer seldom has to grow.
    fn size_hint(&self) -> usize {
        128
    }
}

/// Appends `0x` and the hex digits of a number, without leading zeros and without quotes.
fn write_digits(out: &mut Vec<u8>, mut value: u64) {
    let mut text = [0; 18];
    let mut start = text.len();
    loop {
        start -= 1;
        text[start] = DIGITS[(value & 0xf) as usize];
        value >>= 4;
        if value == 0 {
            break;
        }
    }
    text[start - 1] = b'x';
    text[start - 2] = b'0';
    out.extend_from_slice(&text[start - 2..]);
}

/// Appends a quantity as a JSON string. The first limb is the least significant.
fn write_quantity(out: &mut Vec<u8>, limbs: &[u64]) {
    out.push(b'"');
    let top = limbs.iter().rposition(|limb| *limb != 0).unwrap_or(0);
    write_digits(out, limbs[top]);
    for limb in limbs[..top].iter().rev() {
        let mut text = [0; 16];
        for (index, digit) in text.iter_mut().enumerate() {
            *digit = DIGITS[(limb >> (60 - 4 * index) & 0xf) as usize];
        }
        out.extend_from_slice(&text);
    }
    out.push(b'"');
}

/// Appends bytes as a JSON string of hex digits after `0x`.
pub fn write_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(b"\"0x");
    let start = out.len();
    out.resize(start + 2 * bytes.len(), 0);
    hex::encode_to_slice(bytes, &mut out[start..]).expect("the slice has twice as many bytes");
    out.push(b'"');
}

impl WriteJson for U64 {
    fn write_json(&self, out: &mut Vec<u8>) {
        write_quantity(out, self.as_limbs());
    }
}

impl WriteJson for U128 {
    fn write_json(&self, out: &mut Vec<u8>) {
        write_quantity(out, self.as_limbs());
    }
}

impl WriteJson for U256 {
    fn write_json(&self, out: &mut Vec<u8>) {
        write_quantity(out, self.as_limbs());
    }
}

macro_rules! write_as_hex {
    ($($kind:ty),*) => {$(
        impl WriteJson for $kind {
            fn write_json(&self, out: &mut Vec<u8>) {
                write_hex(out, self.as_ref());
            }
        }
    )*};
}
write_as_hex!(Address, B64, B256, Bloom, Bytes);

impl WriteJson for bool {
    fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(if *self { b"true" } else { b"false" });
    }
}

impl<T: WriteJson + ?Sized> WriteJson for &T {
    fn write_json(&self, out: &mut Vec<u8>) {
        (**self).write_json(out);
    }

    fn size_hint(&self) -> usize {
        (**self).size_hint()
    }
}

impl<T: WriteJson> WriteJson for Option<T> {
    fn write_json(&self, out: &mut Vec<u8>) {
        match self {
            Some(value) => value.write_json(out),
            None => out.extend_from_slice(b"null"),
        }
    }

    fn size_hint(&self) -> usize {
        self.as_ref().map_or(4, WriteJson::size_hint)
    }
}

impl<T: WriteJson> WriteJson for [T] {
    fn write_json(&self, out: &mut Vec<u8>) {
        out.push(b'[');
        for (index, value) in self.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            value.write_json(out);
        }
        out.push(b']');
    }

    fn size_hint(&self) -> usize {
        2 + self.iter().map(|value| value.size_hint() + 1).sum::<usize>()
    }
}

impl<T: WriteJson> WriteJson for Vec<T> {
    fn write_json(&self, out: &mut Vec<u8>) {
        self.as_slice().write_json(out);
    }

    fn size_hint(&self) -> usize {
        self.as_slice().size_hint()
    }
}

/// Implements the writer with serde, for values that are small and rare.
macro_rules! write_with_serde {
    ($($kind:ty),*) => {$(
        impl WriteJson for $kind {
            fn write_json(&self, out: &mut Vec<u8>) {
                serde_json::to_writer(out, self).expect("plain structures serialise");
            }
        }
    )*};
}
write_with_serde!(AccessList, SignedAuthorization, Withdrawal);

/// Writes the fields of an object in the order of the calls.
#[derive(Debug)]
pub struct ObjectWriter<'a> {
    out: &'a mut Vec<u8>,
    separator: u8,
}

impl<'a> ObjectWriter<'a> {
    /// Opens an object.
    pub const fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, separator: b'{' }
    }

    /// Writes a field. `name` must not need escapes.
    #[inline]
    pub fn field(&mut self, name: &str, value: &(impl WriteJson + ?Sized)) -> &mut Self {
        self.out.push(self.separator);
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        value.write_json(self.out);
        self.separator = b',';
        self
    }

    /// Writes a field if it has a value.
    #[inline]
    pub fn optional_field(&mut self, name: &str, value: &Option<impl WriteJson>) -> &mut Self {
        match value {
            Some(value) => self.field(name, value),
            None => self,
        }
    }

    /// Closes the object.
    pub fn finish(&mut self) {
        self.out.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(value: &(impl WriteJson + ?Sized)) -> String {
        String::from_utf8(Json::write(value).bytes().to_vec()).unwrap()
    }

    proptest! {
        #[test]
        fn quantities_are_as_serde_writes_them(limbs: [u64; 4], shift in 0..256usize) {
            let wide = U256::from_limbs(limbs) >> shift;
            prop_assert_eq!(written(&wide), serde_json::to_string(&wide).unwrap());
            let middle = U128::from_limbs([limbs[0], limbs[1]]) >> (shift / 2);
            prop_assert_eq!(written(&middle), serde_json::to_string(&middle).unwrap());
            let low = U64::from(limbs[0] >> (shift / 4));
            prop_assert_eq!(written(&low), serde_json::to_string(&low).unwrap());
        }

        #[test]
        fn bytes_are_as_serde_writes_them(bytes: Vec<u8>, word: [u8; 32]) {
            let bytes = Bytes::from(bytes);
            prop_assert_eq!(written(&bytes), serde_json::to_string(&bytes).unwrap());
            let word = B256::from(word);
            prop_assert_eq!(written(&word), serde_json::to_string(&word).unwrap());
            let list = vec![Some(word), None];
            prop_assert_eq!(written(&list), serde_json::to_string(&list).unwrap());
        }
    }
}
