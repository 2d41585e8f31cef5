"""A wallet's and an explorer's day with web3.py: HTTP, WebSocket, private key, init code."""

import asyncio
import sys

from web3 import AsyncWeb3, HTTPProvider, Web3, WebSocketProvider
from web3.exceptions import ContractLogicError

ABI = [
    {
        "type": "event",
        "name": "Stored",
        "anonymous": False,
        "inputs": [{"name": "value", "type": "uint256", "indexed": False}],
    },
    {"type": "function", "name": "fail", "inputs": [], "outputs": [], "stateMutability": "view"},
]


async def hear_heads(url):
    async with AsyncWeb3(WebSocketProvider(url)) as w3:
        await w3.eth.subscribe("newHeads")
        numbers = []
        async for message in w3.socket.process_subscriptions():
            numbers.append(message["result"]["number"])
            if len(numbers) == 3:
                assert numbers[2] == numbers[0] + 2, numbers
                return


def main(url, ws, key, code):
    w3 = Web3(HTTPProvider(url))
    assert w3.is_connected()
    account = w3.eth.account.from_key(key)
    assert w3.eth.get_balance(account.address) > 0
    assert len(w3.eth.fee_history(4, "latest", [25, 75])["baseFeePerGas"]) > 1

    def send(transaction):
        fees = {
            "from": account.address,
            "nonce": w3.eth.get_transaction_count(account.address, "pending"),
            "chainId": w3.eth.chain_id,
            "maxPriorityFeePerGas": w3.eth.max_priority_fee,
            "maxFeePerGas": 2 * w3.eth.gas_price,
        }
        transaction = {**fees, **transaction}
        transaction["gas"] = w3.eth.estimate_gas(transaction)
        signed = account.sign_transaction(transaction)
        sent = w3.eth.send_raw_transaction(signed.raw_transaction)
        return w3.eth.wait_for_transaction_receipt(sent, poll_latency=0.02)

    deployment = send({"data": code, "value": 0})
    assert deployment["status"] == 1
    contract = w3.eth.contract(address=deployment["contractAddress"], abi=ABI)
    events = w3.eth.filter({"address": contract.address})
    receipt = send({"to": contract.address, "value": 0})
    logs = contract.events.Stored().process_receipt(receipt)
    assert logs[0]["args"]["value"] == 42
    found = contract.events.Stored().get_logs(from_block=receipt["blockNumber"])
    assert found[0]["transactionHash"] == receipt["transactionHash"]
    assert events.get_new_entries()[0]["transactionHash"] == receipt["transactionHash"]
    assert int.from_bytes(w3.eth.get_storage_at(contract.address, 0), "big") == 1
    try:
        contract.functions.fail().call()
        raise AssertionError("fail() must revert")
    except ContractLogicError as error:
        assert "nope" in str(error), error
    block = w3.eth.get_block(receipt["blockHash"], full_transactions=True)
    assert receipt["transactionHash"] in [each["hash"] for each in block["transactions"]]
    asyncio.run(hear_heads(ws))
    print("ok")


main(*sys.argv[1:])
