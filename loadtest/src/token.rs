//! A small ERC-20 contract, and calls to such contracts.

use alloy_primitives::{Address, U256, hex};

/// Topic of `Transfer(address,address,uint256)`.
pub(crate) const TRANSFER: &str =
    "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";

/// Formats an address as a 32-byte topic.
pub(crate) fn topic(address: &str) -> String {
    format!("0x{:0>64}", address.trim_start_matches("0x"))
}

/// Returns the call data of `balanceOf(address)`.
pub(crate) fn balance_of(address: &str) -> String {
    format!("0x70a08231{:0>64}", address.trim_start_matches("0x"))
}

/// Returns the call data of `transfer(address,uint256)`.
pub(crate) fn transfer(to: Address, amount: u64) -> Vec<u8> {
    let mut data = vec![0xa9, 0x05, 0x9c, 0xbb];
    data.extend_from_slice(to.into_word().as_slice());
    data.extend_from_slice(&U256::from(amount).to_be_bytes::<32>());
    data
}

/// Returns the creation code of a token with `transfer`, its balance check and event, and `balanceOf`. Balances
/// are a Solidity mapping at slot 0; the creator holds the whole supply. It is assembled here, so
/// that no Solidity compiler is needed.
pub(crate) fn creation_code() -> Vec<u8> {
    let runtime = runtime();
    let mut code = join(&[
        &hex!("335f52 5f602052"),                    // memory: the creator, slot 0
        &hex!("6fffffffffffffffffffffffffffffffff"), // the supply
        &hex!("60405f20 55"),                        // stored at the hash of that memory
    ]);
    let offset = code.len() + 9;
    // PUSH1 length, DUP1, PUSH1 offset, PUSH0, CODECOPY, PUSH0, RETURN
    code.extend([0x60, byte(runtime.len()), 0x80, 0x60, byte(offset), 0x5f, 0x39, 0x5f, 0xf3]);
    code.extend(runtime);
    code
}

/// Bytes of the dispatcher in front of the two functions.
const DISPATCH_BYTES: usize = 27;

fn runtime() -> Vec<u8> {
    let check = hex!(
        "5b 335f52 5f602052 60405f20" // slot of the sender's balance
        "8054 602435 818111 60"       // balance, amount; is the amount above the balance?
    );
    let pay = hex!(
        "57 809103 909155"            // stored less the amount
        "6004355f52 60405f20"         // slot of the receiver's balance
        "8054 8201 9055"              // stored more the amount
        "5f52 600435 33 7f"           // the event: amount, receiver, sender, its topic
        "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef 60205f a3"
        "60015f52 60205f f3"          // true
    );
    let balance_of = hex!("5b 6004355f52 5f602052 60405f20 54 5f52 60205f f3");
    let fail = hex!("5b 5f5f fd");
    let transfer_at = DISPATCH_BYTES;
    let balance_of_at = transfer_at + check.len() + 1 + pay.len();
    let fail_at = balance_of_at + balance_of.len();
    join(&[
        &hex!("5f3560e01c 80 63a9059cbb 14 60"),
        &[byte(transfer_at)],
        &hex!("57 63 70a08231 14 60"),
        &[byte(balance_of_at)],
        &hex!("57 5f5ffd"),
        &check,
        &[byte(fail_at)],
        &pay,
        &balance_of,
        &fail,
    ])
}

/// Converts a length or offset in this code to the operand of PUSH1.
fn byte(value: usize) -> u8 {
    u8::try_from(value).expect("the code is below 256 bytes")
}

fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_target_valid_destinations() {
        const JUMPDEST: u8 = 0x5b;
        let code = runtime();
        let (mut at, mut last_push, mut jumps) = (0, 0, 0);
        while at < code.len() {
            match code[at] {
                push @ 0x60..=0x7f => {
                    last_push = code[at + 1];
                    at += usize::from(push - 0x60) + 1;
                }
                0x57 => {
                    assert_eq!(code[usize::from(last_push)], JUMPDEST);
                    jumps += 1;
                }
                _ => {}
            }
            at += 1;
        }
        assert_eq!(jumps, 3);
        assert_eq!(code[DISPATCH_BYTES], JUMPDEST);
    }

    #[test]
    fn call_data_has_abi_length() {
        assert_eq!(balance_of("0x11").len(), 2 + 8 + 64);
        assert_eq!(transfer(Address::ZERO, 1).len(), 68);
        assert_eq!(topic("0xab").len(), 66);
    }
}
