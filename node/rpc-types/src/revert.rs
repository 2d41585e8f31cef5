//! Decodes revert data: Solidity's `Error(string)` and `Panic(uint256)`.

use alloy_primitives::U256;

/// Selector of `Error(string)`.
const ERROR: [u8; 4] = [0x08, 0xc3, 0x79, 0xa0];
/// Selector of `Panic(uint256)`.
const PANIC: [u8; 4] = [0x4e, 0x48, 0x7b, 0x71];

/// Returns the reason in revert data: the contract's text, or geth's text for a panic. `None` if it cannot be decoded.
pub fn revert_reason(data: &[u8]) -> Option<String> {
    let (selector, content) = data.split_first_chunk()?;
    match *selector {
        ERROR => error_text(content),
        PANIC => panic_text(content),
        _ => None,
    }
}

/// Converts an ABI word to a number of bytes; `None` if it exceeds `usize`.
fn byte_count(word: &[u8; 32]) -> Option<usize> {
    usize::try_from(U256::from_be_bytes(*word)).ok()
}

/// Decodes one ABI string. As in geth, the padding of its last word may be missing.
fn error_text(content: &[u8]) -> Option<String> {
    let offset = byte_count(content.first_chunk()?)?;
    let (length, text) = content.get(offset..)?.split_first_chunk()?;
    let text = text.get(..byte_count(length)?)?;
    Some(String::from_utf8_lossy(text).into_owned())
}

/// Describes one of Solidity's panic codes.
fn panic_text(content: &[u8]) -> Option<String> {
    let code = U256::from_be_bytes(*content.first_chunk::<32>()?);
    let reason = match u64::try_from(code).ok() {
        Some(0x00) => "generic panic",
        Some(0x01) => "assert(false)",
        Some(0x11) => "arithmetic underflow or overflow",
        Some(0x12) => "division or modulo by zero",
        Some(0x21) => "enum overflow",
        Some(0x22) => "invalid encoded storage byte array accessed",
        Some(0x31) => "out-of-bounds array access; popping on an empty array",
        Some(0x32) => "out-of-bounds access of an array or bytesN",
        Some(0x41) => "out of memory",
        Some(0x51) => "uninitialized function",
        _ => return Some(format!("unknown panic code: {code:#x}")),
    };
    Some(reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::hex;

    #[test]
    fn only_complete_reasons_are_decoded() {
        let text = hex!(
            "08c379a0"
            "0000000000000000000000000000000000000000000000000000000000000020"
            "000000000000000000000000000000000000000000000000000000000000000a"
            "75736572206572726f72"
        );
        assert_eq!(revert_reason(&text).as_deref(), Some("user error"));
        let mut panic = [0; 36];
        panic[..4].copy_from_slice(&PANIC);
        panic[35] = 1;
        assert_eq!(revert_reason(&panic).as_deref(), Some("assert(false)"));
        panic[35] = 0x99;
        assert_eq!(revert_reason(&panic).as_deref(), Some("unknown panic code: 0x99"));
        for length in 0..text.len() {
            assert_eq!(revert_reason(&text[..length]), None, "{length} bytes");
        }
        let mut huge_offset = text;
        huge_offset[4..36].fill(0xff);
        assert_eq!(revert_reason(&huge_offset), None);
    }
}
