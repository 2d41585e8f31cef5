const { ethers } = require("hardhat");

async function main() {
  const token = await ethers.deployContract("Token");
  await token.waitForDeployment();
  console.log("Token deployed to:", await token.getAddress());
  if ((await token.symbol()) !== "EXP") throw new Error("the token has another symbol");
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
