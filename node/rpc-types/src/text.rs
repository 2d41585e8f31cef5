//! JSON text, written by hand where it is large or often asked for: hex straight into the buffer,
//! no intermediate strings. The tests hold every writer to what serde writes of the same value.

use alloy_eips::{eip2930::AccessList, eip4895::Withdrawal, eip7702::SignedAuthorization};
use alloy_primitives::{Address, B64, B256, Bloom, Bytes, U64, U128, U256, hex};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::Error;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The JSON text of a result. Clones share it, and it goes to a socket without being copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Json(Bytes);

impl Json {
    /// Takes text that is JSON already.
    pub fn from_text(text: impl Into<Vec<u8>>) -> Self {
        Self(Bytes::from(text.into()))
    }

    /// Text known when the program was built.
    pub const fn fixed(text: &'static str) -> Self {
        Self(Bytes::from_static(text.as_bytes()))
    }

    /// What serde makes of a value.
    pub fn of(value: &(impl Serialize + ?Sized)) -> Result<Self, Error> {
        serde_json::to_vec(value).map(Self::from_text).map_err(Error::internal)
    }

    /// What a hand-made writer makes of a value.
    pub fn put(value: &(impl Put + ?Sized)) -> Self {
        let mut out = Vec::with_capacity(value.size_hint());
        value.put(&mut out);
        Self::from_text(out)
    }

    /// The bytes on the wire.
    pub const fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// The text as serde's own type, for servers that build answers with serde. Scans it once.
    pub fn to_raw(&self) -> Result<Box<RawValue>, Error> {
        serde_json::from_slice(&self.0).map_err(Error::internal)
    }
}

/// A value with a hand-made JSON writer.
pub trait Put {
    /// Appends the JSON text.
    fn put(&self, out: &mut Vec<u8>);

    /// Roughly how many bytes that will be, so that the buffer need not grow often.
    fn size_hint(&self) -> usize {
        128
    }
}

/// Appends `0x` and the least digits of a number, without quotes.
fn put_digits(out: &mut Vec<u8>, mut value: u64) {
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

/// Appends a quantity of up to 256 bits as a JSON string; `limbs` from the least.
fn put_limbs(out: &mut Vec<u8>, limbs: &[u64]) {
    out.push(b'"');
    let top = limbs.iter().rposition(|limb| *limb != 0).unwrap_or(0);
    put_digits(out, limbs[top]);
    for limb in limbs[..top].iter().rev() {
        let mut text = [0; 16];
        for (index, digit) in text.iter_mut().enumerate() {
            *digit = DIGITS[(limb >> (60 - 4 * index) & 0xf) as usize];
        }
        out.extend_from_slice(&text);
    }
    out.push(b'"');
}

/// Appends bytes as a JSON string.
pub fn put_data(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(b"\"0x");
    let start = out.len();
    out.resize(start + 2 * bytes.len(), 0);
    hex::encode_to_slice(bytes, &mut out[start..]).expect("the room is twice the bytes");
    out.push(b'"');
}

impl Put for U64 {
    fn put(&self, out: &mut Vec<u8>) {
        put_limbs(out, self.as_limbs());
    }
}

impl Put for U128 {
    fn put(&self, out: &mut Vec<u8>) {
        put_limbs(out, self.as_limbs());
    }
}

impl Put for U256 {
    fn put(&self, out: &mut Vec<u8>) {
        put_limbs(out, self.as_limbs());
    }
}

macro_rules! put_as_data {
    ($($kind:ty),*) => {$(
        impl Put for $kind {
            fn put(&self, out: &mut Vec<u8>) {
                put_data(out, self.as_ref());
            }
        }
    )*};
}
put_as_data!(Address, B64, B256, Bloom, Bytes);

impl Put for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(if *self { b"true" } else { b"false" });
    }
}

impl<T: Put + ?Sized> Put for &T {
    fn put(&self, out: &mut Vec<u8>) {
        (**self).put(out);
    }

    fn size_hint(&self) -> usize {
        (**self).size_hint()
    }
}

impl<T: Put> Put for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Some(value) => value.put(out),
            None => out.extend_from_slice(b"null"),
        }
    }

    fn size_hint(&self) -> usize {
        self.as_ref().map_or(4, Put::size_hint)
    }
}

impl<T: Put> Put for [T] {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(b'[');
        for (index, value) in self.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            value.put(out);
        }
        out.push(b']');
    }

    fn size_hint(&self) -> usize {
        2 + self.iter().map(|value| value.size_hint() + 1).sum::<usize>()
    }
}

impl<T: Put> Put for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.as_slice().put(out);
    }

    fn size_hint(&self) -> usize {
        self.as_slice().size_hint()
    }
}

/// Values that are rare in answers and small: serde is good enough.
macro_rules! put_by_serde {
    ($($kind:ty),*) => {$(
        impl Put for $kind {
            fn put(&self, out: &mut Vec<u8>) {
                serde_json::to_writer(out, self).expect("plain structures serialise");
            }
        }
    )*};
}
put_by_serde!(AccessList, SignedAuthorization, Withdrawal);

/// Writes the fields of an object in order.
#[derive(Debug)]
pub struct Fields<'a> {
    out: &'a mut Vec<u8>,
    separator: u8,
}

impl<'a> Fields<'a> {
    /// Opens an object.
    pub const fn open(out: &'a mut Vec<u8>) -> Self {
        Self { out, separator: b'{' }
    }

    /// A field that is always there. `name` needs no escapes.
    #[inline]
    pub fn put(&mut self, name: &str, value: &(impl Put + ?Sized)) -> &mut Self {
        self.out.push(self.separator);
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        value.put(self.out);
        self.separator = b',';
        self
    }

    /// A field that is absent where it has no value.
    #[inline]
    pub fn maybe(&mut self, name: &str, value: &Option<impl Put>) -> &mut Self {
        match value {
            Some(value) => self.put(name, value),
            None => self,
        }
    }

    /// Closes the object.
    pub fn close(&mut self) {
        self.out.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(value: &(impl Put + ?Sized)) -> String {
        String::from_utf8(Json::put(value).bytes().to_vec()).unwrap()
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
