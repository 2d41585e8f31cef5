// The calls of the Hardhat and ethers suites of cosmos/evm (tests/evm-tools-compatibility/hardhat).
const { expect } = require("chai");
const { ethers } = require("hardhat");

describe("compatibility", () => {
  let owner, other, third, token;
  beforeEach(async () => {
    [owner, other, third] = await ethers.getSigners();
    token = await ethers.deployContract("Token");
    await token.waitForDeployment();
  });

  it("accounts of the node", async () => {
    const signers = await ethers.getSigners();
    expect(signers.length).to.equal(10);
    expect(await ethers.provider.getBalance(owner)).to.be.a("bigint").that.is.greaterThan(0n);
  });

  it("a deployed contract is read", async () => {
    expect(await token.name()).to.equal("Example");
    expect(await token.symbol()).to.equal("EXP");
    expect(await token.owner()).to.equal(owner.address);
  });

  it("tokens are minted and transferred", async () => {
    const minted = await (await token.mint(owner, ethers.parseEther("1000000"))).wait();
    expect(minted.status).to.equal(1);
    expect(await token.balanceOf(owner)).to.equal(await token.totalSupply());
    const moved = await (await token.transfer(third, 500)).wait();
    expect(moved.status).to.equal(1);
    expect(await token.balanceOf(third)).to.equal(500);
  });

  it("transactions that fail", async () => {
    await expect(token.connect(other).transfer(third, 99_999)).to.be.reverted;
    await expect(token.connect(other).mint(other, 1)).to.be.reverted;
  });

  it("ether is sent between signers", async () => {
    const sent = await owner.sendTransaction({ to: other, value: ethers.parseEther("1.0") });
    expect((await sent.wait()).status).to.equal(1);
  });

  it("gas is estimated", async () => {
    expect(await token.mint.estimateGas(other, 500)).to.be.a("bigint");
  });

  it("a listener receives an event", async () => {
    ethers.provider.pollingInterval = 50;
    const received = new Promise((resolve) => {
      token.once("Transfer", (from, to, value) => resolve([from, to, value]));
    });
    // The listener exists at the node only after its first request.
    await token.listenerCount("Transfer");
    await (await token.mint(other, 77)).wait();
    expect(await received).to.deep.equal([ethers.ZeroAddress, other.address, 77n]);
  });

  it("a log is decoded and found again", async () => {
    const receipt = await (await token.mint(other, 42)).wait();
    const parsed = token.interface.parseLog(receipt.logs[0]);
    expect([parsed.name, parsed.args.value]).to.deep.equal(["Transfer", 42n]);
    const filter = token.filters.Transfer(ethers.ZeroAddress, other.address);
    const found = await token.queryFilter(filter, receipt.blockNumber, receipt.blockNumber);
    expect(found.map((log) => log.args.value)).to.deep.equal([42n]);
  });

  it("signatures of the node", async () => {
    const signature = await owner.signMessage("text");
    expect(ethers.verifyMessage("text", signature)).to.equal(owner.address);
    const typed = [
      { name: "test", chainId: 262144 },
      { Mail: [{ name: "text", type: "string" }] },
      { text: "hello" },
    ];
    expect(ethers.verifyTypedData(...typed, await owner.signTypedData(...typed))).to.equal(
      owner.address,
    );
  });
});
