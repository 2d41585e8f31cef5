//! Decodes protobuf messages and rejects bytes that have no meaning, so that all signed bytes are interpreted.

use super::error::{Refusal, tx_decode};
use prost::{
    Message, Name,
    bytes::Buf,
    encoding::{WireType, decode_key, decode_varint, encode_key, encode_varint},
};
use prost_reflect::{DescriptorPool, DynamicMessage, Kind, MessageDescriptor};
use prost_types::Any;
use proto::DESCRIPTORS;
use std::sync::LazyLock;

/// The protobuf definitions of all messages.
static DEFINITIONS: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(DESCRIPTORS).expect("our own descriptors are valid"));

/// Decodes a message in canonical encoding: encoding the decoded message again must return the same bytes.
///
/// # Errors
/// Returns an error if the bytes are not the canonical encoding of a message.
pub(super) fn canonical<M: Message + Default>(bytes: &[u8]) -> Result<M, Refusal> {
    let message = decode::<M>(bytes)?;
    if message.encode_to_vec() == bytes { Ok(message) } else { Err(not_canonical()) }
}

/// Decodes messages whose encoding may state default values, which some clients write, and records whether a message
/// stated one.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// Whether a decoded message stated a default value.
    pub(super) defaults: bool,
}

impl Reader {
    /// Does the same as [`canonical`], but fields may state their default value.
    ///
    /// # Errors
    /// Returns the errors of [`canonical`].
    pub(super) fn read<M: Message + Name + Default>(&mut self, bytes: &[u8]) -> Result<M, Refusal> {
        let message = decode::<M>(bytes)?;
        let canonical = message.encode_to_vec();
        if canonical == bytes {
            return Ok(message);
        }
        let definition = DEFINITIONS.get_message_by_name(&M::full_name());
        let without = definition.and_then(|definition| without_defaults(bytes, &definition));
        if without.as_ref() != Some(&canonical) {
            return Err(not_canonical());
        }
        self.defaults = true;
        Ok(message)
    }
}

/// Returns the bytes of a message without stated default values; `None` if it is malformed, or of an unknown type.
pub(super) fn value_without_defaults(any: &Any) -> Option<Vec<u8>> {
    let definition = DEFINITIONS.get_message_by_name(any.type_url.strip_prefix('/')?)?;
    DynamicMessage::decode(definition.clone(), any.value.as_slice()).ok()?;
    without_defaults(&any.value, &definition)
}

fn decode<M: Message + Default>(bytes: &[u8]) -> Result<M, Refusal> {
    M::decode(bytes).map_err(|error| tx_decode(error.to_string()))
}

fn not_canonical() -> Refusal {
    tx_decode("unknown fields, or another encoding than the canonical one")
}

/// Returns the encoding without the fields that state a default value; `None` if it is malformed or has an unknown
/// field. The caller must have decoded the bytes, which limits the depth of this recursion.
fn without_defaults(bytes: &[u8], definition: &MessageDescriptor) -> Option<Vec<u8>> {
    let (mut rest, mut kept) = (bytes, Vec::with_capacity(bytes.len()));
    while rest.has_remaining() {
        let start = rest;
        let (number, wire) = decode_key(&mut rest).ok()?;
        let field = definition.get_field(number)?;
        let is_kept = field.is_list() || field.supports_presence();
        let is_default = match wire {
            WireType::Varint => decode_varint(&mut rest).ok()? == 0,
            WireType::LengthDelimited => {
                let length = usize::try_from(decode_varint(&mut rest).ok()?).ok()?;
                let content = rest.get(..length)?;
                rest = &rest[length..];
                if let Kind::Message(inner) = field.kind() {
                    let content = without_defaults(content, &inner)?;
                    encode_key(number, wire, &mut kept);
                    encode_varint(content.len() as u64, &mut kept);
                    kept.extend(content);
                    continue;
                }
                content.is_empty()
            }
            _ => return None,
        };
        if is_kept || !is_default {
            kept.extend(&start[..start.len() - rest.len()]);
        }
    }
    Some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::cosmos::tx::v1beta1::{AuthInfo, Fee, TxBody};

    fn read<M: Message + Name + Default>(bytes: &[u8]) -> Result<(M, bool), Refusal> {
        let mut reader = Reader::default();
        let message = reader.read(bytes)?;
        Ok((message, reader.defaults))
    }

    #[test]
    fn default_values_may_be_stated() {
        let body = TxBody { memo: "hi".to_owned(), ..TxBody::default() };
        assert_eq!(read(&body.encode_to_vec()), Ok((body.clone(), false)));
        // The timeout height is 0.
        let stated = [body.encode_to_vec(), vec![0x18, 0]].concat();
        assert_eq!(read(&stated), Ok((body, true)));
        assert_eq!(canonical::<TxBody>(&stated).unwrap_err().code.number, 2);
        // The fee in `AuthInfo` has an empty payer and granter.
        let fee = Some(Fee { gas_limit: 7, ..Fee::default() });
        let auth = AuthInfo { fee, ..AuthInfo::default() };
        let stated = [0x12, 6, 0x10, 7, 0x1a, 0, 0x22, 0];
        assert_eq!(read(&stated), Ok((auth, true)));
        // An empty message is present; it is not a default value.
        let auth = AuthInfo { fee: Some(Fee::default()), ..AuthInfo::default() };
        assert_eq!(read(&[0x12, 0]), Ok((auth, false)));
    }

    #[test]
    fn other_encodings_are_rejected() {
        let error_code = |bytes: &[u8]| read::<TxBody>(bytes).unwrap_err().code.number;
        assert_eq!(error_code(&[0x78, 0]), 2, "an unknown field");
        assert_eq!(error_code(&[0x12, 1, b'a', 0x12, 0]), 2, "a default after another value");
        assert_eq!(error_code(&[0x12, 1, b'a', 0x12, 1, b'b']), 2, "a repeated field");
        assert_eq!(error_code(&[0x18, 0x81, 0]), 2, "a number with more bytes than it needs");
        assert_eq!(error_code(&[0x18, 1, 0x12, 1, b'a']), 2, "fields out of order");
    }
}
