// viem's test client in the modes of anvil and Hardhat, and its wallet and public clients with the accounts of the node.
// Argument: the HTTP address of a development node.
const assert = require("node:assert");
const { test } = require("node:test");
const {
  createTestClient,
  createWalletClient,
  defineChain,
  http,
  parseEther,
  publicActions,
  recoverMessageAddress,
  recoverTypedDataAddress,
  toHex,
  walletActions,
} = require("viem");
const { generatePrivateKey, privateKeyToAccount } = require("viem/accounts");
const { abi, bytecode } = require("./token.cjs");

const [url] = process.argv.slice(2);
const chain = defineChain({
  id: 262144,
  name: "development",
  nativeCurrency: { name: "A", symbol: "A", decimals: 18 },
  rpcUrls: { default: { http: [url] } },
});
const transport = http(url);
// Returns 42.
const CODE = "0x602a60005260206000f3";

const unused = () => privateKeyToAccount(generatePrivateKey()).address;

// The gas limit of a native chain is a parameter of its genesis. The others are refused by anvil and Hardhat too: they have
// no minimum gas price since EIP-1559, and `hardhat_setBlockTimestampInterval` exists nowhere. An entry must be removed
// when the action succeeds.
const REFUSED = {
  anvil: ["setBlockGasLimit", "setMinGasPrice"],
  hardhat: [
    "setBlockGasLimit",
    "setBlockTimestampInterval and removeBlockTimestampInterval",
    "setMinGasPrice",
  ],
};

