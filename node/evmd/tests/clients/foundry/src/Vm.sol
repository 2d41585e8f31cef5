// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// The cheatcodes that this project uses.
interface Vm {
    struct Log {
        bytes32[] topics;
        bytes data;
        address emitter;
    }

    function activeFork() external view returns (uint256);
    function addr(uint256 key) external pure returns (address);
    function createSelectFork(string calldata url) external returns (uint256);
    function createSelectFork(string calldata url, uint256 number) external returns (uint256);
    function deal(address account, uint256 balance) external;
    function envAddress(string calldata name) external view returns (address);
    function envString(string calldata name) external view returns (string memory);
    function envUint(string calldata name) external view returns (uint256);
    function etch(address account, bytes calldata code) external;
    function expectEmit() external;
    function expectRevert(bytes calldata data) external;
    function fee(uint256 baseFee) external;
    function getNonce(address account) external view returns (uint64);
    function getRecordedLogs() external returns (Log[] memory);
    function load(address account, bytes32 slot) external view returns (bytes32);
    function makePersistent(address account) external;
    function prank(address sender) external;
    function recordLogs() external;
    function revertToState(uint256 id) external returns (bool);
    function roll(uint256 number) external;
    function rollFork(uint256 number) external;
    function rpc(string calldata method, string calldata params) external returns (bytes memory);
    function sign(uint256 key, bytes32 digest) external pure returns (uint8, bytes32, bytes32);
    function snapshotState() external returns (uint256);
    function startBroadcast() external;
    function startBroadcast(address sender) external;
    function startBroadcast(uint256 key) external;
    function startPrank(address sender) external;
    function stopBroadcast() external;
    function stopPrank() external;
    function store(address account, bytes32 slot, bytes32 value) external;
    function transact(bytes32 hash) external;
    function warp(uint256 timestamp) external;
}

Vm constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));

// The first development account.
address constant ACCOUNT = 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266;
uint256 constant KEY = 0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80;
// The second one.
address constant OTHER = 0x70997970C51812dc3A010C7d01b50e0d17dc79C8;
uint256 constant OTHER_KEY = 0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d;
