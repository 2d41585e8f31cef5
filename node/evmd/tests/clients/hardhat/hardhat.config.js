// The project runs against the node at RPC_URL. It signs nothing itself: the accounts are those of the node.
const { subtask } = require("hardhat/config");
const { TASK_COMPILE_SOLIDITY_GET_SOLC_BUILD } = require("hardhat/builtin-tasks/task-names");
require("@nomicfoundation/hardhat-chai-matchers");
require("@nomicfoundation/hardhat-ethers");

const compiler = require("solc/package.json").version;

// The compiler of the package `solc`. Hardhat would otherwise download one.
subtask(TASK_COMPILE_SOLIDITY_GET_SOLC_BUILD, async ({ solcVersion }) => ({
  compilerPath: require.resolve("solc/soljson.js"),
  isSolcJs: true,
  version: solcVersion,
  longVersion: require("solc").version(),
}));

module.exports = {
  solidity: { version: compiler, settings: { optimizer: { enabled: true } } },
  defaultNetwork: "node",
  networks: { node: { url: process.env.RPC_URL } },
  mocha: { timeout: 60_000 },
};