for (const mode of ["anvil", "hardhat"]) {
  test(`test client, mode ${mode}`, async (context) => {
    const options = { mode, chain, transport, pollingInterval: 20, cacheTime: 0 };
    const client = createTestClient(options).extend(publicActions).extend(walletActions);
    const [account, other] = await client.getAddresses();
    const block = () => client.getBlock();
    const send = (fields) => client.sendTransaction({ account, to: other, value: 1n, ...fields });
    const action = (name, body) => {
      const expected = async () => {
        if (!REFUSED[mode].includes(name)) return body();
        await assert.rejects(body(), undefined, `remove ${name} from the list of refused actions`);
      };
      return context.test(name, expected);
    };

    await action("mine", async () => {
      const before = await block();
      await client.mine({ blocks: 3, interval: 10 });
      const after = await block();
      assert.equal(after.number, before.number + 3n);
      const previous = await client.getBlock({ blockNumber: after.number - 1n });
      assert.equal(after.timestamp - previous.timestamp, 10n);
      await client.mine({ blocks: 1 });
      assert.equal((await block()).number, after.number + 1n);
    });

    await action("setBalance", async () => {
      const address = unused();
      await client.setBalance({ address, value: parseEther("1234567") });
      assert.equal(await client.getBalance({ address }), parseEther("1234567"));
    });

    await action("setNonce", async () => {
      const address = unused();
      await client.setNonce({ address, nonce: 420 });
      assert.equal(await client.getTransactionCount({ address }), 420);
    });

    await action("setCode", async () => {
      const address = unused();
      await client.setCode({ address, bytecode: CODE });
      assert.equal(await client.getCode({ address }), CODE);
      assert.equal((await client.call({ to: address })).data, toHex(42, { size: 32 }));
    });

    await action("setStorageAt", async () => {
      const address = unused();
      const value = toHex(69420, { size: 32 });
      await client.setStorageAt({ address, index: 2, value });
      assert.equal(await client.getStorageAt({ address, slot: "0x2" }), value);
      const index = toHex(2n ** 255n, { size: 32 });
      await client.setStorageAt({ address, index, value });
      assert.equal(await client.getStorageAt({ address, slot: index }), value);
    });

    await action("impersonateAccount and stopImpersonatingAccount", async () => {
      const address = unused();
      await client.setBalance({ address, value: parseEther("1") });
      await client.impersonateAccount({ address });
      const hash = await send({ account: address });
      const receipt = await client.waitForTransactionReceipt({ hash });
      assert.deepEqual([receipt.status, receipt.from], ["success", address.toLowerCase()]);
      await client.stopImpersonatingAccount({ address });
      await assert.rejects(send({ account: address }));
    });

    await action("snapshot and revert", async () => {
      const { number } = await block();
      const balance = await client.getBalance({ address: other });
      const id = await client.snapshot();
      await send();
      await client.mine({ blocks: 5 });
      await client.revert({ id });
      assert.equal((await block()).number, number);
      assert.equal(await client.getBalance({ address: other }), balance);
    });

    await action("setNextBlockTimestamp", async () => {
      const timestamp = (await block()).timestamp + 1000n;
      await client.setNextBlockTimestamp({ timestamp });
      await client.mine({ blocks: 1 });
      assert.equal((await block()).timestamp, timestamp);
    });

    await action("increaseTime", async () => {
      const { timestamp } = await block();
      await client.increaseTime({ seconds: 5000 });
      await client.mine({ blocks: 1 });
      const passed = (await block()).timestamp - timestamp;
      assert(passed >= 5000n && passed < 5060n, String(passed));
    });

    await action("setBlockTimestampInterval and removeBlockTimestampInterval", async () => {
      await client.setBlockTimestampInterval({ interval: 77 });
      const { timestamp } = await block();
      await client.mine({ blocks: 1 });
      assert.equal((await block()).timestamp, timestamp + 77n);
      await client.removeBlockTimestampInterval();
    });

    await action("setNextBlockBaseFeePerGas", async () => {
      await client.setNextBlockBaseFeePerGas({ baseFeePerGas: 3_000_000_000n });
      await client.mine({ blocks: 1 });
      assert.equal((await block()).baseFeePerGas, 3_000_000_000n);
    });

    await action("setBlockGasLimit", async () => {
      const { gasLimit } = await block();
      await client.setBlockGasLimit({ gasLimit: 25_000_000n });
      await client.mine({ blocks: 1 });
      assert.equal((await block()).gasLimit, 25_000_000n);
      await client.setBlockGasLimit({ gasLimit });
    });

    await action("setMinGasPrice", () => client.setMinGasPrice({ gasPrice: 1_000_000n }));

    await action("setCoinbase", async () => {
      const { miner } = await block();
      const address = unused();
      await client.setCoinbase({ address });
      await client.mine({ blocks: 1 });
      assert.equal((await block()).miner, address.toLowerCase());
      await client.setCoinbase({ address: miner });
    });

    await action("getAutomine and setAutomine", async () => {
      assert.equal(await client.getAutomine(), true);
      await client.setAutomine(false);
      try {
        assert.equal(await client.getAutomine(), false);
        const { number } = await block();
        const hash = await send();
        assert.equal((await block()).number, number);
        await assert.rejects(client.getTransactionReceipt({ hash }));
        await client.mine({ blocks: 1 });
        assert.equal((await client.getTransactionReceipt({ hash })).status, "success");
      } finally {
        await client.setAutomine(true);
      }
      assert.equal(await client.getAutomine(), true);
    });

    await action("the pool and dropTransaction", async () => {
      await client.setAutomine(false);
      try {
        const hash = await send();
        assert.deepEqual(await client.getTxpoolStatus(), { pending: 1, queued: 0 });
        const { pending } = await client.getTxpoolContent();
        const content = Object.values(Object.values(pending)[0])[0];
        assert.equal(content.hash, hash);
        const inspected = Object.values(Object.values((await client.inspectTxpool()).pending)[0])[0];
        assert.match(inspected, /: 1 wei \+/);
        await client.dropTransaction({ hash });
        assert.deepEqual(await client.getTxpoolStatus(), { pending: 0, queued: 0 });
        await client.mine({ blocks: 1 });
        await assert.rejects(client.getTransactionReceipt({ hash }));
      } finally {
        await client.setAutomine(true);
      }
    });

    await action("setIntervalMining", async () => {
      const { number } = await block();
      // In the mode of Hardhat, viem sends milliseconds. This node reads seconds, as anvil does.
      await client.setIntervalMining({ interval: mode === "hardhat" ? 0.001 : 1 });
      try {
        const deadline = Date.now() + 20_000;
        while ((await block()).number < number + 2n) {
          assert(Date.now() < deadline, "no blocks within 20 s");
          await new Promise((next) => setTimeout(next, 50));
        }
      } finally {
        await client.setIntervalMining({ interval: 0 });
        await client.setAutomine(true);
      }
    });

    await action("dumpState and loadState", async () => {
      const address = unused();
      await client.setBalance({ address, value: 5n });
      await client.setCode({ address, bytecode: CODE });
      const state = await client.dumpState();
      await client.setBalance({ address, value: 6n });
      await client.loadState({ state });
      assert.equal(await client.getBalance({ address }), 5n);
      assert.equal(await client.getCode({ address }), CODE);
    });

    await action("sendUnsignedTransaction", async () => {
      const address = unused();
      await client.setBalance({ address, value: parseEther("1") });
      const { baseFeePerGas } = await block();
      const maxFeePerGas = 2n * baseFeePerGas;
      const hash = await client.sendUnsignedTransaction({
        from: address,
        to: other,
        value: 1000n,
        gas: 21_000n,
        maxFeePerGas,
      });
      const receipt = await client.waitForTransactionReceipt({ hash });
      assert.equal(receipt.from, address.toLowerCase());
    });

    await action("setLoggingEnabled", () => client.setLoggingEnabled(true));

    await action("reset", async () => {
      await client.mine({ blocks: 3 });
      await client.reset();
      assert.equal((await block()).number, 0n);
    });

    await action("the request for a reset without a fork", async () => {
      await client.mine({ blocks: 3 });
      await client.request({ method: `${mode}_reset`, params: [] });
      assert.equal((await block()).number, 0n);
    });
  });
}

