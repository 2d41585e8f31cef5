// web3.js with the accounts of the node. These are also the calls of the web3.js suite of cosmos/evm
// (tests/evm-tools-compatibility/web3.js), which has version 1 of the library. Arguments: HTTP and WebSocket addresses
// of a development node.
const assert = require("node:assert");
const { test } = require("node:test");
const { Web3 } = require("web3");
const { abi, bytecode } = require("./token.cjs");

const [url, ws] = process.argv.slice(2);
const web3 = new Web3(url);
const gas = 5_000_000;
let accounts, token;

test("chain id, network id and accounts", async () => {
  assert.equal(await web3.eth.getChainId(), 262144n);
  assert.equal(await web3.eth.net.getId(), 262144n);
  accounts = await web3.eth.getAccounts();
  assert.equal(accounts.length, 10);
  assert((await web3.eth.getBalance(accounts[0])) > 0n);
  assert.equal(await web3.eth.net.isListening(), true);
  assert.match(await web3.eth.getNodeInfo(), /\//);
});

test("a contract is deployed", async () => {
  const deployment = new web3.eth.Contract(abi).deploy({ data: bytecode });
  token = await deployment.send({ from: accounts[0], gas: String(gas) });
  assert.equal(await token.methods.name().call(), "Example");
  assert.notEqual(await web3.eth.getCode(token.options.address), "0x");
});

test("tokens are minted and transferred", async () => {
  const minted = await token.methods.mint(accounts[0], 1000).send({ from: accounts[0], gas });
  const receipt = await web3.eth.getTransactionReceipt(minted.transactionHash);
  assert.equal(receipt.status, 1n);
  assert.equal(await token.methods.balanceOf(accounts[0]).call(), 1000n);
  // Without a gas limit: it is estimated.
  const moved = await token.methods.transfer(accounts[1], 10).send({ from: accounts[0] });
  assert.equal(moved.events.Transfer.returnValues.value, 10n);
  const fromBlock = moved.blockNumber - 1n;
  const events = await token.getPastEvents("Transfer", { fromBlock, toBlock: moved.blockNumber });
  assert(events.some((event) => event.transactionHash === moved.transactionHash));
});

test("errors", async () => {
  const transfer = token.methods.transfer(accounts[1], 10n ** 18n);
  await assert.rejects(transfer.send({ from: accounts[0], gas }), /revert/);
  await assert.rejects(transfer.call({ from: accounts[0] }), (error) => {
    assert.equal(error.cause.errorName ?? error.innerError.errorName, "ERC20InsufficientBalance");
    return true;
  });
});

test("transactions of the node and of a wallet", async () => {
  const fields = { to: accounts[1], value: 5n };
  const sent = await web3.eth.sendTransaction({ from: accounts[0], ...fields });
  assert.equal(sent.status, 1n);
  const key = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d";
  const [account] = web3.eth.accounts.wallet.add(key);
  assert.equal(account.address.toLowerCase(), accounts[1].toLowerCase());
  const signed = await web3.eth.sendTransaction({ from: account.address, to: accounts[0], value: 5n });
  assert.equal(signed.status, 1n);
  web3.eth.accounts.wallet.clear();
});

test("signatures of the node", async () => {
  const signature = await web3.eth.sign(web3.utils.utf8ToHex("text"), accounts[0]);
  const signer = web3.eth.accounts.recover("text", signature);
  assert.equal(signer.toLowerCase(), accounts[0].toLowerCase());
});

test("blocks, fees, proofs and batches", async () => {
  const block = await web3.eth.getBlock("latest", true);
  assert(block.transactions.length > 0);
  const history = await web3.eth.getFeeHistory(4, "latest", [50]);
  assert.equal(history.baseFeePerGas.length, history.gasUsedRatio.length + 1);
  const proof = await web3.eth.getProof(token.options.address, [web3.utils.padLeft("0x0", 64)], "latest");
  assert.equal(proof.storageProof[0].value, 1000n);
  const batch = new web3.BatchRequest();
  const number = batch.add({ method: "eth_blockNumber", params: [] });
  const id = batch.add({ method: "eth_chainId", params: [] });
  await batch.execute();
  assert.equal((await number).result ?? (await number), web3.utils.toHex(block.number));
  assert.equal((await id).result ?? (await id), "0x40000");
});

test("subscriptions", { timeout: 60_000 }, async () => {
  const socket = new Web3(ws);
  const heads = [];
  const logs = [];
  const blocks = await socket.eth.subscribe("newBlockHeaders");
  blocks.on("data", (head) => heads.push(head.number));
  const events = await socket.eth.subscribe("logs", { address: token.options.address });
  events.on("data", (log) => logs.push(log.transactionHash));
  const hashes = [];
  for (let each = 0; each < 3; each += 1) {
    const moved = await token.methods.transfer(accounts[2], 1).send({ from: accounts[0] });
    hashes.push(moved.transactionHash);
  }
  while (heads.length < 3 || logs.length < 3) await new Promise((next) => setTimeout(next, 20));
  assert.deepEqual(logs, hashes);
  assert.equal(heads[2], heads[0] + 2n);
  await socket.eth.clearSubscriptions();
  socket.provider.disconnect();
});
