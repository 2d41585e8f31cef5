//! Calls gRPC methods with generated messages, and with reflection alone.

use super::served::Served;
use crate::common::{
    signed::{address_of, send, signed},
    transfer,
};
use alloy_primitives::Address;
use bytes::{Buf, BufMut};
use chain::DEV_ACCOUNTS;
use cosmos_api::query::proto::cosmos::{
    auth::v1beta1::{BaseAccount, QueryAccountRequest, QueryAccountResponse},
    evm::{
        feemarket::v1::{QueryParamsRequest, QueryParamsResponse},
        vm::v1::EthCallRequest,
    },
    tx::v1beta1::{
        BroadcastTxRequest, BroadcastTxResponse, GetTxRequest, GetTxResponse, SimulateRequest,
        SimulateResponse, TxDecodeRequest, TxDecodeResponse,
    },
};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tonic::{
    Code, Request, Response, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;
use tonic_reflection::pb::{v1, v1alpha};

pub(crate) struct Client(Grpc<Channel>);

/// A codec that passes messages as bytes, for callers that encode them themselves.
struct Bytes;

impl Codec for Bytes {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining()).to_vec()))
    }
}

impl Client {
    pub(crate) async fn connect(served: &Served) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{}", served.node.grpc)).unwrap();
        Self(Grpc::new(endpoint.connect().await.unwrap()))
    }

    async fn call<Q, A>(
        &mut self,
        path: &'static str,
        request: Request<Q>,
    ) -> Result<Response<A>, Status>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        self.0.ready().await.unwrap();
        let codec = ProstCodec::<Q, A>::default();
        self.0.unary(request, path.parse().unwrap(), codec).await
    }

    async fn ask<Q, A>(&mut self, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        self.call(path, Request::new(request)).await.map(Response::into_inner)
    }

    /// Calls a method, `service/name`, with an encoded message.
    pub(crate) async fn bytes(&mut self, path: &str, request: Vec<u8>) -> Result<Vec<u8>, Status> {
        self.0.ready().await.unwrap();
        let path = format!("/{path}").parse().unwrap();
        let response = self.0.unary(Request::new(request), path, Bytes).await;
        response.map(Response::into_inner)
    }

    async fn stream<Q, A>(&mut self, path: &'static str, request: Q) -> A
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        self.0.ready().await.unwrap();
        let codec = ProstCodec::<Q, A>::default();
        let requests = tokio_stream::once(request);
        let response = self.0.streaming(Request::new(requests), path.parse().unwrap(), codec).await;
        response.unwrap().into_inner().message().await.unwrap().unwrap()
    }
}

