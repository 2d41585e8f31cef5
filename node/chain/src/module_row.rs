//! The parts of the module row that hold the parameters of the EVM and the rules versions, and the row of
//! genesis. The format of a row is defined in [`feemarket::store`].

use super::{EvmParams, EvmParamsError, Native, RulesVersion};
use alloy_primitives::{B256, Bytes};
use feemarket::store::{self, Pairs, Record};

/// Key space of the EVM module.
const EVM_KEY_SPACE: &str = "evm";
/// Key of its parameters in that space, as in cosmos/evm.
const EVM_PARAMS_KEY: u8 = 0x03;
/// Key space of the rules versions.
const RULES_KEY_SPACE: &str = "rules";
/// Key of the rules version that starts with the block.
const RULES_VERSION_KEY: u8 = 0x00;
/// Key of the hash of the genesis configuration.
const RULES_CONFIG_KEY: u8 = 0x01;

/// Why the parameters of the EVM cannot be read from a row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvmRowError {
    /// The parameters are invalid.
    #[error("module row: {0}")]
    Params(#[from] EvmParamsError),
    /// A key in the EVM's space is unknown.
    #[error("module row: unknown key {0} in the space of the EVM")]
    UnknownKey(Bytes),
}

/// Returns the pair that stores the parameters of the EVM.
pub fn evm_pair(params: &EvmParams) -> (Bytes, Bytes) {
    (evm_key(EVM_PARAMS_KEY), params.to_proto().into())
}

/// Returns the parameters of the EVM in a row, or those of genesis if the row has none. Skips keys of other
/// spaces.
///
/// # Errors
/// [`EvmRowError`].
pub fn evm_params(pairs: &Pairs, native: &Native) -> Result<EvmParams, EvmRowError> {
    let mut params = native.evm.clone();
    let prefix = [EVM_KEY_SPACE.as_bytes(), b"/"].concat();
    for (key, value) in pairs {
        match key.strip_prefix(prefix.as_slice()) {
            None => {}
            Some([EVM_PARAMS_KEY]) => params = EvmParams::from_proto(value)?,
            Some(_) => return Err(EvmRowError::UnknownKey(key.clone())),
        }
    }
    Ok(params)
}

/// Returns the additional pairs in the first block of a rules version from 1 on: the version, and the hash of
/// the genesis configuration. A home with a different schedule rejects the block. Empty for all other blocks.
pub fn version_pairs(native: &Native, height: u64) -> Vec<(Bytes, Bytes)> {
    let starting = native.rules.starting_at(height);
    let Some(version) = starting.filter(|version| *version > RulesVersion::V0) else {
        return Vec::new();
    };
    let key = |byte: u8| Bytes::from([RULES_KEY_SPACE.as_bytes(), b"/", &[byte]].concat());
    let number = Bytes::copy_from_slice(&version.number().to_be_bytes());
    vec![(key(RULES_VERSION_KEY), number), (key(RULES_CONFIG_KEY), native.config_hash.0.into())]
}

/// Returns the commitment in the header of block 0. Governance has no pair before the first proposal.
pub fn genesis_root(native: &Native) -> B256 {
    let mut pairs = store::pairs(&native.market);
    pairs.extend([evm_pair(&native.evm)]);
    pairs.extend(version_pairs(native, 0));
    Record { row: store::encode(&pairs), events: Vec::new(), gov: None }.root()
}

fn evm_key(byte: u8) -> Bytes {
    [EVM_KEY_SPACE.as_bytes(), b"/", &[byte]].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Genesis;

    #[test]
    fn damaged_parameters_are_refused_by_name() {
        let genesis = Genesis::native_dev(0);
        let read = |key: u8, value: &[u8]| {
            let pairs = Pairs::from([(evm_key(key), Bytes::copy_from_slice(value))]);
            evm_params(&pairs, genesis.spec.native().unwrap()).unwrap_err().to_string()
        };
        assert!(read(EVM_PARAMS_KEY, b"\xff").contains("EVM parameters: "));
        assert!(read(4, b"").contains("unknown key 0x65766d2f04"));
        // `extra_eips: [1]`; an access type of 3; a list entry that is not an address.
        assert!(read(EVM_PARAMS_KEY, b"\x20\x01").contains("extra_eips must be empty"));
        assert!(read(EVM_PARAMS_KEY, b"\x42\x04\x0a\x02\x08\x03").contains("access type 3"));
        let address = b"\x42\x05\x12\x03\x12\x01x";
        assert!(read(EVM_PARAMS_KEY, address).contains("invalid whitelist address: x"));
    }
}
