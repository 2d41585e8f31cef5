//! Defines the parameters of the EVM on a native chain: permissions, and accepted transactions.
//!
//! The JSON has the form of cosmos/evm's `evm` module. Parameters that this node does not support are rejected
//! instead of ignored.

mod extras;

use alloy_primitives::Address;
use prost::Message;
use proto::cosmos::evm::vm::v1 as proto;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

pub use extras::{ExtraPrecompile, ExtraPrecompiles, ExtraPrecompilesError};

/// Parameters of the EVM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EvmParams {
    /// Denomination of gas and value.
    pub evm_denom: String,
    #[serde(deserialize_with = "empty_list")]
    extra_eips: Vec<i64>,
    /// Whether legacy transactions without EIP-155 protection are accepted.
    pub allow_unprotected_txs: bool,
    #[serde(deserialize_with = "empty_list")]
    evm_channels: Vec<String>,
    /// Permissions to create and call contracts.
    pub access_control: AccessControl,
    /// Precompiled contracts in addition to those of the fork.
    pub active_static_precompiles: ExtraPrecompiles,
}

impl Default for EvmParams {
    fn default() -> Self {
        Self {
            evm_denom: Self::DEFAULT_DENOM.to_owned(),
            extra_eips: Vec::new(),
            allow_unprotected_txs: false,
            evm_channels: Vec::new(),
            access_control: AccessControl::default(),
            active_static_precompiles: ExtraPrecompiles::default(),
        }
    }
}

/// Why parameters of the EVM are rejected: they do not decode, or this node does not support them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvmParamsError {
    /// The bytes are not the protobuf message `Params`.
    #[error("EVM parameters: {0}")]
    Decode(#[from] prost::DecodeError),
    /// The list of a feature that this node does not support is not empty.
    #[error("EVM parameters: {0} must be empty: not supported")]
    NotSupported(&'static str),
    /// A number is not an access type.
    #[error("EVM parameters: unknown access type {0}")]
    AccessType(i32),
    /// A list of precompiled contracts is invalid.
    #[error("EVM parameters: {0}")]
    Precompiles(#[from] ExtraPrecompilesError),
    /// An address is not in hex.
    #[error("EVM parameters: invalid whitelist address: {0}")]
    Address(String),
}

impl EvmParams {
    /// Denomination of gas and value if genesis does not state one.
    pub const DEFAULT_DENOM: &'static str = "atest";

    /// Encodes the parameters as protobuf, for storage and for gRPC.
    pub fn to_proto(&self) -> Vec<u8> {
        proto::Params::from(self).encode_to_vec()
    }

    /// Decodes the result of [`Self::to_proto`].
    ///
    /// # Errors
    /// Returns [`EvmParamsError`].
    pub fn from_proto(bytes: &[u8]) -> Result<Self, EvmParamsError> {
        proto::Params::decode(bytes)?.try_into()
    }
}

impl From<&EvmParams> for proto::Params {
    fn from(params: &EvmParams) -> Self {
        let AccessControl { create, call } = &params.access_control;
        let access_control =
            proto::AccessControl { create: Some(create.into()), call: Some(call.into()) };
        Self {
            evm_denom: params.evm_denom.clone(),
            allow_unprotected_txs: params.allow_unprotected_txs,
            access_control: Some(access_control),
            active_static_precompiles: params.active_static_precompiles.to_texts(),
            ..Self::default()
        }
    }
}

impl TryFrom<proto::Params> for EvmParams {
    type Error = EvmParamsError;

    fn try_from(params: proto::Params) -> Result<Self, EvmParamsError> {
        let lists = [
            ("extra_eips", params.extra_eips.is_empty()),
            ("evm_channels", params.evm_channels.is_empty()),
        ];
        if let Some((name, _)) = lists.into_iter().find(|(_, is_empty)| !is_empty) {
            return Err(EvmParamsError::NotSupported(name));
        }
        let proto::AccessControl { create, call } = params.access_control.unwrap_or_default();
        let rule = |rule: Option<proto::AccessControlType>| rule.unwrap_or_default().try_into();
        Ok(Self {
            evm_denom: params.evm_denom,
            allow_unprotected_txs: params.allow_unprotected_txs,
            access_control: AccessControl { create: rule(create)?, call: rule(call)? },
            active_static_precompiles: params.active_static_precompiles.try_into()?,
            ..Self::default()
        })
    }
}

impl From<&AccessRule> for proto::AccessControlType {
    fn from(rule: &AccessRule) -> Self {
        let list = rule.access_control_list.iter().map(Address::to_string).collect();
        Self { access_type: rule.access_type as i32, access_control_list: list }
    }
}

impl TryFrom<proto::AccessControlType> for AccessRule {
    type Error = EvmParamsError;

    fn try_from(rule: proto::AccessControlType) -> Result<Self, EvmParamsError> {
        let number = rule.access_type;
        let kind = usize::try_from(number).ok().and_then(|index| ACCESS_TYPES.get(index));
        let (_, access_type) = kind.ok_or(EvmParamsError::AccessType(number))?;
        let address = |text: String| text.parse().map_err(|_| EvmParamsError::Address(text));
        let list = rule.access_control_list.into_iter().map(address).collect::<Result<_, _>>()?;
        Ok(Self { access_type: *access_type, access_control_list: list })
    }
}

/// Accepts only the empty list, for features that this node does not support.
fn empty_list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let list = Vec::<T>::deserialize(deserializer)?;
    if list.is_empty() { Ok(list) } else { Err(D::Error::custom("must be empty: not supported")) }
}

/// Permissions to create and call contracts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AccessControl {
    /// Permission to create contracts.
    pub create: AccessRule,
    /// Permission for calls, including plain transfers.
    pub call: AccessRule,
}

