// The token of the Hardhat project, compiled with the package `solc`: `{ abi, bytecode }`.
const fs = require("node:fs");
const path = require("node:path");
const solc = require("solc");

const file = path.join(__dirname, "hardhat", "contracts", "Token.sol");
const input = {
  language: "Solidity",
  sources: { "Token.sol": { content: fs.readFileSync(file, "utf8") } },
  settings: { outputSelection: { "*": { "*": ["abi", "evm.bytecode.object"] } } },
};
const output = JSON.parse(solc.compile(JSON.stringify(input)));
const errors = (output.errors ?? []).filter((error) => error.severity === "error");
if (errors.length > 0) throw new Error(errors.map((error) => error.formattedMessage).join("\n"));
const { abi, evm } = output.contracts["Token.sol"].Token;

module.exports = { abi, bytecode: `0x${evm.bytecode.object}` };
