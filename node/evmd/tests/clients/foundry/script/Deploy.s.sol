// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

import {Token} from "../src/Token.sol";
import {ACCOUNT, KEY, OTHER, OTHER_KEY, vm} from "../src/Vm.sol";

/// Deploys a token, mints and transfers. The sender is that of the command line: an account of the node, or one whose
/// key is given.
contract Deploy {
    function run() external returns (Token token) {
        vm.startBroadcast();
        token = new Token();
        token.mint(ACCOUNT, 1000);
        vm.stopBroadcast();
    }
}

/// More than one sender, ether, and a deployment at an address that does not depend on the sender.
contract Senders {
    function run() external returns (Token token, Token salted) {
        vm.startBroadcast(KEY);
        token = new Token();
        token.mint(OTHER, 10);
        payable(address(0x1234)).transfer(1 ether);
        salted = new Token{salt: bytes32(uint256(1))}();
        vm.stopBroadcast();
        vm.startBroadcast(OTHER_KEY);
        token.transfer(address(0x1234), 4);
        vm.stopBroadcast();
        require(token.balanceOf(OTHER) == 6, "balance");
    }
}

/// Reads the token at TOKEN.
contract Read {
    function run() external view returns (uint256 chain, uint256 number, uint256 supply) {
        return (block.chainid, block.number, Token(vm.envAddress("TOKEN")).totalSupply());
    }
}

/// A transaction that fails must not be sent.
contract Fails {
    function run() external {
        vm.startBroadcast(KEY);
        Token(vm.envAddress("TOKEN")).transfer(OTHER, 2000 ether);
        vm.stopBroadcast();
    }
}
