//! Lists the precompiled contracts that a native chain can have in addition to those of its fork. A contract is active
//! if the parameters of the EVM list it, as in cosmos/evm.

use alloy_primitives::{Address, address};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// A precompiled contract that a native chain can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExtraPrecompile {
    /// ECDSA over secp256r1 (RIP-7212).
    P256,
    /// Conversion between the two forms of an address.
    Bech32,
}

/// The supported contracts, in ascending order of address, which is the order of [`ExtraPrecompile`].
const SUPPORTED: [(Address, ExtraPrecompile); 2] = [
    (address!("0000000000000000000000000000000000000100"), ExtraPrecompile::P256),
    (address!("0000000000000000000000000000000000000400"), ExtraPrecompile::Bech32),
];

impl ExtraPrecompile {
    /// Returns the address of the contract.
    pub const fn address(self) -> Address {
        SUPPORTED[self as usize].0
    }
}

/// A list of these contracts, which must be ascending and without duplicates, as in cosmos/evm.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ExtraPrecompiles(Vec<ExtraPrecompile>);

/// Why a list is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExtraPrecompilesError {
    /// An entry is not an address in hex.
    #[error("invalid precompile {0}")]
    Address(String),
    /// This node has no such contract, although cosmos/evm may have one.
    #[error("precompile {0} is not supported; 0x...0100 (p256) and 0x...0400 (bech32) are")]
    NotSupported(String),
    /// An entry is listed twice.
    #[error("duplicate precompile {0}")]
    Duplicate(String),
    /// The list is not ascending.
    #[error("precompiles need to be sorted: [{}]", .0.join(" "))]
    Unsorted(Vec<String>),
}

impl ExtraPrecompiles {
    /// Returns whether the list is empty.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns all contracts of the list, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = ExtraPrecompile> {
        self.0.iter().copied()
    }

    /// Returns the addresses in hex, as in JSON and protobuf.
    pub fn to_texts(&self) -> Vec<String> {
        self.iter().map(|extra| extra.address().to_string()).collect()
    }
}

impl TryFrom<Vec<String>> for ExtraPrecompiles {
    type Error = ExtraPrecompilesError;

    fn try_from(texts: Vec<String>) -> Result<Self, ExtraPrecompilesError> {
        let mut list = Vec::with_capacity(texts.len());
        for text in &texts {
            let address: Address =
                text.parse().map_err(|_| ExtraPrecompilesError::Address(text.clone()))?;
            let found = SUPPORTED.iter().find(|(at, _)| *at == address);
            let (_, extra) =
                found.ok_or_else(|| ExtraPrecompilesError::NotSupported(text.clone()))?;
            if list.contains(extra) {
                return Err(ExtraPrecompilesError::Duplicate(text.clone()));
            }
            list.push(*extra);
        }
        if !list.is_sorted() {
            return Err(ExtraPrecompilesError::Unsorted(texts));
        }
        Ok(Self(list))
    }
}

impl Serialize for ExtraPrecompiles {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_texts().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ExtraPrecompiles {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<String>::deserialize(deserializer)?.try_into().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_must_be_ascending_and_of_supported_contracts() {
        let [p256, bech32] = SUPPORTED.map(|(address, _)| address.to_string());
        let read = |texts: &[&String]| {
            ExtraPrecompiles::try_from(texts.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let both = read(&[&p256, &bech32]).unwrap();
        assert_eq!(both.to_texts(), [p256.clone(), bech32.clone()]);
        let addresses = both.iter().map(ExtraPrecompile::address);
        assert!(addresses.eq(SUPPORTED.map(|(address, _)| address)));
        let error = |texts: &[&String]| read(texts).unwrap_err().to_string();
        let unsorted = format!("precompiles need to be sorted: [{bech32} {p256}]");
        assert_eq!(error(&[&bech32, &p256]), unsorted);
        assert!(error(&[&p256, &p256]).starts_with("duplicate precompile 0x"));
        let staking = Address::with_last_byte(8).to_string();
        assert!(error(&[&staking]).contains("is not supported"));
        assert_eq!(error(&[&"0x0100".to_owned()]), "invalid precompile 0x0100");
    }
}
