// The matchers of hardhat-chai-matchers.
const { loadFixture } = require("@nomicfoundation/hardhat-network-helpers");
const { anyUint, anyValue } = require("@nomicfoundation/hardhat-chai-matchers/withArgs");
const { PANIC_CODES } = require("@nomicfoundation/hardhat-chai-matchers/panic");
const { expect } = require("chai");
const { ethers } = require("hardhat");

describe("chai matchers", () => {
  async function deploy() {
    const [owner, other, third] = await ethers.getSigners();
    const token = await ethers.deployContract("Token");
    await token.mint(owner, 1000);
    const head = await ethers.provider.getBlock("latest");
    const lock = await ethers.deployContract("Lock", [head.timestamp + 1000], { value: 5 });
    return { owner, other, third, token, lock };
  }

  it("emit and withArgs", async () => {
    const { owner, other, token } = await loadFixture(deploy);
    await expect(token.transfer(other, 7))
      .to.emit(token, "Transfer")
      .withArgs(owner, other, 7);
    await expect(token.approve(other, 9))
      .to.emit(token, "Approval")
      .withArgs(anyValue, other.address, anyUint);
    await expect(token.transfer(other, 1)).not.to.emit(token, "Approval");
  });

  it("reverted", async () => {
    const { other, token } = await loadFixture(deploy);
    await expect(token.connect(other).transfer(other, 1)).to.be.reverted;
    await expect(token.transfer(other, 1)).not.to.be.reverted;
  });

  it("revertedWith", async () => {
    const { lock } = await loadFixture(deploy);
    await expect(lock.withdraw()).to.be.revertedWith("You can't withdraw yet");
    await expect(lock.withdraw.staticCall()).to.be.revertedWith(/withdraw yet$/);
    await expect(lock.withdraw.estimateGas()).to.be.revertedWith("You can't withdraw yet");
    await expect(
      ethers.deployContract("Lock", [1], { value: 5 }),
    ).to.be.revertedWith("Unlock time should be in the future");
  });

  it("a transaction that fails in a block", async () => {
    const { lock } = await loadFixture(deploy);
    // With a gas limit, ethers does not estimate, so the transaction is sent.
    const sent = await lock.withdraw({ gasLimit: 100_000 });
    const error = await sent.wait().then(() => null, (error) => error);
    expect(error.receipt.status).to.equal(0);
  });

  it("revertedWithCustomError", async () => {
    const { owner, other, token } = await loadFixture(deploy);
    await expect(token.transfer(other, 1001))
      .to.be.revertedWithCustomError(token, "ERC20InsufficientBalance")
      .withArgs(owner, 1000, 1001);
    await expect(token.connect(other).mint(other, 1))
      .to.be.revertedWithCustomError(token, "OwnableUnauthorizedAccount")
      .withArgs(other);
    await expect(token.transferFrom.staticCall(other, owner, 1))
      .to.be.revertedWithCustomError(token, "ERC20InsufficientAllowance");
  });

  it("revertedWithPanic", async () => {
    const { lock } = await loadFixture(deploy);
    await expect(lock.failAssertion()).to.be.revertedWithPanic(PANIC_CODES.ASSERTION_ERROR);
    await expect(lock.overflow(1)).to.be.revertedWithPanic(0x11);
    await expect(lock.divide(0)).to.be.revertedWithPanic(0x12);
    await expect(lock.element(0)).to.be.revertedWithPanic(0x32);
    await expect(lock.divide(1)).not.to.be.revertedWithPanic();
  });

  it("revertedWithoutReason", async () => {
    const { lock } = await loadFixture(deploy);
    await expect(lock.failSilently()).to.be.revertedWithoutReason();
    await expect(lock.failSilently.staticCall()).to.be.revertedWithoutReason();
  });

  it("changeEtherBalance and changeEtherBalances", async () => {
    const { owner, other, third } = await loadFixture(deploy);
    const send = () => owner.sendTransaction({ to: other, value: 200 });
    await expect(send).to.changeEtherBalance(other, 200);
    await expect(send).to.changeEtherBalances([owner, other, third], [-200, 200, 0]);
    await expect(send()).to.changeEtherBalance(owner, -200);
    const { gasUsed, gasPrice } = await (await send()).wait();
    await expect(send).to.changeEtherBalance(
      owner,
      (change) => change <= -200n - (gasUsed * gasPrice) / 2n,
      { includeFee: true },
    );
  });

  it("changeTokenBalance and changeTokenBalances", async () => {
    const { owner, other, token } = await loadFixture(deploy);
    await expect(token.transfer(other, 3)).to.changeTokenBalance(token, other, 3);
    await expect(() => token.transfer(other, 4)).to.changeTokenBalances(
      token,
      [owner, other],
      [-4, 4],
    );
  });

  it("matchers of values", async () => {
    const { owner, token } = await loadFixture(deploy);
    expect(owner.address).to.be.properAddress;
    expect((await token.mint(owner, 1)).hash).to.be.properHex(64);
    expect(await token.totalSupply()).to.equal(1001);
    expect(await token.totalSupply()).to.be.within(1000, 1002);
    expect("0x1").to.hexEqual("0x01");
    expect(owner.address.toLowerCase()).to.hexEqual(owner.address);
  });
});