impl AccessControl {
    /// Returns whether access is unrestricted.
    pub fn is_open(&self) -> bool {
        [&self.create, &self.call].iter().all(|rule| {
            rule.access_type == AccessType::Permissionless && rule.access_control_list.is_empty()
        })
    }
}

/// The permission of one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AccessRule {
    /// How the list is interpreted.
    pub access_type: AccessType,
    /// The blocked addresses, or the only allowed ones.
    pub access_control_list: Vec<Address>,
}

impl AccessRule {
    /// Returns whether `caller` has the permission in a transaction that `signer` signed. A block list applies
    /// to both addresses; in an allow list, one of them suffices.
    pub fn allows(&self, signer: Address, caller: Address) -> bool {
        let listed = |address| self.access_control_list.contains(&address);
        match self.access_type {
            AccessType::Permissionless => !listed(signer) && !listed(caller),
            AccessType::Restricted => false,
            AccessType::Permissioned => listed(signer) || listed(caller),
        }
    }
}

/// How the list of a permission is interpreted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessType {
    /// All addresses except the listed ones.
    #[default]
    Permissionless,
    /// No address.
    Restricted,
    /// Only the listed addresses.
    Permissioned,
}

/// Names in JSON. The index is the number in protobuf.
const ACCESS_TYPES: [(&str, AccessType); 3] = [
    ("ACCESS_TYPE_PERMISSIONLESS", AccessType::Permissionless),
    ("ACCESS_TYPE_RESTRICTED", AccessType::Restricted),
    ("ACCESS_TYPE_PERMISSIONED", AccessType::Permissioned),
];

impl Serialize for AccessType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (name, _) = ACCESS_TYPES[*self as usize];
        serializer.serialize_str(name)
    }
}

impl<'de> Deserialize<'de> for AccessType {
    /// Accepts a name or a number.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        let by_name = |text: &str| ACCESS_TYPES.iter().find(|(name, _)| *name == text);
        let by_number = |number| ACCESS_TYPES.get(usize::try_from(number).unwrap_or(usize::MAX));
        let found = match &value {
            serde_json::Value::String(text) => by_name(text),
            number => number.as_u64().and_then(by_number),
        };
        let unknown = || D::Error::custom(format!("unknown access type {value}"));
        found.map(|(_, kind)| *kind).ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Address = Address::repeat_byte(1);
    const B: Address = Address::repeat_byte(2);

    #[test]
    fn default_json_is_that_of_cosmos_evm() {
        let text = serde_json::to_string(&EvmParams::default()).unwrap();
        let open =
            r#"{"access_type":"ACCESS_TYPE_PERMISSIONLESS","access_control_list":[]}"#.to_owned();
        let expected = format!(
            "{{\"evm_denom\":\"atest\",\"extra_eips\":[],\"allow_unprotected_txs\":false,\
             \"evm_channels\":[],\"access_control\":{{\"create\":{open},\"call\":{open}}},\
             \"active_static_precompiles\":[]}}"
        );
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<EvmParams>(&text).unwrap(), EvmParams::default());
    }

    #[test]
    fn unsupported_and_malformed_parameters_are_refused() {
        for (json, reason) in [
            (r#"{"extra_eips":[3855]}"#, "must be empty"),
            (r#"{"active_static_precompiles":["0x0100"]}"#, "invalid precompile 0x0100"),
            (r#"{"evm_denom":7}"#, "invalid type"),
            (r#"{"unknown":1}"#, "unknown field"),
            (r#"{"access_control":{"call":{"access_type":3}}}"#, "unknown access type 3"),
            (r#"{"access_control":{"call":{"access_type":"NONE"}}}"#, "unknown access type"),
            (r#"{"access_control":{"call":{"access_control_list":["0x1"]}}}"#, "odd number"),
        ] {
            let error = serde_json::from_str::<EvmParams>(json).unwrap_err().to_string();
            assert!(error.contains(reason), "{json}: {error}");
        }
        let by_number: AccessType = serde_json::from_str("2").unwrap();
        assert_eq!(by_number, AccessType::Permissioned);
    }

    #[test]
    fn access_rules_apply_to_signer_and_caller() {
        let rule = |access_type| AccessRule { access_type, access_control_list: vec![A] };
        let permissions = |kind| {
            let rule = rule(kind);
            [(A, A), (A, B), (B, A), (B, B)].map(|(signer, caller)| rule.allows(signer, caller))
        };
        assert_eq!(permissions(AccessType::Permissionless), [false, false, false, true]);
        assert_eq!(permissions(AccessType::Restricted), [false; 4]);
        assert_eq!(permissions(AccessType::Permissioned), [true, true, true, false]);
        assert!(AccessControl::default().is_open());
        let blocked =
            AccessControl { call: rule(AccessType::Permissionless), ..Default::default() };
        assert!(!blocked.is_open());
    }
}
