//! Parses requests from paths, query strings and JSON bodies. An unknown parameter is an error, because a
//! misspelt one would have no effect.

use super::{display_json::from_display_json, error::Error, json::Descriptors};
use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use prost_reflect::{
    DeserializeOptions, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage,
    Value,
};
use std::borrow::Cow;

/// Accepts base64 with and without padding.
const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const BASE64: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const BASE64_URL: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// Builds a request from the values in the path and the query string.
pub(super) fn from_text(
    descriptor: &MessageDescriptor,
    path: &[(&str, &str)],
    query: Option<&str>,
) -> Result<DynamicMessage, Error> {
    let mut message = DynamicMessage::new(descriptor.clone());
    for (name, value) in path {
        // If two queries share a path, its parameter is named after the field of one of them. The other has one field.
        let name = match descriptor.get_field_by_name(name) {
            Some(_) => (*name).to_owned(),
            None => descriptor.fields().next().map(|f| f.name().to_owned()).unwrap_or_default(),
        };
        set(&mut message, &name, value)?;
    }
    for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (unescape(name)?, unescape(value)?);
        if is_ignored(descriptor, &name) {
            continue;
        }
        let field = named(descriptor, &name);
        let is_same = |known: &str| field.as_ref().is_some_and(|field| field.name() == known);
        if path.iter().any(|(known, _)| is_same(known)) {
            return Err(Error::invalid(format!("parameter {name:?} is already in the path")));
        }
        set(&mut message, &name, &value)?;
    }
    Ok(message)
}

/// Parses a request in JSON.
pub(super) fn from_json(
    descriptors: &Descriptors,
    descriptor: MessageDescriptor,
    body: &[u8],
) -> Result<DynamicMessage, Error> {
    let invalid = |error: serde_json::Error| Error::invalid(format!("invalid body: {error}"));
    let mut json: serde_json::Value = serde_json::from_slice(body).map_err(invalid)?;
    from_display_json(descriptors, &descriptor, &mut json)
        .map_err(|reason| Error::invalid(format!("invalid body: {reason}")))?;
    let options = DeserializeOptions::new().deny_unknown_fields(true);
    DynamicMessage::deserialize_with_options(descriptor, json, &options).map_err(invalid)
}

/// Returns whether a parameter is ignored. Ping.pub also sends the proposal status when it queries votes.
fn is_ignored(descriptor: &MessageDescriptor, name: &str) -> bool {
    descriptor.name() == "QueryVotesRequest" && name == "proposal_status"
}

/// Finds a field by its protobuf name or its JSON name. The SDK's gateway accepts both.
fn named(descriptor: &MessageDescriptor, name: &str) -> Option<FieldDescriptor> {
    descriptor.get_field_by_name(name).or_else(|| descriptor.get_field_by_json_name(name))
}

/// Sets a field by its name. A dot precedes the name of a field inside a message.
fn set(message: &mut DynamicMessage, name: &str, text: &str) -> Result<(), Error> {
    let (head, rest) = name.split_once('.').map_or((name, None), |(head, rest)| (head, Some(rest)));
    let unknown = || Error::invalid(format!("unknown parameter {name:?}"));
    let field = named(&message.descriptor(), head).ok_or_else(unknown)?;
    if let Some(rest) = rest {
        let inner = message.get_field_mut(&field).as_message_mut().ok_or_else(unknown)?;
        return set(inner, rest, text);
    }
    let value = || {
        scalar(&field, text)
            .ok_or_else(|| Error::invalid(format!("parameter {name:?} is not {}", wanted(&field))))
    };
    // The parameter of a repeated field occurs once for each item.
    if field.is_list() {
        let value = value()?;
        message.get_field_mut(&field).as_list_mut().ok_or_else(unknown)?.push(value);
        return Ok(());
    }
    if message.has_field(&field) {
        return Err(Error::invalid(format!("parameter {name:?} is given twice")));
    }
    let value = value()?;
    message.set_field(&field, value);
    Ok(())
}

fn scalar(field: &FieldDescriptor, text: &str) -> Option<Value> {
    if field.is_map() {
        return None;
    }
    match field.kind() {
        Kind::String => Some(Value::String(text.to_owned())),
        Kind::Bool => boolean(text).map(Value::Bool),
        Kind::Uint32 => text.parse().ok().map(Value::U32),
        // By name, as in the SDK's gateway, or by number.
        Kind::Enum(kind) => {
            let named = kind.get_value_by_name(text).map(|value| value.number());
            let numbered = || text.parse().ok().filter(|number| kind.get_value(*number).is_some());
            named.or_else(numbered).map(Value::EnumNumber)
        }
        Kind::Uint64 => text.parse().ok().map(Value::U64),
        Kind::Int64 => text.parse().ok().map(Value::I64),
        Kind::Bytes => {
            // In a query string, the plus sign of base64 is decoded as a space.
            let text = text.replace(' ', "+");
            let bytes = BASE64.decode(&text).or_else(|_| BASE64_URL.decode(&text));
            bytes.ok().map(|bytes| Value::Bytes(bytes.into()))
        }
        _ => None,
    }
}

