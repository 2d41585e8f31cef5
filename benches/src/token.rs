//! A minimal but realistic ERC-20 contract: `transfer` and `balanceOf` as a Solidity compiler lays
//! them out (selector dispatch, checked balances in a mapping at slot 0, the `Transfer` event).

use alloy_primitives::{Address, Bytes, U256, address, b256, keccak256};

/// Address of the workload's token.
pub const TOKEN: Address = address!("70ce000000000000000000000000000000000001");
/// Gas limit of a token transfer. One to a new holder uses about 51,000.
pub const TRANSFER_GAS: u64 = 60_000;

const TRANSFER: [u8; 4] = [0xa9, 0x05, 0x9c, 0xbb];
const BALANCE_OF: [u8; 4] = [0x70, 0xa0, 0x82, 0x31];

/// Slot of the holder's balance.
pub fn balance_slot(holder: Address) -> U256 {
    let mut key = [0; 64];
    key[12..32].copy_from_slice(holder.as_slice());
    keccak256(key).into()
}

/// Input of `transfer(to, amount)`.
pub fn transfer_input(to: Address, amount: U256) -> Bytes {
    let mut input = Vec::with_capacity(68);
    input.extend(TRANSFER);
    input.extend(to.into_word());
    input.extend(amount.to_be_bytes::<32>());
    input.into()
}

/// The token's code.
pub fn code() -> Bytes {
    let mut code = Assembler::default();
    // Memory pointer and the check that no value is sent, as in compiled code.
    code.ops(&[0x60, 0x80, 0x60, 0x40, 0x52, 0x34]).jump_if("refuse");
    // Fewer than four bytes of input select nothing.
    code.ops(&[0x60, 4, 0x36, 0x10]).jump_if("refuse");
    code.ops(&[0x60, 0, 0x35, 0x60, 0xe0, 0x1c]);
    code.ops(&[0x80, 0x63]).ops(&TRANSFER).ops(&[0x14]).jump_if("transfer");
    code.ops(&[0x80, 0x63]).ops(&BALANCE_OF).ops(&[0x14]).jump_if("balanceOf");
    code.label("refuse").ops(&[0x60, 0, 0x80, 0xfd]);

    code.label("transfer").ops(&[0x60, 68, 0x36, 0x10]).jump_if("refuse");
    // The recipient is an address and not zero.
    code.ops(&[0x60, 4, 0x35, 0x80, 0x60, 160, 0x1c]).jump_if("refuse");
    code.ops(&[0x80, 0x15]).jump_if("refuse");
    // [to] -> [to, amount, slot, balance]; the sender has the amount.
    code.ops(&[0x60, 36, 0x35, 0x33, 0x60, 0, 0x52, 0x60, 0, 0x60, 32, 0x52]);
    code.ops(&[0x60, 64, 0x60, 0, 0x20, 0x80, 0x54]);
    code.ops(&[0x82, 0x81, 0x10]).jump_if("refuse");
    code.ops(&[0x82, 0x90, 0x03, 0x90, 0x55]);
    // [to, amount]: the recipient's balance grows, checked for overflow.
    code.ops(&[0x81, 0x60, 0, 0x52, 0x60, 64, 0x60, 0, 0x20, 0x80, 0x54]);
    code.ops(&[0x82, 0x01, 0x80, 0x83, 0x11]).jump_if("refuse");
    code.ops(&[0x90, 0x55]);
    // Transfer(from, to, amount).
    let event = b256!("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");
    code.ops(&[0x60, 0, 0x52, 0x33, 0x7f]).ops(event.as_slice());
    code.ops(&[0x60, 32, 0x60, 0, 0xa3]);
    code.ops(&[0x60, 1, 0x60, 0, 0x52, 0x60, 32, 0x60, 0, 0xf3]);

    code.label("balanceOf").ops(&[0x60, 36, 0x36, 0x10]).jump_if("refuse");
    code.ops(&[0x60, 4, 0x35, 0x60, 0, 0x52, 0x60, 0, 0x60, 32, 0x52]);
    code.ops(&[0x60, 64, 0x60, 0, 0x20, 0x54, 0x60, 0, 0x52, 0x60, 32, 0x60, 0, 0xf3]);
    code.finish()
}

/// Resolves labels to jump targets.
#[derive(Default)]
struct Assembler {
    code: Vec<u8>,
    labels: Vec<(&'static str, usize)>,
    jumps: Vec<(&'static str, usize)>,
}

impl Assembler {
    fn ops(&mut self, ops: &[u8]) -> &mut Self {
        self.code.extend(ops);
        self
    }

    fn label(&mut self, name: &'static str) -> &mut Self {
        self.labels.push((name, self.code.len()));
        self.ops(&[0x5b])
    }

    fn jump_if(&mut self, name: &'static str) -> &mut Self {
        self.jumps.push((name, self.code.len() + 1));
        self.ops(&[0x61, 0, 0, 0x57])
    }

    fn finish(mut self) -> Bytes {
        for (name, at) in self.jumps {
            let (_, target) =
                self.labels.iter().find(|(label, _)| *label == name).expect("a known label");
            let target = u16::try_from(*target).expect("a short code");
            self.code[at..at + 2].copy_from_slice(&target.to_be_bytes());
        }
        self.code.into()
    }
}