test("contracts with an account of the node and with a key", async (context) => {
  const client = createTestClient({ mode: "anvil", chain, transport, pollingInterval: 20, cacheTime: 0 })
    .extend(publicActions);
  const byNode = createWalletClient({ chain, transport });
  const [address, other] = await byNode.getAddresses();
  const key = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
  const byKey = privateKeyToAccount(key);
  assert.equal(byKey.address, address);

  for (const account of [address, byKey]) {
    const name = typeof account === "string" ? "account of the node" : "key";
    // The calls of the viem suite of cosmos/evm (tests/evm-tools-compatibility/viem).
    await context.test(name, async () => {
      const wait = (hash) => client.waitForTransactionReceipt({ hash });
      const deployed = await wait(await byNode.deployContract({ account, abi, bytecode }));
      const token = { address: deployed.contractAddress, abi };
      const mint = { ...token, account, functionName: "mint", args: [address, 200n] };
      assert((await client.estimateContractGas(mint)) > 21_000n);
      const { request } = await client.simulateContract(mint);
      const hash = await byNode.writeContract(request);
      assert.equal((await wait(hash)).status, "success");
      assert.equal((await client.getTransaction({ hash })).hash, hash);
      const balanceOf = { ...token, functionName: "balanceOf", args: [address] };
      assert.equal(await client.readContract(balanceOf), 200n);

      const transfer = { ...token, account, functionName: "transfer" };
      const moved = await wait(await byNode.writeContract({ ...transfer, args: [other, 10n] }));
      const logs = await client.getContractEvents({
        ...token,
        eventName: "Transfer",
        fromBlock: moved.blockNumber - 1n,
        toBlock: moved.blockNumber,
      });
      assert(logs.some((log) => log.transactionHash === moved.transactionHash));

      const refused = client.simulateContract({ ...transfer, args: [other, 9_999_999n] });
      await assert.rejects(refused, (error) => {
        const { errorName, args } = error.walk((cause) => cause.data?.errorName).data;
        assert.equal(errorName, "ERC20InsufficientBalance");
        assert.deepEqual(args, [address, 190n, 9_999_999n]);
        return true;
      });
    });
  }

  await context.test("signatures of the node", async () => {
    const signature = await byNode.signMessage({ account: address, message: "text" });
    assert.equal(await recoverMessageAddress({ message: "text", signature }), address);
    const typed = {
      domain: { name: "test", chainId: chain.id },
      types: { Mail: [{ name: "text", type: "string" }] },
      primaryType: "Mail",
      message: { text: "hello" },
    };
    const typedSignature = await byNode.signTypedData({ account: address, ...typed });
    assert.equal(await recoverTypedDataAddress({ ...typed, signature: typedSignature }), address);
  });
});