/// Returns the names of the services that reflection v1 lists.
pub(crate) async fn services(client: &mut Client) -> BTreeSet<String> {
    let request = v1::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(v1::server_reflection_request::MessageRequest::ListServices(
            String::new(),
        )),
    };
    let path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    let response: v1::ServerReflectionResponse = client.stream(path, request).await;
    match response.message_response.unwrap() {
        v1::server_reflection_response::MessageResponse::ListServicesResponse(list) => {
            list.service.into_iter().map(|service| service.name).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// Reads the definition of a symbol and all definitions that it imports, using reflection v1alpha.
pub(crate) async fn definitions(client: &mut Client, symbol: &str) -> DescriptorPool {
    use v1alpha::{
        ServerReflectionRequest, ServerReflectionResponse,
        server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
    };
    let path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
    let mut files = Vec::new();
    let mut known = BTreeSet::new();
    let mut wanted = vec![MessageRequest::FileContainingSymbol(symbol.to_owned())];
    while let Some(request) = wanted.pop() {
        let request =
            ServerReflectionRequest { host: String::new(), message_request: Some(request) };
        let response: ServerReflectionResponse = client.stream(path, request).await;
        let Some(MessageResponse::FileDescriptorResponse(found)) = response.message_response else {
            panic!("{response:?}");
        };
        for bytes in found.file_descriptor_proto {
            let file = prost_types::FileDescriptorProto::decode(bytes.as_slice()).unwrap();
            if known.insert(file.name().to_owned()) {
                let imports = file.dependency.iter().cloned();
                wanted.extend(imports.map(MessageRequest::FileByFilename));
                files.push(file);
            }
        }
    }
    let mut pool = DescriptorPool::new();
    pool.add_file_descriptor_protos(files).unwrap();
    pool
}

#[tokio::test(flavor = "multi_thread")]
async fn client_can_use_reflection_alone() {
    let served = Served::start().await;
    let mut client = Client::connect(&served).await;
    let listed = services(&mut client).await;
    for service in [
        "cosmos.auth.v1beta1.Query",
        "cosmos.bank.v1beta1.Query",
        "cosmos.base.tendermint.v1beta1.Service",
        "cosmos.consensus.v1.Query",
        "cosmos.evm.vm.v1.Query",
        "cosmos.evm.feemarket.v1.Query",
        "cosmos.tx.v1beta1.Service",
        "feemarket.Query",
        "feemarket.v1.Query",
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
    ] {
        assert!(listed.contains(service), "{service}: {listed:?}");
    }
    // This call uses only reflection, as grpcurl does.
    let pool = definitions(&mut client, "cosmos.evm.vm.v1.Query").await;
    let service = pool.get_service_by_name("cosmos.evm.vm.v1.Query").unwrap();
    let method = service.methods().find(|method| method.name() == "Account").unwrap();
    let request = json!({ "address": DEV_ACCOUNTS[0].address });
    let request = DynamicMessage::deserialize(method.input(), request).unwrap();
    let response =
        client.bytes("cosmos.evm.vm.v1.Query/Account", request.encode_to_vec()).await.unwrap();
    let response = DynamicMessage::decode(method.output(), response.as_slice()).unwrap();
    let response: Value = serde_json::to_value(&response).unwrap();
    assert_eq!(response["balance"], "10000000000000000000000");
    let health: tonic_health::pb::HealthCheckResponse = client
        .ask("/grpc.health.v1.Health/Check", tonic_health::pb::HealthCheckRequest::default())
        .await
        .unwrap();
    assert_eq!(health.status, 1);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn broadcast_transaction_changes_the_queried_sequence() {
    let served = Served::start().await;
    let mut client = Client::connect(&served).await;
    const ACCOUNT: &str = "/cosmos.auth.v1beta1.Query/Account";
    let address = DEV_ACCOUNTS[0].address.to_string();
    let request = || Request::new(QueryAccountRequest { address: address.clone() });
    let sequence = |response: QueryAccountResponse| {
        response.account.unwrap().to_msg::<BaseAccount>().unwrap().sequence
    };
    let response: Response<QueryAccountResponse> = client.call(ACCOUNT, request()).await.unwrap();
    assert!(response.metadata().get("x-cosmos-block-height").is_some());
    assert_eq!(sequence(response.into_inner()), 0);

    let raw = transfer(0, 0, Address::repeat_byte(0x77));
    let broadcast = BroadcastTxRequest { tx_bytes: raw.to_vec(), mode: 2 };
    let path = "/cosmos.tx.v1beta1.Service/BroadcastTx";
    let response: BroadcastTxResponse = client.ask(path, broadcast).await.unwrap();
    let accepted = response.tx_response.unwrap();
    assert_eq!((accepted.code, accepted.raw_log.as_str()), (0, ""));
    served.node.wait_for("eth_getTransactionReceipt", json!([accepted.txhash])).await;
    let path = "/cosmos.tx.v1beta1.Service/GetTx";
    let mined: GetTxResponse =
        client.ask(path, GetTxRequest { hash: accepted.txhash }).await.unwrap();
    let mined = mined.tx_response.unwrap();
    assert_eq!((mined.code, mined.gas_used), (0, 21_000));

    for (height, nonce) in [(mined.height - 1, 0), (mined.height, 1)] {
        let mut request = request();
        request.metadata_mut().insert("x-cosmos-block-height", height.into());
        let response: Response<QueryAccountResponse> = client.call(ACCOUNT, request).await.unwrap();
        assert_eq!(response.metadata().get("x-cosmos-block-height").unwrap(), &height.to_string());
        assert_eq!(sequence(response.into_inner()), nonce);
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[allow(deprecated, reason = "cosmpy only sets this field")]
async fn decoded_transaction_can_be_simulated() {
    let served = Served::start().await;
    let mut client = Client::connect(&served).await;
    let tx_bytes = signed(0, 0, vec![send(0, &address_of(1), 7)]);
    let decode = TxDecodeRequest { tx_bytes: tx_bytes.clone() };
    let path = "/cosmos.tx.v1beta1.Service/TxDecode";
    let decoded: TxDecodeResponse = client.ask(path, decode).await.unwrap();
    let path = "/cosmos.tx.v1beta1.Service/Simulate";
    let by_bytes = SimulateRequest { tx: None, tx_bytes };
    let by_bytes: SimulateResponse = client.ask(path, by_bytes).await.unwrap();
    let by_fields = SimulateRequest { tx: decoded.tx, tx_bytes: Vec::new() };
    let by_fields: SimulateResponse = client.ask(path, by_fields).await.unwrap();
    assert!(by_bytes.gas_info.unwrap().gas_used > 0);
    assert_eq!(by_fields, by_bytes);
    let none: Result<SimulateResponse, _> = client.ask(path, SimulateRequest::default()).await;
    assert_eq!(none.unwrap_err().code(), Code::InvalidArgument);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fee_market_is_served_under_three_names() {
    let served = Served::start().await;
    served.node.wait_for("eth_getBlockByNumber", json!(["0x1", false])).await;
    let mut client = Client::connect(&served).await;
    for path in [
        "/cosmos.evm.feemarket.v1.Query/Params",
        "/feemarket.Query/Params",
        "/feemarket.v1.Query/Params",
    ] {
        let mut request = Request::new(QueryParamsRequest {});
        request.metadata_mut().insert("x-cosmos-block-height", 1.into());
        let response: Response<QueryParamsResponse> = client.call(path, request).await.unwrap();
        let params = response.into_inner().params.unwrap();
        // The encoded message contains scaled decimals.
        assert_eq!(params.base_fee, "875000000000000000000000000");
        assert_eq!(params.min_gas_multiplier, "500000000000000000");
        assert_eq!((params.base_fee_change_denominator, params.elasticity_multiplier), (8, 2));
    }
    // Reflection returns messages of the package `feemarket.v1` for both former names.
    for name in ["feemarket.Query", "feemarket.v1.Query"] {
        let pool = definitions(&mut client, name).await;
        let service = pool.get_service_by_name(name).unwrap();
        let method = service.methods().find(|method| method.name() == "Params").unwrap();
        assert_eq!(method.output().full_name(), "feemarket.v1.QueryParamsResponse");
        let params = pool.get_message_by_name("feemarket.v1.Params").unwrap();
        assert_eq!(params.get_field_by_name("enable_height").unwrap().number(), 5);
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_errors_have_codes() {
    let served = Served::start().await;
    let mut client = Client::connect(&served).await;
    for (address, code) in [
        ("", Code::InvalidArgument),
        ("cosmos1xyz", Code::InvalidArgument),
        ("0x00000000000000000000000000000000000000aa", Code::NotFound),
    ] {
        let request = QueryAccountRequest { address: address.to_owned() };
        let path = "/cosmos.auth.v1beta1.Query/Account";
        let response: Result<QueryAccountResponse, _> = client.ask(path, request).await;
        assert_eq!(response.unwrap_err().code(), code, "{address}");
    }
    let mut request = Request::new(QueryAccountRequest::default());
    request.metadata_mut().insert("x-cosmos-block-height", "x".parse().unwrap());
    let path = "/cosmos.auth.v1beta1.Query/Account";
    let response: Result<Response<QueryAccountResponse>, _> = client.call(path, request).await;
    assert!(response.unwrap_err().message().contains("x-cosmos-block-height"));
    let response: Result<QueryAccountResponse, _> =
        client.ask("/cosmos.auth.v1beta1.Query/Nothing", QueryAccountRequest::default()).await;
    assert_eq!(response.unwrap_err().code(), Code::Unimplemented);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_responses_arrive_complete() {
    /// A precompile that returns its input.
    const IDENTITY: &str = "0x0000000000000000000000000000000000000004";
    /// Number of concurrent calls; more would be refused.
    const CALLS: usize = 4;
    let served = Served::start().await;
    let client = Client::connect(&served).await;
    for length in [1_000, 16_500, 100_000].repeat(5) {
        let data: Vec<u8> = (0..length).map(|at| at as u8).collect();
        let args = json!({ "to": IDENTITY, "data": alloy_primitives::hex::encode_prefixed(&data) });
        let request = EthCallRequest { args: args.to_string().into(), ..EthCallRequest::default() };
        let call = || {
            let (mut client, request) = (Client(client.0.clone()), request.encode_to_vec());
            async move { client.bytes("cosmos.evm.vm.v1.Query/EthCall", request).await.unwrap() }
        };
        let responses = futures_util::future::join_all((0..CALLS).map(|_| call())).await;
        for response in responses {
            assert!(response.windows(length).any(|part| part == data), "{}", response.len());
        }
    }
    served.stop().await;
}
