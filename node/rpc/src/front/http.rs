//! Serves one HTTP request: checks host and origin, finds the client, reads the body, and writes the response.

use super::{
    Front, compress,
    connection::Progress,
    websocket::handshake::{self, HandshakeError},
};
use crate::{
    client::Client,
    dispatch::{Respond, Transport},
    reply::{Reply, ReplyBody, counted},
    unsent_responses::UnsentResponses,
};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Body, Bytes, Incoming},
    header::{
        CONNECTION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER, SEC_WEBSOCKET_ACCEPT,
        SEC_WEBSOCKET_VERSION, UPGRADE,
    },
    upgrade::OnUpgrade,
};
use rpc_types::error::Error;
use server::{
    body::{BodyError, read_body},
    compression::{self, MIN_COMPRESSED_BYTES},
    front_page::{self, wants_html},
    heights::HeightError,
};
use std::{
    convert::Infallible,
    sync::{Arc, OnceLock},
};

/// Bytes of a request body that are not accounted. A connection has one body at a time.
const FREE_BODY_BYTES: usize = 16 * 1024;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Answers a request. The request is open until hyper has received the whole response. If the response opens a
/// WebSocket, `websocket` receives the upgrade.
pub(super) async fn serve(
    front: &Front,
    client: &Arc<Client>,
    progress: &Arc<Progress>,
    websocket: &OnceLock<(OnUpgrade, Arc<Client>)>,
    request: Request<Incoming>,
) -> Result<Response<ReplyBody>, Infallible> {
    let open = progress.open(request.body().is_end_stream());
    let mut response = answer(front, client, progress, websocket, request).await;
    response.body_mut().hold(open);
    Ok(response)
}

/// Returns the response to a request, which may be a client error.
async fn answer(
    front: &Front,
    client: &Arc<Client>,
    progress: &Progress,
    websocket: &OnceLock<(OnUpgrade, Arc<Client>)>,
    request: Request<Incoming>,
) -> Response<ReplyBody> {
    let cors = match front.access.check(&request) {
        Ok(cors) => cors,
        Err(refusal) => return refusal.map(ReplyBody::text),
    };
    let client = &front.client_behind(client, request.headers());
    let heights = &front.heights;
    if let Err(error) = heights.wait(request.headers()).await {
        let mut response = without_height(error);
        heights.state(response.headers_mut());
        cors.apply(response.headers_mut());
        return response;
    }
    if handshake::is_requested(request.headers()) {
        let mut response = upgrade(client, progress, websocket, request);
        heights.state(response.headers_mut());
        return response;
    }
    let mut response = match *request.method() {
        // This is geth's response. The check of the origin has already answered the preflight request of a page.
        Method::OPTIONS => plain(StatusCode::OK, ""),
        _ if !client.endpoint.http => plain(StatusCode::FORBIDDEN, "WebSocket only\n"),
        Method::POST => post(front, client, progress, request).await,
        Method::GET if request.uri().path() == "/" && wants_html(request.headers()) => html(front),
        // Load balancers send these as health checks, and geth answers them.
        Method::GET | Method::HEAD if request.uri().query().is_none() => plain(StatusCode::OK, ""),
        _ => plain(StatusCode::METHOD_NOT_ALLOWED, "JSON-RPC calls require POST\n"),
    };
    heights.state(response.headers_mut());
    cors.apply(response.headers_mut());
    response
}

/// Returns the response to a request whose minimum height is invalid or not reached.
fn without_height(error: HeightError) -> Response<ReplyBody> {
    match error {
        HeightError::Invalid => plain(StatusCode::BAD_REQUEST, format!("{error}\n")),
        HeightError::NotReached { newest, .. } => {
            let mut reply = Reply::default();
            reply.answer("null", Err(Error::block_not_reached(error.to_string(), newest)));
            small(StatusCode::SERVICE_UNAVAILABLE, reply)
        }
    }
}

fn respond(status: StatusCode, kind: HeaderValue, body: ReplyBody) -> Response<ReplyBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn plain(status: StatusCode, text: impl Into<Bytes>) -> Response<ReplyBody> {
    let body = ReplyBody::text(text);
    respond(status, HeaderValue::from_static("text/plain"), body)
}

/// Returns a link to the web pages, for browsers.
fn html(front: &Front) -> Response<ReplyBody> {
    match front_page::text("JSON-RPC", front.dispatcher.context.endpoints.pages) {
        Some(text) => respond(
            StatusCode::OK,
            HeaderValue::from_static("text/html; charset=utf-8"),
            ReplyBody::text(text),
        ),
        None => plain(StatusCode::OK, ""),
    }
}

