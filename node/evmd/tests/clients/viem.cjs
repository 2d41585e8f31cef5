// A wallet's and an explorer's day with viem. Arguments: HTTP, WebSocket, private key, init code.
const assert = require("node:assert");
const { createPublicClient, createWalletClient, defineChain, http, parseAbi, webSocket } = require("viem");
const { privateKeyToAccount } = require("viem/accounts");

async function main([url, ws, key, code]) {
  const probe = createPublicClient({ transport: http(url) });
  const chain = defineChain({
    id: await probe.getChainId(),
    name: "test",
    nativeCurrency: { name: "A", symbol: "A", decimals: 18 },
    rpcUrls: { default: { http: [url], webSocket: [ws] } },
  });
  const client = createPublicClient({ chain, transport: http(url), pollingInterval: 20 });
  const pushed = createPublicClient({ chain, transport: webSocket(ws) });
  const account = privateKeyToAccount(key);
  const wallet = createWalletClient({ account, chain, transport: http(url) });
  const abi = parseAbi(["event Stored(uint256 value)", "function fail()"]);

  const heads = [];
  const unwatch = pushed.watchBlocks({ onBlock: (block) => heads.push(block.number) });
  assert((await client.getBalance({ address: account.address })) > 0n);
  const history = await client.getFeeHistory({ blockCount: 4, rewardPercentiles: [25, 75] });
  assert.equal(history.baseFeePerGas.length, history.gasUsedRatio.length + 1);

  const deployment = await client.waitForTransactionReceipt({
    hash: await wallet.deployContract({ abi, bytecode: code }),
  });
  assert.equal(deployment.status, "success");
  const address = deployment.contractAddress;

  const filter = await client.createEventFilter({ address, event: abi[0] });
  const gas = await client.estimateGas({ account, to: address });
  const receipt = await client.waitForTransactionReceipt({
    hash: await wallet.sendTransaction({ to: address, gas }),
  });
  assert.equal(receipt.status, "success");
  const logs = await client.getContractEvents({ address, abi, fromBlock: receipt.blockNumber });
  assert.equal(logs[0].args.value, 42n);
  assert.equal(logs[0].transactionHash, receipt.transactionHash);
  const changes = await client.getFilterChanges({ filter });
  assert.equal(changes[0].args.value, 42n);
  assert.equal(BigInt(await client.getStorageAt({ address, slot: "0x0" })), 1n);

  // By the contracts that every chain is expected to have.
  const multicallAddress = "0xcA11bde05977b3631167028862bE2a173976CA11";
  const counters = parseAbi([
    "function getEthBalance(address) view returns (uint256)",
    "function getBlockNumber() view returns (uint256)",
  ]);
  const contract = { address: multicallAddress, abi: counters };
  const [balance, number] = await client.multicall({
    multicallAddress,
    allowFailure: false,
    contracts: [
      { ...contract, functionName: "getEthBalance", args: [account.address] },
      { ...contract, functionName: "getBlockNumber" },
    ],
  });
  assert(balance > 0n && number >= receipt.blockNumber);

  const failed = await client
    .simulateContract({ account, address, abi, functionName: "fail" })
    .then(() => null, (error) => error);
  assert.match(failed.message, /nope/);

  const transaction = await client.getTransaction({ hash: receipt.transactionHash });
  assert.equal(transaction.from.toLowerCase(), account.address.toLowerCase());
  const block = await client.getBlock({ blockHash: receipt.blockHash, includeTransactions: true });
  assert(block.transactions.some((each) => each.hash === receipt.transactionHash));
  while (heads.length < 3) await new Promise((resolve) => setTimeout(resolve, 20));
  unwatch();
  console.log("ok");
  process.exit(0);
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
