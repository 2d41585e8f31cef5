// cosmjs against a node's REST: a MsgSend signed by an eth_secp256k1 key.
// Arguments: REST URL, private key in hex, receiver.
const { DirectEthSecp256k1Wallet, Registry, encodePubkey, makeAuthInfoBytes, makeSignDoc } =
  require("@cosmjs/proto-signing");
const { fromBase64, fromHex, toBase64 } = require("@cosmjs/encoding");
const { encodeEthSecp256k1Pubkey } = require("@cosmjs/amino");
const { sha256 } = require("@cosmjs/crypto");
const { MsgSend } = require("cosmjs-types/cosmos/bank/v1beta1/tx");
const { TxRaw } = require("cosmjs-types/cosmos/tx/v1beta1/tx");

const [rest, key, to] = process.argv.slice(2);

async function get(path) {
  const answer = await fetch(rest + path);
  return { status: answer.status, ...(await answer.json()) };
}

async function post(path, body) {
  const answer = await fetch(rest + path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return answer.json();
}

(async () => {
  const wallet = await DirectEthSecp256k1Wallet.fromKey(fromHex(key.replace("0x", "")), "cosmos");
  const [{ address, pubkey }] = await wallet.getAccounts();
  const { default_node_info } = await get("/cosmos/base/tendermint/v1beta1/node_info");
  const registry = new Registry([["/cosmos.bank.v1beta1.MsgSend", MsgSend]]);
  const hashes = [];
  for (let round = 0; round < 2; round++) {
    const { info } = await get(`/cosmos/auth/v1beta1/account_info/${address}`);
    if (BigInt(info.sequence) !== BigInt(round)) throw new Error(`sequence ${info.sequence}`);
    const body = registry.encodeTxBody({
      messages: [
        {
          typeUrl: "/cosmos.bank.v1beta1.MsgSend",
          value: { fromAddress: address, toAddress: to, amount: [{ denom: "atest", amount: "7" }] },
        },
      ],
      memo: "from cosmjs",
    });
    const gas = 100_000;
    const fee = [{ denom: "atest", amount: (BigInt(gas) * 100_000_000_000n).toString() }];
    const signer = encodePubkey(encodeEthSecp256k1Pubkey(pubkey));
    const auth = makeAuthInfoBytes([{ pubkey: signer, sequence: Number(info.sequence) }], fee, gas);
    const empty = TxRaw.encode(
      TxRaw.fromPartial({ bodyBytes: body, authInfoBytes: auth, signatures: [new Uint8Array()] }),
    ).finish();
    const simulated = await post("/cosmos/tx/v1beta1/simulate", { tx_bytes: toBase64(empty) });
    const used = Number(simulated.gas_info.gas_used);
    if (!(used > 40_000 && used < gas)) throw new Error(JSON.stringify(simulated));
    const doc = makeSignDoc(body, auth, default_node_info.network, Number(info.account_number));
    const { signature } = await wallet.signDirect(address, doc);
    const raw = TxRaw.encode({
      bodyBytes: body,
      authInfoBytes: auth,
      signatures: [fromBase64(signature.signature)],
    }).finish();
    const tx = { tx_bytes: toBase64(raw), mode: "BROADCAST_MODE_SYNC" };
    const { tx_response } = await post("/cosmos/tx/v1beta1/txs", tx);
    if (tx_response.code !== 0) throw new Error(JSON.stringify(tx_response));
    const hash = Buffer.from(sha256(raw)).toString("hex").toUpperCase();
    if (tx_response.txhash !== hash) throw new Error(`${tx_response.txhash}, not ${hash}`);
    for (;;) {
      const found = await get(`/cosmos/tx/v1beta1/txs/${hash}`);
      if (found.status === 404) continue;
      const { code, height, txhash } = found.tx_response;
      if (code !== 0 || height === "0" || txhash !== hash) throw new Error(JSON.stringify(found));
      if (found.tx.body.memo !== "from cosmjs") throw new Error(JSON.stringify(found.tx));
      break;
    }
    hashes.push(hash);
    // The same again is refused: its sequence is used.
    const again = (await post("/cosmos/tx/v1beta1/txs", tx)).tx_response;
    if (again.codespace !== "sdk" || again.code !== 32) throw new Error(JSON.stringify(again));
  }
  const { balance } = await get(`/cosmos/bank/v1beta1/balances/${to}/by_denom?denom=atest`);
  if (balance.amount !== "14") throw new Error(JSON.stringify(balance));
  const { info } = await get(`/cosmos/auth/v1beta1/account_info/${address}`);
  console.log(JSON.stringify({ sequence: info.sequence, hashes }));
  console.log("ok");
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
