// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// Holds ether until a time. Its other functions fail in each way that a contract can.
contract Lock {
    event Withdrawal(uint256 amount, uint256 when);

    uint256 public immutable unlockTime;
    address payable public immutable owner;
    uint256[] private empty;

    constructor(uint256 time) payable {
        require(time > block.timestamp, "Unlock time should be in the future");
        unlockTime = time;
        owner = payable(msg.sender);
    }

    function withdraw() external {
        require(block.timestamp >= unlockTime, "You can't withdraw yet");
        require(msg.sender == owner, "You aren't the owner");
        emit Withdrawal(address(this).balance, block.timestamp);
        (bool success, ) = owner.call{value: address(this).balance}("");
        require(success, "The owner refused");
    }

    function failAssertion() external pure {
        assert(false);
    }

    function overflow(uint256 by) external pure returns (uint256) {
        return type(uint256).max + by;
    }

    function divide(uint256 by) external pure returns (uint256) {
        return 1 / by;
    }

    function element(uint256 index) external view returns (uint256) {
        return empty[index];
    }

    function failSilently() external {
        unlockTime;
        empty.push(1);
        revert();
    }

    function random() external view returns (uint256) {
        return block.prevrandao;
    }
}
