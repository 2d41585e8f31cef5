// The accounts of the node as signers of ethers. Argument: the HTTP address of a development node.
const assert = require("node:assert");
const { test } = require("node:test");
const { Contract, ContractFactory, JsonRpcProvider, parseEther, verifyMessage, verifyTypedData } =
  require("ethers");
const { abi, bytecode } = require("./token.cjs");

// Without the cache, which answers the same request of the last 250 ms.
const provider = new JsonRpcProvider(process.argv[2], undefined, { cacheTimeout: -1 });
provider.pollingInterval = 20;
let signer, other, token;

test("signers are the accounts of the node", async () => {
  signer = await provider.getSigner(0);
  other = await provider.getSigner(1);
  const accounts = await provider.listAccounts();
  assert.equal(accounts.length, 10);
  assert.equal(accounts[0].address, signer.address);
  assert.equal((await provider.getSigner(accounts[9].address)).address, accounts[9].address);
  assert((await provider.getBalance(signer)) > parseEther("9000"));
});

test("sendTransaction", async () => {
  const before = await provider.getBalance(other);
  const sent = await signer.sendTransaction({ to: other, value: 5 });
  assert.equal(sent.type, 2);
  const receipt = await sent.wait();
  assert.deepEqual([receipt.status, receipt.from], [1, signer.address]);
  assert.equal(await provider.getBalance(other), before + 5n);
});

test("sendTransaction with the fields of each type", async () => {
  const price = (await provider.getFeeData()).gasPrice;
  const fields = [
    { type: 0, gasPrice: price },
    { type: 1, gasPrice: price, accessList: [] },
    { type: 2, maxFeePerGas: 2n * price, maxPriorityFeePerGas: 1n },
  ];
  for (const each of fields) {
    const tx = { to: other, value: 1, gasLimit: 21_000, nonce: await signer.getNonce(), ...each };
    const sent = await signer.sendTransaction(tx);
    assert.equal((await sent.wait()).type, each.type);
  }
});

test("transactions that are sent at the same time", async () => {
  const before = await signer.getNonce();
  const sent = await Promise.all(
    Array.from({ length: 10 }, () => signer.sendTransaction({ to: other, value: 1 })),
  );
  await Promise.all(sent.map((tx) => tx.wait()));
  assert.equal(await signer.getNonce(), before + 10);
});

test("signMessage", async () => {
  for (const message of ["text", new Uint8Array([0, 1, 255])]) {
    assert.equal(verifyMessage(message, await signer.signMessage(message)), signer.address);
  }
});

test("signTypedData", async () => {
  const domain = { name: "test", version: "1", chainId: 262144, verifyingContract: other.address };
  const types = {
    Person: [{ name: "name", type: "string" }, { name: "wallet", type: "address" }],
    Mail: [{ name: "from", type: "Person" }, { name: "amounts", type: "uint256[]" }],
  };
  const value = { from: { name: "a", wallet: signer.address }, amounts: [1, 2n ** 200n] };
  const signature = await signer.signTypedData(domain, types, value);
  assert.equal(verifyTypedData(domain, types, value, signature), signer.address);
});

test("a contract is deployed and used", async () => {
  token = await new ContractFactory(abi, bytecode, signer).deploy();
  await token.waitForDeployment();
  await (await token.mint(signer, 100)).wait();
  const receipt = await (await token.transfer(other, 30)).wait();
  assert.deepEqual(receipt.logs[0].args.toArray(), [signer.address, other.address, 30n]);
  assert.equal(await token.balanceOf(other), 30n);
  assert.equal(await new Contract(token.target, abi, other).balanceOf(signer), 70n);
  const found = await token.queryFilter(token.filters.Transfer(null, other), receipt.blockNumber);
  assert.equal(found.length, 1);
});

test("errors are decoded", async () => {
  const isDecoded = (error) => {
    assert.equal(error.code, "CALL_EXCEPTION");
    const { name, args } = token.interface.parseError(error.data);
    assert.equal(name, "ERC20InsufficientBalance");
    assert.deepEqual(args.toArray(), [signer.address, 70n, 1000n]);
    return true;
  };
  await assert.rejects(token.transfer(other, 1000), isDecoded);
  await assert.rejects(token.transfer.staticCall(other, 1000), isDecoded);
  await assert.rejects(token.transfer.estimateGas(other, 1000), isDecoded);
  const sent = await token.transfer(other, 1000, { gasLimit: 100_000 });
  await assert.rejects(sent.wait(), (error) => error.receipt.status === 0);
  await assert.rejects(signer.sendTransaction({ to: other, value: parseEther("1000000") }), {
    code: "INSUFFICIENT_FUNDS",
  });
});

test("a listener receives events", { timeout: 60_000 }, async () => {
  const received = new Promise((resolve) => {
    token.on("Transfer", (from, to, value) => resolve(value));
  });
  // A listener begins at the block in which it is added.
  await provider.getBlockNumber();
  await (await token.transfer(other, 2)).wait();
  assert.equal(await received, 2n);
  await token.removeAllListeners();
});
