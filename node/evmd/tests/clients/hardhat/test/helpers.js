// hardhat-network-helpers, and the impersonated signers of hardhat-ethers.
const helpers = require("@nomicfoundation/hardhat-network-helpers");
const { expect } = require("chai");
const { ethers } = require("hardhat");

const { loadFixture, time } = helpers;
const CODE = "0x602a60005260206000f3";

const head = () => ethers.provider.getBlock("latest");
const unused = () => ethers.Wallet.createRandom().address;

describe("network helpers", () => {
  // Each test ends with the state in which it began.
  let before;
  beforeEach(async () => {
    before = await helpers.takeSnapshot();
  });
  afterEach(() => before.restore());

  it("loadFixture runs a fixture once", async () => {
    let runs = 0;
    async function fixture() {
      runs += 1;
      const token = await ethers.deployContract("Token");
      return { token, number: await ethers.provider.getBlockNumber() };
    }
    const first = await loadFixture(fixture);
    const [owner] = await ethers.getSigners();
    await first.token.mint(owner, 10);
    const second = await loadFixture(fixture);
    expect(runs).to.equal(1);
    expect(second.token).to.equal(first.token);
    expect(await second.token.totalSupply()).to.equal(0);
    expect(await ethers.provider.getBlockNumber()).to.equal(first.number);
  });

  it("a fixture is loaded again after another one", async () => {
    const fixtures = [
      async function one() {
        return ethers.deployContract("Token");
      },
      async function two() {
        return ethers.deployContract("Token");
      },
    ];
    for (const fixture of [...fixtures, ...fixtures]) {
      const token = await loadFixture(fixture);
      expect(await token.totalSupply()).to.equal(0);
      await token.mint(unused(), 1);
    }
  });

  it("time.increase", async () => {
    const { timestamp, number } = await head();
    const returned = await time.increase(time.duration.days(3));
    expect(returned).to.equal(await time.latest());
    expect(returned - timestamp).to.be.within(3 * 86_400, 3 * 86_400 + 30);
    expect(await time.latestBlock()).to.equal(number + 1);
  });

  it("time.increaseTo and a time lock", async () => {
    const [owner, other] = await ethers.getSigners();
    const unlock = (await time.latest()) + 365 * 86_400;
    const lock = await ethers.deployContract("Lock", [unlock], { value: 1_000_000_000 });
    await expect(lock.withdraw()).to.be.revertedWith("You can't withdraw yet");
    await time.increaseTo(unlock);
    expect(await time.latest()).to.equal(unlock);
    await expect(lock.connect(other).withdraw()).to.be.revertedWith("You aren't the owner");
    await expect(lock.withdraw()).to.changeEtherBalances(
      [owner, lock],
      [1_000_000_000, -1_000_000_000],
    );
  });

  it("time.setNextBlockTimestamp is the time of a transaction", async () => {
    const at = (await time.latest()) + 1000;
    const lock = await ethers.deployContract("Lock", [at], { value: 3 });
    await time.setNextBlockTimestamp(at + 5);
    // The estimate of ethers is made in the next block.
    await expect(lock.withdraw()).to.emit(lock, "Withdrawal").withArgs(3, at + 5);
  });

  it("mine and mineUpTo", async () => {
    const { number, timestamp } = await head();
    await helpers.mine();
    expect(await time.latestBlock()).to.equal(number + 1);
    await helpers.mine(1000, { interval: 15 });
    expect(await time.latestBlock()).to.equal(number + 1001);
    expect((await time.latest()) - timestamp).to.be.at.least(999 * 15);
    await helpers.mineUpTo(number + 1010);
    expect(await time.latestBlock()).to.equal(number + 1010);
  });

  it("setBalance", async () => {
    const address = unused();
    await helpers.setBalance(address, 100n ** 18n);
    expect(await ethers.provider.getBalance(address)).to.equal(100n ** 18n);
  });

  it("setCode, setNonce, setStorageAt and getStorageAt", async () => {
    const address = unused();
    await helpers.setCode(address, CODE);
    expect(await ethers.provider.getCode(address)).to.equal(CODE);
    expect(await ethers.provider.call({ to: address })).to.equal(ethers.toBeHex(42, 32));
    await helpers.setNonce(address, 5);
    expect(await ethers.provider.getTransactionCount(address)).to.equal(5);
    await helpers.setStorageAt(address, 3, 77);
    expect(await helpers.getStorageAt(address, 3)).to.equal(ethers.toBeHex(77, 32));
  });

  it("a token balance is set through its storage slot", async () => {
    const token = await ethers.deployContract("Token");
    const address = unused();
    const coder = ethers.AbiCoder.defaultAbiCoder();
    const slot = ethers.keccak256(coder.encode(["address", "uint256"], [address, 1]));
    await helpers.setStorageAt(await token.getAddress(), slot, 123);
    expect(await token.balanceOf(address)).to.equal(123);
  });

  it("impersonateAccount", async () => {
    const [owner] = await ethers.getSigners();
    const address = unused();
    await helpers.setBalance(address, ethers.parseEther("1"));
    await helpers.impersonateAccount(address);
    const signer = await ethers.getSigner(address);
    await expect(signer.sendTransaction({ to: owner, value: 1 })).to.changeEtherBalance(owner, 1);
    await helpers.stopImpersonatingAccount(address);
    await expect(signer.sendTransaction({ to: owner, value: 1 })).to.be.rejected;
  });

  it("getImpersonatedSigner, also of a contract", async () => {
    const token = await ethers.deployContract("Token");
    const contract = await ethers.deployContract("Token");
    await token.mint(contract, 8);
    await helpers.setBalance(await contract.getAddress(), ethers.parseEther("1"));
    const signer = await ethers.getImpersonatedSigner(await contract.getAddress());
    const [owner] = await ethers.getSigners();
    await expect(token.connect(signer).transfer(owner, 8)).to.changeTokenBalances(
      token,
      [contract, owner],
      [-8, 8],
    );
  });

  it("takeSnapshot and restore, more than once", async () => {
    const token = await ethers.deployContract("Token");
    const [owner] = await ethers.getSigners();
    const snapshot = await helpers.takeSnapshot();
    const { number } = await head();
    for (let round = 0; round < 3; round += 1) {
      await (await token.mint(owner, 1)).wait();
      expect(await token.totalSupply()).to.equal(1);
      await snapshot.restore();
      expect(await token.totalSupply()).to.equal(0);
      expect((await head()).number).to.equal(number);
    }
  });

  it("setNextBlockBaseFeePerGas", async () => {
    await helpers.setNextBlockBaseFeePerGas(7_000_000_000);
    await helpers.mine();
    expect((await head()).baseFeePerGas).to.equal(7_000_000_000);
  });

  it("setCoinbase", async () => {
    const address = unused();
    await helpers.setCoinbase(address);
    await helpers.mine();
    expect((await head()).miner).to.equal(address);
  });

  it("setPrevRandao", async () => {
    const lock = await ethers.deployContract("Lock", [(await time.latest()) + 1000]);
    await helpers.setPrevRandao(9);
    await helpers.mine();
    expect(await lock.random()).to.equal(9);
  });

  it("dropTransaction", async () => {
    const [owner] = await ethers.getSigners();
    await ethers.provider.send("evm_setAutomine", [false]);
    try {
      const nonce = await owner.getNonce();
      const tx = { from: owner.address, to: unused(), value: "0x1" };
      const hash = await ethers.provider.send("eth_sendTransaction", [tx]);
      expect(await owner.getNonce("pending")).to.equal(nonce + 1);
      await helpers.dropTransaction(hash);
      await helpers.mine();
      expect(await ethers.provider.getTransactionReceipt(hash)).to.equal(null);
    } finally {
      await ethers.provider.send("evm_setAutomine", [true]);
    }
  });

  it("several transactions in one block", async () => {
    const [owner] = await ethers.getSigners();
    await ethers.provider.send("evm_setAutomine", [false]);
    try {
      const nonce = await owner.getNonce();
      const send = (offset) =>
        owner.sendTransaction({ to: unused(), value: 1, nonce: nonce + offset, gasLimit: 21_000 });
      const txs = [await send(0), await send(1), await send(2)];
      await helpers.mine();
      const receipts = await Promise.all(txs.map((tx) => tx.wait()));
      expect(new Set(receipts.map((receipt) => receipt.blockNumber)).size).to.equal(1);
    } finally {
      await ethers.provider.send("evm_setAutomine", [true]);
    }
  });
});

describe("reset", () => {
  it("returns to a new chain", async () => {
    await helpers.mine(70);
    await helpers.reset();
    expect(await time.latestBlock()).to.equal(0);
    const [owner] = await ethers.getSigners();
    expect(await owner.getNonce()).to.equal(0);
    const token = await ethers.deployContract("Token");
    expect(await token.owner()).to.equal(owner.address);
  });
});
