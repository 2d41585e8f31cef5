//! Computes the digests of the EIP-712 renderings of a sign document, which wallets like MetaMask show and sign.
//!
//! Two renderings are in use: cosmos/evm's, with a field `msg0`, `msg1`, ... for each message and types derived from
//! the JSON; and Ethermint's older one, with a list `msgs` of a single type and the fee payer in the fee. In both, the
//! domain's `verifyingContract` is the text `cosmos`. The library's parser of typed data rejects such a text, so the
//! library is used only to resolve types and to hash values.

use super::{CosmosTx, message::Message};
use alloy_dyn_abi::eip712::{Eip712Types, PropertyDef, Resolver};
use alloy_primitives::{B256, keccak256};
use serde_json::{Map, Value, json};

/// Maximum number of types whose names differ only in the number at the end; the limit of cosmos/evm.
const MAX_TWINS: usize = 1000;

/// Returns the digest of cosmos/evm's rendering; `None` if the document has no such rendering.
pub(super) fn digest(document: &Value, chain_id: u64) -> Option<B256> {
    let mut message = document.as_object()?.clone();
    let messages = message.remove("msgs")?;
    // The rendering has no field for the timeout height, so it would not be signed. cosmos/evm rejects it, too.
    if message.contains_key("timeout_height") {
        return None;
    }
    let mut types = base_types();
    let mut fields = tx_fields();
    for (index, item) in messages.as_array()?.iter().enumerate() {
        let name = format!("msg{index}");
        let kind = item.get("type")?.as_str()?.rsplit('/').next()?;
        let kind = add_type(&mut types, &format!("Type{kind}"), "_", item.as_object()?)?;
        fields.push(property(&kind, &name));
        message.insert(name, item.clone());
    }
    types.insert("Tx".to_owned(), fields);
    hash(types, &message.into(), chain_id)
}

/// Returns the digest of Ethermint's older rendering; `None` if the document has no such rendering.
pub(super) fn legacy_digest(tx: &CosmosTx, document: &Value, chain_id: u64) -> Option<B256> {
    let mut message = document.clone();
    if message.get("timeout_height").is_some() {
        return None;
    }
    let first = tx.messages.first()?;
    let kind = std::mem::discriminant(first);
    if tx.messages.iter().any(|message| std::mem::discriminant(message) != kind) {
        return None;
    }
    message["fee"]["feePayer"] = tx.signer.text().into();
    let mut types = base_types();
    let mut fields = tx_fields();
    fields.insert(4, property("Msg[]", "msgs"));
    types.insert("Tx".to_owned(), fields);
    let fee = vec![
        property("string", "feePayer"),
        property("Coin[]", "amount"),
        property("string", "gas"),
    ];
    types.insert("Fee".to_owned(), fee);
    types.insert("Msg".to_owned(), vec![property("string", "type"), property("MsgValue", "value")]);
    let amount = vec![property("string", "denom"), property("string", "amount")];
    let value = match first {
        Message::Send(_) => {
            types.insert("TypeAmount".to_owned(), amount);
            vec![
                property("string", "from_address"),
                property("string", "to_address"),
                property("TypeAmount[]", "amount"),
            ]
        }
        Message::Deposit(_) => {
            types.insert("TypeAmount".to_owned(), amount);
            vec![
                property("uint64", "proposal_id"),
                property("string", "depositor"),
                property("TypeAmount[]", "amount"),
            ]
        }
        Message::Vote(vote) => {
            let mut fields = vec![
                property("uint64", "proposal_id"),
                property("string", "voter"),
                property("int32", "option"),
            ];
            if !vote.metadata.is_empty() {
                fields.push(property("string", "metadata"));
            }
            fields
        }
        Message::Submit(_) => return None,
    };
    types.insert("MsgValue".to_owned(), value);
    hash(types, &message, chain_id)
}

fn property(kind: &str, name: &str) -> PropertyDef {
    PropertyDef::new_unchecked(kind, name)
}

fn base_types() -> Eip712Types {
    let mut types = Eip712Types::default();
    let domain = [
        ("string", "name"),
        ("string", "version"),
        ("uint256", "chainId"),
        ("string", "verifyingContract"),
        ("string", "salt"),
    ];
    let coin = vec![property("string", "denom"), property("string", "amount")];
    let fee = vec![property("Coin[]", "amount"), property("string", "gas")];
    let domain = domain.into_iter().map(|(kind, name)| property(kind, name)).collect();
    types.insert("EIP712Domain".to_owned(), domain);
    types.insert("Coin".to_owned(), coin);
    types.insert("Fee".to_owned(), fee);
    types
}

fn tx_fields() -> Vec<PropertyDef> {
    let fields = [
        ("string", "account_number"),
        ("string", "chain_id"),
        ("Fee", "fee"),
        ("string", "memo"),
        ("string", "sequence"),
    ];
    fields.into_iter().map(|(kind, name)| property(kind, name)).collect()
}

/// Adds the types of a JSON object and of the objects in it, and returns the name of the outer type; `None` if there
/// are [`MAX_TWINS`] other types of the same name. Fields are in descending order of their names.
fn add_type(
    types: &mut Eip712Types,
    root: &str,
    prefix: &str,
    object: &Map<String, Value>,
) -> Option<String> {
    let mut names: Vec<_> = object.keys().collect();
    names.sort_unstable_by(|a, b| b.cmp(a));
    let mut fields = Vec::new();
    for name in names {
        let (value, list) = match &object[name.as_str()] {
            Value::Array(items) => match items.first() {
                Some(first) => (first, "[]"),
                None => {
                    fields.push(property("string[]", name));
                    continue;
                }
            },
            value => (value, ""),
        };
        let kind = match value {
            Value::Bool(_) => "bool".to_owned(),
            Value::Number(_) => "int64".to_owned(),
            Value::String(_) => "string".to_owned(),
            Value::Object(inner) => add_type(types, root, &format!("{prefix}.{name}"), inner)?,
            Value::Null | Value::Array(_) => continue,
        };
        fields.push(property(&format!("{kind}{list}"), name));
    }
    let name = if prefix == "_" { root.to_owned() } else { camel(prefix) };
    for number in 0..MAX_TWINS {
        let numbered = format!("{name}{number}");
        match types.get(&numbered) {
            Some(known) if *known == fields => return Some(numbered),
            Some(_) => {}
            None => {
                types.insert(numbered.clone(), fields);
                return Some(numbered);
            }
        }
    }
    None
}

/// Converts `_.value.proposal_id` to `TypeValueProposalId`.
fn camel(prefix: &str) -> String {
    let mut name = String::new();
    for part in prefix.split('.') {
        if part == "_" {
            name.push_str("Type");
            continue;
        }
        for word in part.split('_') {
            let mut letters = word.chars();
            name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
            name.push_str(letters.as_str());
        }
    }
    name
}

fn hash(types: Eip712Types, message: &Value, chain_id: u64) -> Option<B256> {
    let resolver = Resolver::from(types);
    let word = |kind: &str, value: &Value| {
        let value = resolver.resolve(kind).ok()?.coerce_json(value).ok()?;
        resolver.eip712_data_word(&value).ok()
    };
    let domain = json!({
        "name": "Cosmos Web3",
        "version": "1.0.0",
        "chainId": chain_id,
        "verifyingContract": "cosmos",
        "salt": "0",
    });
    let (domain, message) = (word("EIP712Domain", &domain)?, word("Tx", message)?);
    Some(keccak256([&[0x19, 0x01], domain.as_slice(), message.as_slice()].concat()))
}
