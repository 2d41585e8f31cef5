//! Generates the schemas of messages, as [`crate::rest::json`] writes and [`crate::rest::request`] reads them.

use super::comment;
use crate::rest::json::{Descriptors, ScalarFormat, Style};
use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const ANY: &str = "google.protobuf.Any";

/// The types that queries return in an `Any`. Transactions of clients may contain others.
const IN_ANY: [&str; 18] = [
    "cosmos.auth.v1beta1.BaseAccount",
    "cosmos.auth.v1beta1.ModuleAccount",
    "cosmos.bank.v1beta1.MsgSend",
    "cosmos.bank.v1beta1.MsgSendResponse",
    "cosmos.evm.crypto.v1.ethsecp256k1.PubKey",
    "cosmos.evm.feemarket.v1.MsgUpdateParams",
    "cosmos.evm.types.v1.ExtensionOptionDynamicFeeTx",
    "cosmos.evm.vm.v1.ExtensionOptionsEthereumTx",
    "cosmos.evm.vm.v1.MsgEthereumTx",
    "cosmos.evm.vm.v1.MsgUpdateParams",
    "cosmos.gov.v1.MsgDeposit",
    "cosmos.gov.v1.MsgDepositResponse",
    "cosmos.gov.v1.MsgSubmitProposal",
    "cosmos.gov.v1.MsgSubmitProposalResponse",
    "cosmos.gov.v1.MsgVote",
    "cosmos.gov.v1.MsgVoteResponse",
    "cosmos.tx.v1beta1.Tx",
    "evmd.distribution.v1.MsgUpdateParams",
];

/// The context of a message, which determines its JSON format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// In a response.
    Response(Style),
    /// In a response, with content from a client: decimals and enumerations may be invalid.
    Decoded,
    /// In the body of a request.
    Request,
}

impl Form {
    /// Returns the suffix of the schema's name.
    const fn suffix(self) -> &'static str {
        match self {
            Self::Response(Style::Sdk) => "",
            Self::Response(Style::Plain) => ".plain",
            Self::Decoded => ".decoded",
            Self::Request => ".request",
        }
    }

    /// Returns the form of the content of an `Any`, which under `/cosmos/` is usually a part of a client's transaction.
    const fn inside_any(self) -> Self {
        match self {
            Self::Response(Style::Sdk) => Self::Decoded,
            other => other,
        }
    }
}

/// The schemas that operations refer to.
pub(super) struct Schemas<'a> {
    descriptors: &'a Descriptors,
    known: BTreeMap<String, Value>,
}

impl<'a> Schemas<'a> {
    pub(super) const fn new(descriptors: &'a Descriptors) -> Self {
        Self { descriptors, known: BTreeMap::new() }
    }

    /// Returns all schemas, by name.
    pub(super) fn into_components(self) -> Map<String, Value> {
        self.known.into_iter().collect()
    }

    /// Returns a reference to the schema of a message, or the schema itself if the message is a scalar in JSON.
    pub(super) fn message(&mut self, message: &MessageDescriptor, form: Form) -> Value {
        match message.full_name() {
            ANY => self.any(form),
            "google.protobuf.Timestamp" => json!({ "type": "string", "format": "date-time" }),
            "google.protobuf.Duration" => {
                json!({ "type": "string", "pattern": "^-?[0-9]+(\\.[0-9]+)?s$" })
            }
            name => {
                let name = format!("{name}{}", form.suffix());
                self.component(name, |schemas| schemas.object(message, form))
            }
        }
    }

    /// Returns a reference to a component. The first reference creates the component.
    fn component(&mut self, name: String, make: impl FnOnce(&mut Self) -> Value) -> Value {
        let reference = json!({ "$ref": format!("#/components/schemas/{name}") });
        if !self.known.contains_key(&name) {
            // The name is reserved first, because messages may contain themselves.
            self.known.insert(name.clone(), Value::Null);
            let schema = make(self);
            self.known.insert(name, schema);
        }
        reference
    }

    fn object(&mut self, message: &MessageDescriptor, form: Form) -> Value {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for field in message.fields() {
            properties.insert(field.name().to_owned(), self.field(&field, form));
            let is_message = matches!(field.kind(), Kind::Message(_));
            // A field marked `optional` may be missing.
            if form != Form::Request && (is_message || !field.supports_presence()) {
                required.push(field.name().to_owned());
            }
        }
        let mut schema = json!({
            "type": "object",
            "properties": properties,
            "additionalProperties": false,
        });
        if !required.is_empty() {
            schema["required"] = required.into();
        }
        if let Some(text) = comment(&message.parent_file(), message.path()) {
            schema["description"] = text.into();
        }
        schema
    }