/// Returns a response whose bytes are not accounted, because it is small.
fn small(status: StatusCode, reply: Reply) -> Response<ReplyBody> {
    respond(status, JSON, reply.finish(&UnsentResponses::default()))
}

/// Opens a WebSocket.
fn upgrade(
    client: &Arc<Client>,
    progress: &Progress,
    websocket: &OnceLock<(OnUpgrade, Arc<Client>)>,
    request: Request<Incoming>,
) -> Response<ReplyBody> {
    // The bytes of a body would be read as frames.
    let bodiless =
        if request.body().is_end_stream() { Ok(()) } else { Err(HandshakeError::Request) };
    let accept = match bodiless.and_then(|()| handshake::accept(&request)) {
        Ok(accept) => accept,
        Err(error) => {
            let status = match error {
                HandshakeError::Version => StatusCode::UPGRADE_REQUIRED,
                HandshakeError::Request | HandshakeError::Key => StatusCode::BAD_REQUEST,
            };
            let mut response = plain(status, format!("{error}\n"));
            response.headers_mut().insert(SEC_WEBSOCKET_VERSION, handshake::VERSION);
            return response;
        }
    };
    client.flow.account_to(&client.account);
    let opened = websocket.set((hyper::upgrade::on(request), Arc::clone(client)));
    opened.expect("hyper reads no request after one that opens a WebSocket");
    progress.requests.upgrade();
    let mut response = Response::new(ReplyBody::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    response
}

/// Returns whether a body of this type is JSON. Pages of other origins can send JSON only after a preflight request.
fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    ["application/json", "application/json-rpc", "application/jsonrequest"]
        .iter()
        .any(|json| kind.eq_ignore_ascii_case(json))
}

async fn post(
    front: &Front,
    client: &Arc<Client>,
    progress: &Progress,
    request: Request<Incoming>,
) -> Response<ReplyBody> {
    if !is_json(request.headers()) {
        return plain(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "supply the content-type application/json\n",
        );
    }
    let accepts_gzip = compression::accepts_gzip(request.headers());
    let limit = front.max_request_bytes;
    // This is held until the response has been created.
    let mut usage = client.account.buffer(FREE_BODY_BYTES);
    let body = request.into_body();
    let read = match body.size_hint().lower() > limit as u64 {
        true => Err(BodyError::TooLarge(Bytes::new())),
        false => read_body(body, limit, &mut usage).await,
    };
    let body = match read {
        Ok(body) => body,
        Err(BodyError::TooLarge(_)) => {
            let mut reply = Reply::default();
            reply.answer("null", Err(Error::request_too_large(limit)));
            return small(StatusCode::PAYLOAD_TOO_LARGE, reply);
        }
        Err(BodyError::Memory(refused)) => {
            let mut reply = Reply::default();
            reply.answer("null", Err(Error::client_memory(refused.limit())));
            let mut response = small(StatusCode::SERVICE_UNAVAILABLE, reply);
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            return response;
        }
        // The client has disconnected.
        Err(BodyError::Incomplete(_)) => {
            return plain(StatusCode::BAD_REQUEST, "the request body is incomplete\n");
        }
    };
    progress.requests.body_read();
    match front.respond(client, body, Transport::Http).await {
        Respond::Reply(reply) if reply.len() >= MIN_COMPRESSED_BYTES => {
            large(front, client, progress, reply, accepts_gzip).await
        }
        Respond::Reply(reply) => {
            progress.respond(reply.len());
            respond(StatusCode::OK, JSON, reply.finish(&UnsentResponses::of(&client.account)))
        }
        Respond::Nothing => respond(StatusCode::OK, JSON, ReplyBody::empty()),
        Respond::TooMany(reply) => {
            let mut response = small(StatusCode::TOO_MANY_REQUESTS, reply);
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            response
        }
    }
}

/// Returns a large response, compressed if the client accepts that and there is capacity.
async fn large(
    front: &Front,
    client: &Client,
    progress: &Progress,
    reply: Reply,
    accepts_gzip: bool,
) -> Response<ReplyBody> {
    let unsent = UnsentResponses::of(&client.account);
    let (pieces, _) = reply.into_pieces();
    let mut pieces = counted(pieces, &unsent);
    let compressed = match accepts_gzip {
        true => compress::compressed(&front.compressions, client, &pieces).await,
        false => None,
    };
    let is_compressed = compressed.is_some();
    if let Some(compressed) = compressed {
        pieces = counted(vec![compressed], &unsent);
    }
    progress.respond(pieces.iter().map(Bytes::len).sum());
    let body = ReplyBody::pieces(pieces);
    let mut response = respond(StatusCode::OK, JSON, body);
    let headers = response.headers_mut();
    if is_compressed {
        compression::name_coding(headers);
    }
    compression::name_variation(headers);
    response
}
