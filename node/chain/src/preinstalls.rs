//! Provides contracts that tools expect on every chain, for the development genesis. On other chains they are deployed
//! with transactions without a chain id, which a native chain rejects by default (EIP-155).

use alloy_primitives::{Address, Bytes, address, hex};

/// Deploys, with CREATE2, the init code that follows a 32-byte salt in the calldata. Foundry and others use this
/// contract (Arachnid/deterministic-deployment-proxy).
pub const CREATE2_DEPLOYER: Address = address!("4e59b44847b379578588920cA78FbF26c0B4956C");
/// Does the same for the contracts of Safe (safe-global/safe-singleton-factory).
pub const SAFE_FACTORY: Address = address!("914d7Fec6aaC8cd542e72Bca78B30650d45643d7");
/// Executes several calls in one (mds1/multicall3, MIT).
pub const MULTICALL3: Address = address!("cA11bde05977b3631167028862bE2a173976CA11");

const DEPLOYER_CODE: [u8; 69] = hex!(
    "7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe03601600081602082378035828234"
    "f58015156039578182fd5b8082525050506014600cf3"
);
const MULTICALL3_HEX: &str = include_str!("preinstalls/multicall3.hex");

/// Returns the contracts with their code.
pub(super) fn preinstalls() -> [(Address, Bytes); 3] {
    let multicall: String = MULTICALL3_HEX.split_whitespace().collect();
    let multicall = hex::decode(multicall).expect("the file is hex, as its test says");
    [
        (CREATE2_DEPLOYER, Bytes::from_static(&DEPLOYER_CODE)),
        (SAFE_FACTORY, Bytes::from_static(&DEPLOYER_CODE)),
        (MULTICALL3, multicall.into()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{b256, keccak256};

    #[test]
    fn code_is_that_of_mainnet() {
        let deployer = b256!("2fa86add0aed31f33a762c9d88e807c475bd51d0f52bd0955754b2608f7e4989");
        let multicall = b256!("d5c15df687b16f2ff992fc8d767b4216323184a2bbc6ee2f9c398c318e770891");
        assert_eq!(preinstalls().map(|(_, code)| keccak256(code)), [deployer, deployer, multicall]);
    }
}
