// A wallet's and an explorer's day with ethers. Arguments: HTTP, WebSocket, private key, init code.
const assert = require("node:assert");
const { Contract, ContractFactory, JsonRpcProvider, Wallet, WebSocketProvider } = require("ethers");

async function main([url, ws, key, code]) {
  const provider = new JsonRpcProvider(url, undefined, { polling: true, pollingInterval: 20, cacheTimeout: -1 });
  const pushed = new WebSocketProvider(ws);
  const wallet = new Wallet(key, provider);
  const abi = ["event Stored(uint256 value)", "function fail()"];

  const heads = [];
  await pushed.on("block", (number) => heads.push(number));
  assert((await provider.getBalance(wallet.address)) > 0n);
  const fees = await provider.getFeeData();
  assert(fees.maxFeePerGas >= fees.maxPriorityFeePerGas);

  const deployed = await new ContractFactory(abi, code, wallet).deploy();
  await deployed.waitForDeployment();
  const address = await deployed.getAddress();
  const contract = new Contract(address, abi, wallet);

  const heard = [];
  await new Contract(address, abi, pushed).on("Stored", (value) => heard.push(value));
  const gasLimit = await provider.estimateGas({ from: wallet.address, to: address });
  const receipt = await (await wallet.sendTransaction({ to: address, gasLimit })).wait();
  assert.equal(receipt.status, 1);
  assert.equal(contract.interface.parseLog(receipt.logs[0]).args.value, 42n);
  const logs = await contract.queryFilter("Stored", receipt.blockNumber, receipt.blockNumber);
  assert.equal(logs.length, 1);
  assert.equal(BigInt(await provider.getStorage(address, 0)), 1n);

  const failed = await contract.fail.staticCall().then(() => null, (error) => error);
  assert.equal(failed.reason, "nope");

  const block = await provider.getBlock(receipt.blockNumber, true);
  assert(block.prefetchedTransactions.some((each) => each.hash === receipt.hash));
  const answered = await provider.send("eth_getBlockReceipts", [receipt.blockHash]);
  assert(answered.some((each) => each.transactionHash === receipt.hash));
  while (heads.length < 3 || heard.length < 1) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  assert.equal(heard[0], 42n);
  console.log("ok");
  process.exit(0);
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
