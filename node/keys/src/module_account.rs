//! Computes the addresses of the accounts of the chain's modules.

use alloy_primitives::Address;
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

/// The names of the chain's module accounts. They have no keys.
pub const MODULE_ACCOUNTS: [&str; 4] = ["evm", "fee_collector", "feemarket", "gov"];

/// Returns the address of the module account with this name: the first 20 bytes of the SHA-256 of the name.
pub fn module_address(name: &str) -> Address {
    Address::from_slice(&Sha256::digest(name.as_bytes())[..Address::len_bytes()])
}

/// Returns whether an address is that of one of [`MODULE_ACCOUNTS`].
pub fn is_module_account(address: Address) -> bool {
    static ADDRESSES: LazyLock<[Address; MODULE_ACCOUNTS.len()]> =
        LazyLock::new(|| MODULE_ACCOUNTS.map(module_address));
    ADDRESSES.contains(&address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::address;

    #[test]
    fn addresses_of_modules_are_those_of_the_cosmos_sdk() {
        let known = [
            ("gov", address!("7b5Fe22B5446f7C62Ea27B8BD71CeF94e03f3dF2")),
            ("fee_collector", address!("f1829676DB577682E944fc3493d451B67Ff3E29F")),
            ("evm", address!("603871c2ddd41c26Ee77495E2E31e6De7f9957e0")),
            ("feemarket", address!("cff47DcA6261fDCE0C1681F8a2AF387E251517Cf")),
            ("distribution", address!("93354845030274cD4bf1686Abd60AB28EC52e1a7")),
            ("precisebank", address!("5113954bbC0eD721F1C68671EBa3d91e9e9bF7b5")),
        ];
        for (name, address) in known {
            assert_eq!(module_address(name), address, "{name}");
            assert_eq!(is_module_account(address), MODULE_ACCOUNTS.contains(&name), "{name}");
        }
    }
}