/// Parses a boolean in any of the spellings that Go accepts.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// Describes the expected value of a field, for error messages.
fn wanted(field: &FieldDescriptor) -> &'static str {
    match field.kind() {
        Kind::Bool => "true or false",
        Kind::Uint32 | Kind::Uint64 | Kind::Int64 => "a number in range",
        Kind::Bytes => "base64",
        Kind::Enum(_) => "one of its names or numbers",
        _ => "a single value",
    }
}

/// Decodes the escapes of a query string.
fn unescape(text: &str) -> Result<Cow<'_, str>, Error> {
    if !text.contains(['%', '+']) {
        return Ok(Cow::Borrowed(text));
    }
    let invalid = || Error::invalid("the query string has a malformed escape");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        match first {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits =
                    rest.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
                let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
                let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
                bytes.push(byte.ok_or_else(invalid)?);
                rest = &rest[2..];
            }
            other => bytes.push(*other),
        }
    }
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::proto::DESCRIPTORS;
    use prost_reflect::DescriptorPool;

    fn accounts() -> MessageDescriptor {
        let pool = DescriptorPool::decode(DESCRIPTORS).unwrap();
        pool.get_message_by_name("cosmos.auth.v1beta1.QueryAccountsRequest").unwrap()
    }

    fn text(query: &str) -> Result<DynamicMessage, Error> {
        from_text(&accounts(), &[], Some(query))
    }

    #[test]
    fn dots_select_fields_of_messages() {
        let message = text("pagination.limit=7&pagination.key=AQ%3D%3D").unwrap();
        let page = message.get_field_by_name("pagination").unwrap().into_owned();
        let page = page.as_message().unwrap();
        assert_eq!(page.get_field_by_name("limit").unwrap().as_u64(), Some(7));
        assert_eq!(page.get_field_by_name("key").unwrap().as_bytes().unwrap().as_ref(), [1]);
    }

    #[test]
    fn json_names_and_booleans_of_go_are_accepted() {
        for (word, value) in [("1", true), ("T", true), ("True", true), ("f", false), ("0", false)]
        {
            for name in ["count_total", "countTotal"] {
                let message = text(&format!("pagination.{name}={word}")).unwrap();
                let page = message.get_field_by_name("pagination").unwrap().into_owned();
                let total = page.as_message().unwrap().get_field_by_name("count_total").unwrap();
                assert_eq!(total.as_bool(), Some(value), "{name}={word}");
            }
        }
        let pool = DescriptorPool::decode(DESCRIPTORS).unwrap();
        let votes = pool.get_message_by_name("cosmos.gov.v1.QueryVotesRequest").unwrap();
        let parse = |query| from_text(&votes, &[("proposal_id", "0")], Some(query));
        assert!(parse("proposal_status=2").is_ok());
        for query in ["proposal_id=1", "proposalId=1", "proposalStatus=2", "status=2"] {
            assert!(parse(query).is_err(), "{query}");
        }
    }

    #[test]
    fn repeated_field_is_named_once_per_item() {
        let pool = DescriptorPool::decode(DESCRIPTORS).unwrap();
        let query = pool.get_message_by_name("cosmos.bank.v1beta1.QuerySendEnabledRequest");
        let message = from_text(&query.unwrap(), &[], Some("denoms=a&denoms=b")).unwrap();
        let denoms = message.get_field_by_name("denoms").unwrap().into_owned();
        let denoms: Vec<_> = denoms.as_list().unwrap().iter().map(Value::as_str).collect();
        assert_eq!(denoms, [Some("a"), Some("b")]);
    }

    #[test]
    fn errors_name_the_invalid_query_parameter() {
        for query in [
            "height=1",
            "pagination=1",
            "pagination.limit=-1",
            "pagination.limit=x",
            "pagination.limit=1&pagination.limit=2",
            "pagination.limit.x=1",
            "pagination.key=%",
            "pagination.key=%zz",
            "pagination.key=%ff",
            "pagination.reverse=2",
            "pagination.reverse=tRUE",
            "pagination.reverse=",
            "pagination.counttotal=true",
        ] {
            assert!(text(query).is_err(), "{query}");
        }
        let descriptors = Descriptors::read();
        for body in ["", "{", "[]", "{\"x\":1}", "{} x"] {
            assert!(from_json(&descriptors, accounts(), body.as_bytes()).is_err(), "{body}");
        }
    }
}
