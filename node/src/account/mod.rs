//! Accounts: one 20-byte address in two forms, hex and Bech32.

use alloy_primitives::Address;
use bech32::{Bech32, Hrp};

/// The Bech32 form of an address under the chain's prefix.
///
/// # Panics
/// If the prefix is no human-readable part; genesis checks that it is.
pub fn bech32(prefix: &str, address: Address) -> String {
    let hrp = Hrp::parse(prefix).expect("genesis checks the prefix");
    bech32::encode::<Bech32>(hrp, address.as_slice()).expect("20 bytes are short enough")
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::address;

    #[test]
    fn known_address() {
        let address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
        assert_eq!(bech32("cosmos", address), "cosmos17w0adeg64ky0daxwd2ugyuneellmjgnxramjtq");
    }
}