    /// Returns the schema of an `Any`, which has one of the known types or another one.
    fn any(&mut self, form: Form) -> Value {
        if form == Form::Request {
            return json!({
                "type": "object",
                "properties": { "@type": { "type": "string" } },
                "required": ["@type"],
            });
        }
        self.component(format!("{ANY}{}", form.suffix()), |schemas| {
            let inside = form.inside_any();
            let urls = IN_ANY.map(|name| format!("/{name}"));
            let mut choices = vec![json!({
                "type": "object",
                "properties": { "@type": { "type": "string", "not": { "enum": urls } } },
                "required": ["@type"],
            })];
            choices.extend(IN_ANY.iter().map(|name| schemas.typed(name, inside)));
            json!({ "oneOf": choices })
        })
    }

    /// Returns the schema of a message with its type, as in an `Any`.
    fn typed(&mut self, name: &str, form: Form) -> Value {
        let message = self.descriptors.pool.get_message_by_name(name);
        let message = message.expect("the list names messages of the descriptors");
        self.component(format!("{name}.any{}", form.suffix()), |schemas| {
            let mut schema = schemas.object(&message, form);
            schema["properties"]["@type"] = json!({ "const": format!("/{name}") });
            let mut required = vec![Value::from("@type")];
            required.extend(schema["required"].as_array().into_iter().flatten().cloned());
            schema["required"] = required.into();
            schema
        })
    }

    fn field(&mut self, field: &FieldDescriptor, form: Form) -> Value {
        let mut schema = match field.kind() {
            Kind::Message(inner) if field.is_list() => self.message(&inner, form),
            Kind::Message(inner) => {
                json!({ "anyOf": [self.message(&inner, form), { "type": "null" }] })
            }
            _ => self.scalar(field, form),
        };
        if field.is_list() {
            schema = json!({ "type": "array", "items": schema });
        }
        if let Some(text) = comment(&field.parent_file(), field.path()) {
            schema["description"] = text.into();
        }
        schema
    }

    fn scalar(&self, field: &FieldDescriptor, form: Form) -> Value {
        match (field.kind(), self.descriptors.scalar_format(field)) {
            (_, Some(ScalarFormat::Decimal)) => decimal(form),
            (_, Some(ScalarFormat::Hex)) if form != Form::Request => {
                json!({ "type": "string", "pattern": "^0x([0-9a-f]{2})*$" })
            }
            (_, Some(ScalarFormat::Hex)) => json!({ "type": "string" }),
            (Kind::Bytes, _) => bytes(field, form),
            (Kind::Enum(kind), _) => enumeration(&kind, form),
            (Kind::Bool, _) => json!({ "type": "boolean" }),
            (Kind::Int32, _) => {
                json!({ "type": "integer", "minimum": i32::MIN, "maximum": i32::MAX })
            }
            (Kind::Uint32, _) => json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
            (Kind::Uint64, _) => integer("^[0-9]+$", json!(0), json!(u64::MAX), form),
            (Kind::Int64, _) => integer("^-?[0-9]+$", json!(i64::MIN), json!(i64::MAX), form),
            _ => json!({ "type": "string" }),
        }
    }
}

fn decimal(form: Form) -> Value {
    let pattern = match form {
        Form::Response(Style::Sdk) => "^-?[0-9]+\\.[0-9]{18}$",
        Form::Response(Style::Plain) => "^-?[0-9]+$",
        Form::Request => "^-?[0-9]+(\\.[0-9]{1,18})?$",
        Form::Decoded => return json!({ "type": "string" }),
    };
    json!({ "type": "string", "pattern": pattern })
}

/// Returns the schema of bytes in base64. In a response, empty bytes are `null`, except in a list.
fn bytes(field: &FieldDescriptor, form: Form) -> Value {
    let is_null = form != Form::Request && !field.is_list();
    let kind = if is_null { json!(["string", "null"]) } else { json!("string") };
    json!({ "type": kind, "contentEncoding": "base64" })
}

fn enumeration(kind: &EnumDescriptor, form: Form) -> Value {
    let names: Vec<_> = kind.values().map(|value| value.name().to_owned()).collect();
    let named = json!({ "type": "string", "enum": names });
    match form {
        Form::Response(_) => named,
        Form::Decoded | Form::Request => json!({ "anyOf": [named, { "type": "integer" }] }),
    }
}

/// Returns the schema of a 64-bit integer.
fn integer(pattern: &str, minimum: Value, maximum: Value, form: Form) -> Value {
    match form {
        Form::Response(Style::Plain) => {
            json!({ "type": "integer", "minimum": minimum, "maximum": maximum })
        }
        Form::Response(Style::Sdk) | Form::Decoded => {
            json!({ "type": "string", "pattern": pattern })
        }
        Form::Request => json!({ "type": ["string", "integer"], "pattern": pattern }),
    }
}
