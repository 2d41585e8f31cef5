//! Encodes and decodes the part of protobuf that the fee market's messages need: varints and byte strings.
//!
//! The writer omits numbers that are zero, like proto3. The reader returns all fields in the order of the bytes, also
//! those of other types, and does not allocate.

use thiserror::Error;

/// Wire type of numbers.
const VARINT: u64 = 0;
/// Wire type of eight bytes.
const FIXED64: u64 = 1;
/// Wire type of byte strings.
const BYTES: u64 = 2;
/// Wire type of four bytes.
const FIXED32: u64 = 5;
/// Maximum length of a varint in bytes: 64 bits, seven in each byte.
const MAX_VARINT_BYTES: usize = 10;

/// Why bytes are not the expected message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WireError {
    /// The bytes end inside a field.
    #[error("protobuf: unexpected end")]
    Truncated,
    /// A number has more than 64 bits, or more than its field allows.
    #[error("protobuf: number out of range")]
    NumberRange,
    /// The wire type is unknown, or is not that of the field.
    #[error("protobuf: field {field} has wire type {kind}")]
    WireType {
        /// Field number.
        field: u64,
        /// Wire type.
        kind: u64,
    },
    /// A string is not UTF-8.
    #[error("protobuf: field {field} is not UTF-8")]
    NotUtf8 {
        /// Field number.
        field: u64,
    },
}

/// Writes one message.
#[derive(Debug, Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    /// Appends a number. Zero is omitted.
    pub(super) fn number(mut self, field: u64, value: u64) -> Self {
        if value != 0 {
            self.tag(field, VARINT);
            self.varint(value);
        }
        self
    }

    /// Appends a byte string, even if it is empty.
    pub(super) fn bytes(mut self, field: u64, value: &[u8]) -> Self {
        self.tag(field, BYTES);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }

    fn tag(&mut self, field: u64, kind: u64) {
        self.varint(field << 3 | kind);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.0.push(value.to_le_bytes()[0]);
    }
}

/// The value of a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// A value of a fixed width, which none of our fields has. Contains the wire type.
    Other(u64),
}

/// One field of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'a> {
    pub(super) number: u64,
    pub(super) value: Value<'a>,
}

impl<'a> Field<'a> {
    pub(super) fn number<T: TryFrom<u64>>(self) -> Result<T, WireError> {
        match self.value {
            Value::Number(value) => T::try_from(value).map_err(|_| WireError::NumberRange),
            Value::Bytes(_) => Err(self.unexpected(BYTES)),
            Value::Other(kind) => Err(self.unexpected(kind)),
        }
    }

    pub(super) fn text(self) -> Result<&'a str, WireError> {
        match self.value {
            Value::Bytes(bytes) => {
                std::str::from_utf8(bytes).map_err(|_| WireError::NotUtf8 { field: self.number })
            }
            Value::Number(_) => Err(self.unexpected(VARINT)),
            Value::Other(kind) => Err(self.unexpected(kind)),
        }
    }

    const fn unexpected(self, kind: u64) -> WireError {
        WireError::WireType { field: self.number, kind }
    }
}

/// Reads the fields of one message.
#[derive(Debug)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) const fn new(message: &'a [u8]) -> Self {
        Self(message)
    }

    /// Reads the next field; `None` at the end.
    pub(super) fn field(&mut self) -> Result<Option<Field<'a>>, WireError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let (number, kind) = (tag >> 3, tag & 7);
        let value = match kind {
            VARINT => Value::Number(self.varint()?),
            BYTES => {
                let len = usize::try_from(self.varint()?).map_err(|_| WireError::Truncated)?;
                Value::Bytes(self.take(len)?)
            }
            FIXED64 => self.take(8).map(|_| Value::Other(kind))?,
            FIXED32 => self.take(4).map(|_| Value::Other(kind))?,
            _ => return Err(WireError::WireType { field: number, kind }),
        };
        Ok(Some(Field { number, value }))
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(WireError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, WireError> {
        let mut value: u128 = 0;
        for shift in (0_u32..).step_by(7).take(MAX_VARINT_BYTES) {
            let byte = self.take(1)?[0];
            // At most 7 bits shifted by 63: 70 of 128 bits.
            value |= u128::from(byte & 0x7f).wrapping_shl(shift);
            if byte & 0x80 == 0 {
                return u64::try_from(value).map_err(|_| WireError::NumberRange);
            }
        }
        Err(WireError::NumberRange)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference is prost, which encodes every other message.
    #[test]
    fn numbers_of_every_length_are_encoded_as_by_prost() {
        let around = |bits: u32| {
            let power = 1_u64.checked_shl(bits).unwrap_or_default();
            [power.wrapping_sub(1), power, power.wrapping_add(1)]
        };
        for number in (0..=64).flat_map(around) {
            let mut expected = Vec::new();
            prost::encoding::uint64::encode(3, &number, &mut expected);
            let written = Writer::default().number(3, number).finish();
            assert_eq!(
                written,
                if number == 0 { Vec::new() } else { expected.clone() },
                "{number}"
            );
            let mut reader = Reader::new(&expected);
            let field = reader.field().unwrap().unwrap();
            assert!(
                field.number == 3 && matches!(field.value, Value::Number(found) if found == number)
            );
            assert!(reader.field().unwrap().is_none());
        }
    }

    #[test]
    fn fixed_width_fields_are_skipped() {
        let last = Writer::default().number(1, 7).finish();
        for (kind, length) in [(FIXED64, 8), (FIXED32, 4)] {
            let tag = u8::try_from(2 << 3 | kind).unwrap();
            let bytes = [&[tag][..], &vec![0xff; length], &last].concat();
            let mut reader = Reader::new(&bytes);
            let other = reader.field().unwrap().unwrap();
            assert!(
                other.number == 2 && matches!(other.value, Value::Other(found) if found == kind)
            );
            let field = reader.field().unwrap().unwrap();
            assert!(field.number == 1 && matches!(field.value, Value::Number(7)));
            let short = &bytes[..length];
            assert!(matches!(Reader::new(short).field(), Err(WireError::Truncated)), "{kind}");
        }
        let group = [2 << 3 | 3];
        assert!(matches!(
            Reader::new(&group).field(),
            Err(WireError::WireType { field: 2, kind: 3 })
        ));
    }

    #[test]
    fn number_above_64_bits_is_rejected() {
        let max = [[0xff; 9].as_slice(), &[0x01]].concat();
        let field = |bytes: &[u8]| [&[1 << 3][..], bytes].concat();
        let bytes = field(&max);
        let read = Reader::new(&bytes).field().unwrap().unwrap();
        assert!(matches!(read.value, Value::Number(u64::MAX)));
        for bytes in [[[0xff; 9].as_slice(), &[0x02]].concat(), [0xff; 11].to_vec()] {
            let bytes = field(&bytes);
            assert!(matches!(Reader::new(&bytes).field(), Err(WireError::NumberRange)));
        }
    }
}
