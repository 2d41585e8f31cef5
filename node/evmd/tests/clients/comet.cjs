// cosmjs's StargateClient against a node's RPC of CometBFT: a MsgSend signed by an eth_secp256k1 key.
// Arguments: RPC URL, private key in hex, receiver.
const { SigningStargateClient, StargateClient } = require("@cosmjs/stargate");
const { Comet38Client, HttpBatchClient } = require("@cosmjs/tendermint-rpc");
const { DirectEthSecp256k1Wallet, Registry, encodePubkey, makeAuthInfoBytes, makeSignDoc } =
  require("@cosmjs/proto-signing");
const { fromBase64, fromHex, toHex } = require("@cosmjs/encoding");
const { encodeEthSecp256k1Pubkey } = require("@cosmjs/amino");
const { sha256 } = require("@cosmjs/crypto");
const { MsgSend } = require("cosmjs-types/cosmos/bank/v1beta1/tx");
const { TxRaw } = require("cosmjs-types/cosmos/tx/v1beta1/tx");

const [rpc, key, to] = process.argv.slice(2);
const DENOM = "atest";
const POLL_MS = 20;

function check(holds, found) {
  if (!holds) throw new Error(JSON.stringify(found, (_, v) => (typeof v === "bigint" ? `${v}` : v)));
}

function firstOf(stream) {
  return new Promise((next, error) => stream.addListener({ next, error, complete: error }));
}

async function signedSend(client, wallet, memo) {
  const [{ address, pubkey }] = await wallet.getAccounts();
  const { accountNumber, sequence } = await client.getSequence(address);
  const body = new Registry([["/cosmos.bank.v1beta1.MsgSend", MsgSend]]).encodeTxBody({
    messages: [
      {
        typeUrl: "/cosmos.bank.v1beta1.MsgSend",
        value: { fromAddress: address, toAddress: to, amount: [{ denom: DENOM, amount: "7" }] },
      },
    ],
    memo,
  });
  const gas = 100_000;
  const fee = [{ denom: DENOM, amount: (BigInt(gas) * 100_000_000_000n).toString() }];
  const signer = encodePubkey(encodeEthSecp256k1Pubkey(pubkey));
  const auth = makeAuthInfoBytes([{ pubkey: signer, sequence }], fee, gas);
  const doc = makeSignDoc(body, auth, await client.getChainId(), accountNumber);
  const { signature } = await wallet.signDirect(address, doc);
  const signatures = [fromBase64(signature.signature)];
  return TxRaw.encode({ bodyBytes: body, authInfoBytes: auth, signatures }).finish();
}

(async () => {
  const client = await StargateClient.connect(rpc);
  const comet = client.getCometClient();
  check(comet instanceof Comet38Client, "not the client of 0.38");
  const wallet = await DirectEthSecp256k1Wallet.fromKey(fromHex(key.replace("0x", "")), "cosmos");
  const [{ address }] = await wallet.getAccounts();
  check((await client.getAccount(to)) === null, "an account that is not there");
  const before = BigInt((await client.getBalance(address, DENOM)).amount);
  const fresh = await client.getAccount(address);
  check(fresh.address === address && fresh.sequence === 0, fresh);

  // Its simulation names a key of another type, whatever the wallet's is.
  const signing = await SigningStargateClient.connectWithSigner(rpc, wallet);
  const send = { fromAddress: address, toAddress: to, amount: [{ denom: DENOM, amount: "7" }] };
  const message = { typeUrl: "/cosmos.bank.v1beta1.MsgSend", value: send };
  check((await signing.simulate(address, [message], "")) > 21_000, "gas of a simulation");

  const raw = await signedSend(client, wallet, "from cosmjs");
  const hash = toHex(sha256(raw)).toUpperCase();
  const sent = await client.broadcastTx(raw, 60_000, POLL_MS);
  check(sent.code === 0 && sent.transactionHash === hash && sent.height > 0, sent);
  const moved = sent.events.filter((event) => event.type === "transfer");
  check(moved.some(({ attributes }) => attributes.some((a) => a.value === `7${DENOM}`)), moved);
  const after = BigInt((await client.getBalance(address, DENOM)).amount);
  check((await client.getBalance(to, DENOM)).amount === "7" && after < before - 7n, after);
  check((await client.getAccount(address)).sequence === 1, "sequence");
  check((await client.getHeight()) >= sent.height, "height");

  const found = await client.getTx(hash);
  check(toHex(found.tx) === toHex(raw) && found.height === sent.height, found);
  check((await client.getTx("00".repeat(32))) === null, "a transaction that is not there");
  for (const query of [
    [{ key: "message.sender", value: address }],
    `transfer.recipient='${to}' AND tx.height>=${sent.height}`,
  ]) {
    const list = await client.searchTx(query);
    check(list.length === 1 && list[0].hash === hash && list[0].gasUsed === sent.gasUsed, list);
  }
  const block = await client.getBlock(sent.height);
  check(block.header.height === sent.height, block.header);
  check(toHex(block.txs[sent.txIndex]) === toHex(raw), block);

  // The same again is refused: its sequence is used.
  const again = await client.broadcastTx(raw, 60_000, POLL_MS).catch((error) => error);
  check(again.codespace === "sdk" && again.code === 32, again);
  const next = await signedSend(client, wallet, "and waited for");
  const socket = await Comet38Client.connect(rpc.replace("http", "ws"));
  const toldTx = firstOf(socket.subscribeTx(`transfer.recipient='${to}'`));
  const toldBlock = firstOf(socket.subscribeNewBlock());
  // Calls are answered in order, so both subscriptions are there.
  check((await socket.health()) === null, "health over the socket");
  const committed = await comet.broadcastTxCommit({ tx: next });
  check(committed.height > sent.height && committed.txResult.code === 0, committed);
  const event = await toldTx;
  check(event.height === committed.height && toHex(event.tx) === toHex(next), event);
  const { header } = await toldBlock;
  check(header.height > sent.height && header.height <= committed.height, header);
  socket.disconnect();
  const one = await comet.tx({ hash: committed.hash });
  check(one.height === committed.height && toHex(one.tx) === toHex(next), one);

  // What has not been read yet is read; a batch, too.
  const { height } = sent;
  const { results } = await comet.blockResults(height);
  check(results[sent.txIndex].gasUsed === sent.gasUsed, results);
  const { commit } = await comet.commit(height);
  check(toHex(commit.blockId.hash).toUpperCase() === block.id && !commit.signatures.length, commit);
  const { validators } = await comet.validatorsAll(height);
  check(validators.length === 1 && validators[0].votingPower === 1n, validators);
  const { blockMetas } = await comet.blockchain(height, height);
  check(blockMetas.length === 1 && blockMetas[0].header.height === height, blockMetas);
  const genesis = await comet.genesis();
  check(genesis.chainId === (await client.getChainId()), genesis);
  check((await comet.abciInfo()).data === "evmd", "abci_info");
  check((await comet.health()) === null, "health");
  check((await comet.numUnconfirmedTxs()).total >= 0, "num_unconfirmed_txs");
  const batching = Comet38Client.create(new HttpBatchClient(rpc));
  const both = await Promise.all([batching.status(), batching.block(height)]);
  check(both[0].nodeInfo.version.startsWith("0.38.") && both[1].block.txs.length, both);
  client.disconnect();
  console.log(JSON.stringify({ hashes: [hash, toHex(committed.hash).toUpperCase()] }));
  process.exit(0);
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
