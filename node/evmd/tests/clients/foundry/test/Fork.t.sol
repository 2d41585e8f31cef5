// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

import {Token} from "../src/Token.sol";
import {ACCOUNT, KEY, OTHER, vm, Vm} from "../src/Vm.sol";

/// Tests on a fork of the node. The token was deployed there before, with 1000 tokens of ACCOUNT (`run`).
contract ForkTest {
    event Transfer(address indexed from, address indexed to, uint256 value);

    Token private token;
    Token private own;
    address private constant MULTICALL = 0xcA11bde05977b3631167028862bE2a173976CA11;

    function setUp() public {
        token = Token(vm.envAddress("TOKEN"));
        own = new Token();
    }

    function testForkHasTheEnvironmentOfTheNode() public view {
        require(block.chainid == 262144, "chain id");
        require(block.number == vm.envUint("HEAD"), "number");
        require(block.timestamp > 1_700_000_000, "timestamp");
        require(block.basefee > 0, "base fee");
        require(block.gaslimit > 0, "gas limit");
    }

    function testForkHasTheStateOfTheNode() public view {
        require(ACCOUNT.balance > 9000 ether, "balance");
        require(vm.getNonce(ACCOUNT) > 0, "nonce");
        require(MULTICALL.code.length > 0, "code");
        require(token.balanceOf(ACCOUNT) == 1000, "storage");
        require(token.owner() == ACCOUNT, "immutable");
        require(uint256(vm.load(address(token), 0)) == 1000, "slot");
    }

    function testContractOfTheNodeIsCalled() public {
        (bool success, bytes memory result) = MULTICALL.call(
            abi.encodeWithSignature("getEthBalance(address)", ACCOUNT)
        );
        require(success && abi.decode(result, (uint256)) == ACCOUNT.balance, "multicall");
    }

    function testPrank() public {
        vm.prank(ACCOUNT);
        token.transfer(OTHER, 400);
        require(token.balanceOf(OTHER) == 400 && token.balanceOf(ACCOUNT) == 600, "balances");
        vm.startPrank(OTHER);
        token.transfer(address(7), 1);
        token.transfer(address(7), 2);
        vm.stopPrank();
        require(token.balanceOf(address(7)) == 3, "balance");
    }

    function testExpectRevert() public {
        vm.expectRevert(abi.encodeWithSelector(Token.OwnableUnauthorizedAccount.selector, this));
        token.mint(address(this), 1);
        vm.expectRevert(
            abi.encodeWithSelector(Token.ERC20InsufficientBalance.selector, this, 0, 1)
        );
        token.transfer(OTHER, 1);
    }

    function testExpectEmit() public {
        vm.prank(ACCOUNT);
        vm.expectEmit();
        emit Transfer(ACCOUNT, OTHER, 5);
        token.transfer(OTHER, 5);
    }

    function testRecordedLogs() public {
        vm.recordLogs();
        vm.prank(ACCOUNT);
        token.transfer(OTHER, 5);
        Vm.Log[] memory logs = vm.getRecordedLogs();
        require(logs.length == 1 && logs[0].emitter == address(token), "logs");
    }

    function testDealStoreAndEtch() public {
        vm.deal(address(9), 3 ether);
        require(address(9).balance == 3 ether, "deal");
        vm.store(address(token), keccak256(abi.encode(OTHER, 1)), bytes32(uint256(77)));
        require(token.balanceOf(OTHER) == 77, "store");
        vm.etch(address(0x1000), address(own).code);
        require(Token(address(0x1000)).owner() == address(this), "etch");
    }

    function testRollWarpAndFee() public {
        vm.roll(12345);
        vm.warp(1_900_000_000);
        vm.fee(9);
        require(block.number == 12345 && block.timestamp == 1_900_000_000, "block");
        require(block.basefee == 9, "base fee");
    }

    function testSnapshot() public {
        uint256 id = vm.snapshotState();
        own.mint(address(this), 5);
        require(vm.revertToState(id) && own.totalSupply() == 0, "state");
    }

    function testEarlierBlock() public {
        string memory url = vm.envString("RPC_URL");
        vm.makePersistent(address(this));
        vm.createSelectFork(url, vm.envUint("HEAD"));
        require(token.totalSupply() == 1000, "head");
        vm.rollFork(vm.envUint("DEPLOYED"));
        require(block.number == vm.envUint("DEPLOYED"), "number");
        require(token.totalSupply() == 0, "before the tokens were minted");
        vm.createSelectFork(url);
        require(token.totalSupply() == 1000, "latest");
    }

    function testTransactionOfTheNodeIsReplayed() public {
        vm.makePersistent(address(this));
        vm.createSelectFork(vm.envString("RPC_URL"), vm.envUint("DEPLOYED"));
        require(token.totalSupply() == 0, "before");
        vm.transact(bytes32(vm.envUint("MINTED")));
        require(token.totalSupply() == 1000, "after");
    }

    function testRpc() public {
        bytes memory id = vm.rpc("eth_chainId", "[]");
        require(uint256(bytes32(abi.encodePacked(new bytes(32 - id.length), id))) == 262144, "id");
    }

    function testSignature() public pure {
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(KEY, keccak256("text"));
        require(ecrecover(keccak256("text"), v, r, s) == ACCOUNT, "signer");
    }

    function testFuzzTransfers(uint256 value) public {
        value %= 1001;
        vm.prank(ACCOUNT);
        token.transfer(OTHER, value);
        require(token.balanceOf(ACCOUNT) + token.balanceOf(OTHER) == 1000, "sum");
    }
}
