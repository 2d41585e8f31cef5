//! Calls the gRPC services without a socket: a request message in, JSON out.

use super::{error::Error, json::Definitions};
use crate::grpc::HEIGHT_HEADER;
use axum::{
    http::{HeaderMap, HeaderValue, Request, header},
    response::{IntoResponse, Response},
};
use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use prost::Message;
use prost_reflect::{DynamicMessage, MethodDescriptor};
use tonic::{Code, Status, service::Routes};
use tower::ServiceExt;

/// Bytes before each message of gRPC: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// The services and the definitions of what they take and give.
#[derive(Debug)]
pub(super) struct Gateway {
    routes: Routes,
    pub(super) definitions: Definitions,
}

impl Gateway {
    pub(super) fn new(routes: Routes) -> Self {
        Self { routes: routes.prepare(), definitions: Definitions::read() }
    }

    /// The method of a route.
    ///
    /// # Panics
    /// If there is no such method: a test looks at every route.
    pub(super) fn method(&self, name: &str) -> MethodDescriptor {
        let (service, method) = name.split_once('/').expect("a route names service and method");
        let service = self.definitions.pool.get_service_by_name(service);
        let service = service.expect("routes name services of our definitions");
        let found = service.methods().find(|known| known.name() == method);
        found.expect("routes name methods of our definitions")
    }

    /// Asks a service and writes its answer.
    pub(super) async fn call(
        &self,
        method: &MethodDescriptor,
        message: &DynamicMessage,
        height: Option<&HeaderValue>,
    ) -> Result<Response, Error> {
        let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
        let mut request = Request::post(path)
            .header(header::CONTENT_TYPE, "application/grpc")
            .header(header::TE, "trailers")
            .body(Full::new(framed(message)))
            .map_err(Error::internal)?;
        if let Some(height) = height {
            request.headers_mut().insert(HEIGHT_HEADER, height.clone());
        }
        let answer = self.routes.clone().oneshot(request).await.map_err(Error::internal)?;
        let (head, body) = answer.into_parts();
        check(&head.headers)?;
        let body = body.collect().await.map_err(Error::internal)?;
        if let Some(trailers) = body.trailers() {
            check(trailers)?;
        }
        let mut bytes = body.to_bytes();
        if bytes.len() < PREFIX_BYTES {
            return Err(Error::internal("a service answered without a message"));
        }
        let message = bytes.split_off(PREFIX_BYTES);
        let message = DynamicMessage::decode(method.output(), message).map_err(Error::internal)?;
        let json = serde_json::to_vec(&self.definitions.json(&message)).map_err(Error::internal)?;
        let mut response = ([(header::CONTENT_TYPE, "application/json")], json).into_response();
        if let Some(height) = head.headers.get(HEIGHT_HEADER) {
            response.headers_mut().insert(HEIGHT_HEADER, height.clone());
        }
        Ok(response)
    }
}

fn framed(message: &DynamicMessage) -> Bytes {
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(PREFIX_BYTES + length);
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(length).expect("requests are bounded far below 4 GiB"));
    message.encode(&mut bytes).expect("there is room");
    bytes.freeze()
}

/// The status of a service, if it is there and not good.
fn check(headers: &HeaderMap) -> Result<(), Error> {
    match Status::from_header_map(headers) {
        Some(status) if status.code() != Code::Ok => {
            Err(Error::of_service(status.code(), status.message()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::route::ROUTES;

    #[test]
    fn every_route_has_its_method_and_fields() {
        let gateway = Gateway::new(Routes::default());
        for route in ROUTES {
            let method = gateway.method(route.method);
            for part in route.path.split('/') {
                if let Some(name) = part.strip_prefix('{').and_then(|p| p.strip_suffix('}')) {
                    let field = method.input().get_field_by_name(name);
                    assert!(field.is_some(), "{}: {name}", route.path);
                }
            }
        }
    }
}
