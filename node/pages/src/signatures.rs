//! Well-known functions by their selectors, and events by their topics.
//!
//! The signatures are those of ERC-20, ERC-721, ERC-1155, ERC-2612 and of widely used contracts such as routers,
//! proxies and the entry point of ERC-4337.

use alloy_primitives::{B256, keccak256};
use std::{collections::HashMap, sync::LazyLock};

/// A function or an event: its name with the types of its arguments, and the names of the arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signature(&'static str, &'static [&'static str]);

const FUNCTIONS: &[Signature] = &[
    Signature("transfer(address,uint256)", &["to", "amount"]),
    Signature("transferFrom(address,address,uint256)", &["from", "to", "amount"]),
    Signature("approve(address,uint256)", &["spender", "amount"]),
    Signature("balanceOf(address)", &["owner"]),
    Signature("allowance(address,address)", &["owner", "spender"]),
    Signature("increaseAllowance(address,uint256)", &["spender", "added"]),
    Signature("decreaseAllowance(address,uint256)", &["spender", "subtracted"]),
    Signature("mint(address,uint256)", &["to", "amount"]),
    Signature("mint(uint256)", &["amount"]),
    Signature("burn(uint256)", &["amount"]),
    Signature("burn(address,uint256)", &["from", "amount"]),
    Signature("burnFrom(address,uint256)", &["from", "amount"]),
    Signature("deposit()", &[]),
    Signature("withdraw(uint256)", &["amount"]),
    Signature("withdraw()", &[]),
    Signature("safeTransferFrom(address,address,uint256)", &["from", "to", "tokenId"]),
    Signature(
        "safeTransferFrom(address,address,uint256,bytes)",
        &["from", "to", "tokenId", "data"],
    ),
    Signature("setApprovalForAll(address,bool)", &["operator", "approved"]),
    Signature(
        "safeTransferFrom(address,address,uint256,uint256,bytes)",
        &["from", "to", "id", "amount", "data"],
    ),
    Signature(
        "safeBatchTransferFrom(address,address,uint256[],uint256[],bytes)",
        &["from", "to", "ids", "amounts", "data"],
    ),
    Signature(
        "permit(address,address,uint256,uint256,uint8,bytes32,bytes32)",
        &["owner", "spender", "amount", "deadline", "v", "r", "s"],
    ),
    Signature("transferOwnership(address)", &["newOwner"]),
    Signature("renounceOwnership()", &[]),
    Signature("upgradeTo(address)", &["implementation"]),
    Signature("upgradeToAndCall(address,bytes)", &["implementation", "data"]),
    Signature("initialize()", &[]),
    Signature("multicall(bytes[])", &["calls"]),
    Signature("execute(bytes,bytes[],uint256)", &["commands", "inputs", "deadline"]),
    Signature(
        "handleOps((address,uint256,bytes,bytes,bytes32,uint256,bytes32,bytes,bytes)[],address)",
        &["operations", "beneficiary"],
    ),
    Signature("grantRole(bytes32,address)", &["role", "account"]),
    Signature("revokeRole(bytes32,address)", &["role", "account"]),
    Signature("pause()", &[]),
    Signature("unpause()", &[]),
];

const EVENTS: &[Signature] = &[
    Signature("Transfer(address,address,uint256)", &["from", "to", "value"]),
    Signature("Approval(address,address,uint256)", &["owner", "spender", "value"]),
    Signature("ApprovalForAll(address,address,bool)", &["owner", "operator", "approved"]),
    Signature(
        "TransferSingle(address,address,address,uint256,uint256)",
        &["operator", "from", "to", "id", "value"],
    ),
    Signature(
        "TransferBatch(address,address,address,uint256[],uint256[])",
        &["operator", "from", "to", "ids", "values"],
    ),
    Signature("Deposit(address,uint256)", &["account", "amount"]),
    Signature("Withdrawal(address,uint256)", &["account", "amount"]),
    Signature("OwnershipTransferred(address,address)", &["previousOwner", "newOwner"]),
    Signature("RoleGranted(bytes32,address,address)", &["role", "account", "sender"]),
    Signature("RoleRevoked(bytes32,address,address)", &["role", "account", "sender"]),
    Signature("Upgraded(address)", &["implementation"]),
    Signature("AdminChanged(address,address)", &["previousAdmin", "newAdmin"]),
    Signature("Initialized(uint64)", &["version"]),
    Signature("Initialized(uint8)", &["version"]),
    Signature("Paused(address)", &["account"]),
    Signature("Unpaused(address)", &["account"]),
    Signature("Sync(uint112,uint112)", &["reserve0", "reserve1"]),
    Signature(
        "Swap(address,uint256,uint256,uint256,uint256,address)",
        &["sender", "amount0In", "amount1In", "amount0Out", "amount1Out", "to"],
    ),
];

static BY_SELECTOR: LazyLock<HashMap<[u8; 4], Signature>> = LazyLock::new(|| {
    let selector = |signature: &Signature| [0, 1, 2, 3].map(|at| keccak256(signature.0)[at]);
    FUNCTIONS.iter().map(|signature| (selector(signature), *signature)).collect()
});

static BY_TOPIC: LazyLock<HashMap<B256, Signature>> =
    LazyLock::new(|| EVENTS.iter().map(|signature| (keccak256(signature.0), *signature)).collect());

/// Returns the function with this selector.
pub(crate) fn function(selector: [u8; 4]) -> Option<Signature> {
    BY_SELECTOR.get(&selector).copied()
}

/// Returns the event with this first topic.
pub(crate) fn event(topic: B256) -> Option<Signature> {
    BY_TOPIC.get(&topic).copied()
}

impl Signature {
    /// Returns the name with the types of the arguments.
    pub(crate) const fn text(self) -> &'static str {
        self.0
    }

    /// Returns the name without types.
    pub(crate) fn name(self) -> &'static str {
        self.0.split_once('(').map_or(self.0, |(name, _)| name)
    }

    /// Returns the name and the type of each argument.
    pub(crate) fn arguments(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.1.iter().copied().zip(self.types())
    }

    fn types(self) -> impl Iterator<Item = &'static str> {
        let (_, types) = self.0.split_once('(').unwrap_or_default();
        let types = types.strip_suffix(')').unwrap_or_default();
        let mut depth = 0_u32;
        types.split(move |c| {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{b256, hex};

    #[test]
    fn each_argument_has_a_name_and_a_type() {
        for signature in FUNCTIONS.iter().chain(EVENTS) {
            let types = signature.types().filter(|name| !name.is_empty()).count();
            assert_eq!(types, signature.1.len(), "{}", signature.0);
        }
    }

    #[test]
    fn selectors_and_topics_are_those_of_the_standards() {
        assert_eq!(function(hex!("a9059cbb")).unwrap().name(), "transfer");
        assert_eq!(function(hex!("095ea7b3")).unwrap().name(), "approve");
        assert!(function([0; 4]).is_none());
        let transfer = b256!("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");
        assert_eq!(event(transfer).unwrap().text(), "Transfer(address,address,uint256)");
    }
}
