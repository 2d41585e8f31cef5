//! Implements the contract at 0x400, which converts addresses to their Bech32 form and back, as in cosmos/evm.
//! Arguments and results are ABI-encoded:
//!
//! ```solidity
//! function hexToBech32(address addr, string prefix) returns (string);
//! function bech32ToHex(string bech32) returns (address);
//! ```

use alloy_dyn_abi::{DynSolType, DynSolValue};
use alloy_primitives::{Address, Bytes};
use keys::{decode_any, encode_any};
use revm::precompile::{PrecompileHalt, PrecompileOutput, PrecompileResult};

/// Gas of a call to either function.
const GAS: u64 = 6_000;
/// Function selectors.
const HEX_TO_BECH32: [u8; 4] = [0xf9, 0x58, 0xa9, 0x8c];
const BECH32_TO_HEX: [u8; 4] = [0xe6, 0xdf, 0x46, 0x1e];
/// Maximum size of the arguments in bytes: about twice the longest Bech32 text (1,023 characters), so that 6,000 gas
/// do not pay for megabytes.
const MAX_ARGUMENT_BYTES: usize = 2_048;

/// Executes a call. An unknown function reverts; invalid arguments fail and use all gas.
pub(super) fn run(input: &[u8], gas_limit: u64, reservoir: u64) -> PrecompileResult {
    if gas_limit < GAS {
        return Ok(PrecompileOutput::halt(PrecompileHalt::OutOfGas, reservoir));
    }
    let result = match input.split_first_chunk() {
        Some((&HEX_TO_BECH32, arguments)) => to_bech32(arguments),
        Some((&BECH32_TO_HEX, arguments)) => to_hex(arguments),
        _ => return Ok(PrecompileOutput::revert(GAS, Bytes::new(), reservoir)),
    };
    Ok(match result {
        Some(result) => {
            let result = DynSolValue::Tuple(vec![result]).abi_encode_params();
            PrecompileOutput::new(GAS, result.into(), reservoir)
        }
        None => {
            let halt = PrecompileHalt::other_static("invalid address, prefix or Bech32 text");
            PrecompileOutput::halt(halt, reservoir)
        }
    })
}

fn arguments(kinds: Vec<DynSolType>, encoded: &[u8]) -> Option<Vec<DynSolValue>> {
    if encoded.len() > MAX_ARGUMENT_BYTES {
        return None;
    }
    match DynSolType::Tuple(kinds).abi_decode_params(encoded).ok()? {
        DynSolValue::Tuple(values) => Some(values),
        _ => None,
    }
}

fn to_bech32(encoded: &[u8]) -> Option<DynSolValue> {
    let values = arguments(vec![DynSolType::Address, DynSolType::String], encoded)?;
    let [DynSolValue::Address(address), DynSolValue::String(prefix)] = &values[..] else {
        return None;
    };
    encode_any(prefix, *address).map(DynSolValue::String)
}

/// Decodes an address. Uses the last 20 bytes if there are more, and left-pads fewer bytes with zeros.
fn to_hex(encoded: &[u8]) -> Option<DynSolValue> {
    let values = arguments(vec![DynSolType::String], encoded)?;
    let [DynSolValue::String(text)] = &values[..] else { return None };
    let (_, bytes) = decode_any(text).ok().filter(|(_, bytes)| !bytes.is_empty())?;
    let last = &bytes[bytes.len().saturating_sub(Address::len_bytes())..];
    Some(DynSolValue::Address(Address::left_padding_from(last)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{address, keccak256};

    const ADDRESS: Address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
    const TEXT: &str = "cosmos17w0adeg64ky0daxwd2ugyuneellmjgnxramjtq";

    fn call(selector: [u8; 4], arguments: Vec<DynSolValue>) -> PrecompileOutput {
        let arguments = DynSolValue::Tuple(arguments).abi_encode_params();
        run(&[&selector[..], &arguments].concat(), GAS, 0).unwrap()
    }

    fn text(text: &str) -> DynSolValue {
        DynSolValue::String(text.to_owned())
    }

    #[test]
    fn selectors_match_the_interface() {
        for (selector, function) in
            [(HEX_TO_BECH32, "hexToBech32(address,string)"), (BECH32_TO_HEX, "bech32ToHex(string)")]
        {
            assert_eq!(keccak256(function)[..4], selector);
        }
    }

    #[test]
    fn addresses_survive_a_round_trip() {
        let address = DynSolValue::Address(ADDRESS);
        let output = call(HEX_TO_BECH32, vec![address.clone(), text("cosmos")]);
        assert!(output.is_success() && output.gas_used == GAS);
        assert_eq!(output.bytes, DynSolValue::Tuple(vec![text(TEXT)]).abi_encode_params());
        let output = call(BECH32_TO_HEX, vec![text(TEXT)]);
        assert_eq!(output.bytes, address.abi_encode());
    }

    #[test]
    fn invalid_arguments_halt_and_unknown_functions_revert() {
        let address = DynSolValue::Address(ADDRESS);
        let wrong_checksum = TEXT.replace("17w0", "17w9");
        for output in [
            call(HEX_TO_BECH32, vec![address.clone(), text("")]),
            call(HEX_TO_BECH32, vec![address, text("\u{e9}")]),
            call(HEX_TO_BECH32, vec![text("cosmos")]),
            call(BECH32_TO_HEX, vec![text(&wrong_checksum)]),
            call(BECH32_TO_HEX, vec![text("cosmos")]),
            call(BECH32_TO_HEX, vec![text(&"q".repeat(4_000))]),
        ] {
            assert!(output.is_halt(), "{output:?}");
        }
        for input in [&[][..], &[1, 2, 3], &[1, 2, 3, 4]] {
            let output = run(input, GAS, 0).unwrap();
            assert!(output.is_revert() && output.gas_used == GAS);
        }
        let halted = run(&BECH32_TO_HEX, GAS - 1, 0).unwrap();
        assert_eq!(halted.halt_reason(), Some(&PrecompileHalt::OutOfGas));
    }
}
