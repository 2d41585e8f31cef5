// Uniswap V3 from the artifacts of its packages: large contracts that depend on each other, and a library. These are the
// calls of the suites of cosmos/evm for Uniswap, and a swap.
const { expect } = require("chai");
const { ethers } = require("hardhat");

const CORE = "@uniswap/v3-core/artifacts/contracts";
const PERIPHERY = "@uniswap/v3-periphery/artifacts/contracts";
const factoryArtifact = require(`${CORE}/UniswapV3Factory.sol/UniswapV3Factory.json`);
const poolArtifact = require(`${CORE}/UniswapV3Pool.sol/UniswapV3Pool.json`);
const routerArtifact = require(`${PERIPHERY}/SwapRouter.sol/SwapRouter.json`);
const libraryArtifact = require(`${PERIPHERY}/libraries/NFTDescriptor.sol/NFTDescriptor.json`);
const descriptorArtifact = require(
  `${PERIPHERY}/NonfungibleTokenPositionDescriptor.sol/NonfungibleTokenPositionDescriptor.json`,
);
const managerArtifact = require(
  `${PERIPHERY}/NonfungiblePositionManager.sol/NonfungiblePositionManager.json`,
);

const FEE = 3000;
const DEADLINE = 2n ** 64n;

async function deploy(artifact, args, libraries) {
  const factory = await ethers.getContractFactoryFromArtifact(artifact, { libraries });
  const contract = await factory.deploy(...args);
  return contract.waitForDeployment();
}

describe("Uniswap V3", () => {
  let owner, tokens, factory, router, manager;
  before(async () => {
    [owner] = await ethers.getSigners();
    tokens = [await ethers.deployContract("Token"), await ethers.deployContract("Token")];
    tokens.sort((a, b) => (BigInt(a.target) < BigInt(b.target) ? -1 : 1));
    const wrapped = tokens[0].target;
    factory = await deploy(factoryArtifact, []);
    const library = await deploy(libraryArtifact, []);
    const label = ethers.encodeBytes32String("ETH");
    const libraries = { NFTDescriptor: library.target };
    const descriptor = await deploy(descriptorArtifact, [wrapped, label], libraries);
    manager = await deploy(managerArtifact, [factory.target, wrapped, descriptor.target]);
    router = await deploy(routerArtifact, [factory.target, wrapped]);
    for (const token of tokens) {
      await token.mint(owner, 10n ** 24n);
      await token.approve(manager, ethers.MaxUint256);
      await token.approve(router, ethers.MaxUint256);
    }
  });

  it("a pool is created, receives liquidity, and swaps", async () => {
    const pair = tokens.map((token) => token.target);
    const created = await factory.createPool(...pair, FEE);
    expect((await created.wait()).status).to.equal(1);
    const address = await factory.getPool(...pair, FEE);
    const pool = new ethers.Contract(address, poolArtifact.abi, owner);
    await (await pool.initialize(2n ** 96n)).wait();

    const minted = await manager.mint({
      token0: pair[0],
      token1: pair[1],
      fee: FEE,
      tickLower: -60_000,
      tickUpper: 60_000,
      amount0Desired: 10n ** 21n,
      amount1Desired: 10n ** 21n,
      amount0Min: 0,
      amount1Min: 0,
      recipient: owner.address,
      deadline: DEADLINE,
    });
    expect((await minted.wait()).status).to.equal(1);
    expect(await manager.ownerOf(1)).to.equal(owner.address);
    expect(await pool.liquidity()).to.be.greaterThan(0n);

    const swap = router.exactInputSingle({
      tokenIn: pair[0],
      tokenOut: pair[1],
      fee: FEE,
      recipient: owner.address,
      deadline: DEADLINE,
      amountIn: 10n ** 18n,
      amountOutMinimum: 1,
      sqrtPriceLimitX96: 0,
    });
    await expect(swap).to.changeTokenBalance(tokens[0], owner, -(10n ** 18n));
    expect((await pool.slot0()).tick).to.be.lessThan(0);
  });
});
