"""The fixtures that the test classes of web3.py (web3._utils.module_testing) need, for a development node at RPC_URL.
Its accounts sign."""

import os

import pytest
import pytest_asyncio
from web3 import AsyncHTTPProvider, AsyncWeb3, HTTPProvider, Web3
from web3._utils.contract_sources.contract_data.emitter_contract import EMITTER_CONTRACT_DATA
from web3._utils.contract_sources.contract_data.math_contract import MATH_CONTRACT_DATA
from web3._utils.contract_sources.contract_data.offchain_lookup import (
    OFFCHAIN_LOOKUP_ABI,
    OFFCHAIN_LOOKUP_BYTECODE,
)
from web3._utils.contract_sources.contract_data.panic_errors_contract import (
    PANIC_ERRORS_CONTRACT_DATA,
)
from web3._utils.contract_sources.contract_data.revert_contract import REVERT_CONTRACT_DATA
from web3._utils.contract_sources.contract_data.storage_contract import STORAGE_CONTRACT_DATA
from web3._utils.module_testing import (
    AsyncEthModuleTest,
    AsyncNetModuleTest,
    EthModuleTest,
    GoEthereumDebugModuleTest,
    GoEthereumTxPoolModuleTest,
    NetModuleTest,
    Web3ModuleTest,
)
from web3._utils.module_testing.utils import RequestMocker
from web3._utils.module_testing.web3_module import AsyncWeb3ModuleTest

URL = os.environ["RPC_URL"]
# The first development account.
ACCOUNT = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
OTHER = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
CONTRACTS = {
    "math": MATH_CONTRACT_DATA,
    "emitter": EMITTER_CONTRACT_DATA,
    "revert": REVERT_CONTRACT_DATA,
    "panic_errors": PANIC_ERRORS_CONTRACT_DATA,
    "storage": STORAGE_CONTRACT_DATA,
    "offchain_lookup": {"abi": OFFCHAIN_LOOKUP_ABI, "bytecode": OFFCHAIN_LOOKUP_BYTECODE},
}


def connect():
    w3 = Web3(HTTPProvider(URL, request_kwargs={"timeout": 20}))
    w3.eth.default_account = ACCOUNT
    return w3


@pytest.fixture
def w3():
    return connect()


@pytest_asyncio.fixture
async def async_w3():
    w3 = AsyncWeb3(AsyncHTTPProvider(URL))
    w3.eth.default_account = ACCOUNT
    yield w3
    await w3.provider.disconnect()


@pytest.fixture(scope="class")
def chain():
    """A new chain: the addresses of the contracts, and a block of each kind that the tests read."""
    w3, chain = connect(), {}
    w3.provider.make_request("evm_setIntervalMining", [0])
    w3.provider.make_request("evm_setAutomine", [True])
    w3.provider.make_request("anvil_reset", [])

    def mined(sent):
        receipt = w3.eth.wait_for_transaction_receipt(sent, poll_latency=0.02)
        assert receipt["status"] == 1
        return receipt

    for name, data in CONTRACTS.items():
        sent = w3.eth.contract(**data).constructor().transact({"from": ACCOUNT})
        chain[name], chain[f"{name}_tx"] = mined(sent)["contractAddress"], sent
    emitter = w3.eth.contract(address=chain["emitter"], abi=EMITTER_CONTRACT_DATA["abi"])
    log = emitter.functions.logDouble(which=9, arg0=12345, arg1=54321)
    chain["log_tx"] = log.transact({"from": ACCOUNT})
    chain["log_block"] = mined(chain["log_tx"])["blockHash"]
    w3.provider.make_request("evm_mine", [])
    chain["empty_block"] = w3.eth.get_block("latest")["hash"]
    assert w3.eth.get_block_transaction_count(chain["empty_block"]) == 0
    # Not to the account itself, because a test makes it delegate to a contract.
    transfer = {"from": ACCOUNT, "to": OTHER, "value": 1, "gas": 21000}
    chain["transfer"] = w3.eth.send_transaction(transfer)
    chain["transfer_block"] = mined(chain["transfer"])["blockHash"]
    # The tests send transactions which they then replace, so transactions must be pending for a while.
    w3.provider.make_request("evm_setIntervalMining", [1])
    return chain


@pytest.fixture(scope="class", autouse=True)
def prepared(chain):
    return chain


def of_chain(name):
    return pytest.fixture(lambda chain: chain[name])


def constant(value):
    return pytest.fixture(lambda: value)


def contract(name, connection):
    def fixture(request, chain):
        w3 = request.getfixturevalue(connection)
        data = CONTRACTS[name]
        return w3.eth.contract(
            address=chain[name], abi=data["abi"], bytecode=data.get("bytecode")
        )

    return pytest.fixture(fixture)


for _name in CONTRACTS:
    globals()[f"{_name}_contract"] = contract(_name, "w3")
    globals()[f"async_{_name}_contract"] = contract(_name, "async_w3")


def block(name):
    def fixture(w3, chain):
        return w3.eth.get_block(chain[name])

    return pytest.fixture(fixture)


math_contract_address = async_math_contract_address = of_chain("math")
emitter_contract_address = async_emitter_contract_address = of_chain("emitter")
math_contract_deploy_txn_hash = of_chain("math_tx")
mined_txn_hash = of_chain("transfer")
txn_hash_with_log = of_chain("log_tx")
empty_block = async_empty_block = block("empty_block")
block_with_txn = async_block_with_txn = block("transfer_block")
block_with_txn_with_log = async_block_with_txn_with_log = block("log_block")
keyfile_account_pkey = constant(KEY)
keyfile_account_address = keyfile_account_address_dual_type = constant(ACCOUNT)
async_keyfile_account_address = async_keyfile_account_address_dual_type = constant(ACCOUNT)
skip_if_testrpc = async_skip_if_testrpc = constant(lambda w3: None)
request_mocker = constant(RequestMocker)


@pytest.fixture(params=[lambda address: address], ids=["identity"])
def address_conversion_func(request):
    return request.param


def has_a_version(self, version):
    assert isinstance(version, str) and "/" in version


class TestEth(EthModuleTest):
    pass


class TestAsyncEth(AsyncEthModuleTest):
    pass


class TestNet(NetModuleTest):
    pass


class TestAsyncNet(AsyncNetModuleTest):
    pass


class TestWeb3(Web3ModuleTest):
    _check_web3_client_version = has_a_version


class TestAsyncWeb3(AsyncWeb3ModuleTest):
    _check_web3_client_version = has_a_version


class TestTxPool(GoEthereumTxPoolModuleTest):
    pass


class TestDebug(GoEthereumDebugModuleTest):
    pass
