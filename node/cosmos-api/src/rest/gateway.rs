//! Calls the gRPC services in memory, and converts their responses to JSON.

use super::{
    GATEWAY_HEIGHT_HEADER,
    error::Error,
    json::{Descriptors, Style},
};
use crate::grpc::{Direct, HEIGHT_HEADER};
use axum::{
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor, MethodDescriptor};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tonic::service::Routes;

/// The services and the descriptors of their messages.
#[derive(Debug)]
pub(super) struct Gateway {
    services: Direct,
    pub(super) descriptors: Descriptors,
    /// Permits for converting large responses.
    conversions: Arc<Semaphore>,
}

/// Responses of up to this many bytes are converted to JSON on the thread of the socket, in a fraction of a
/// millisecond.
const MAX_CONVERTED_AT_ONCE_BYTES: usize = 64 * 1024;

impl Gateway {
    pub(super) fn new(routes: Routes) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let conversions = Arc::new(Semaphore::new(cores.div_ceil(2)));
        Self { services: Direct::new(routes), descriptors: Descriptors::read(), conversions }
    }

    /// Converts an encoded message to JSON. For a block with thousands of transactions this takes tenths of a second,
    /// during which the socket's thread would serve no other connection, so large messages use a blocking thread.
    async fn convert(
        &self,
        kind: MessageDescriptor,
        message: Bytes,
        style: Style,
    ) -> Result<Vec<u8>, Error> {
        if message.len() <= MAX_CONVERTED_AT_ONCE_BYTES {
            return to_json(&self.descriptors, kind, message, style);
        }
        let permit =
            Arc::clone(&self.conversions).acquire_owned().await.map_err(Error::internal)?;
        let descriptors = self.descriptors.clone();
        let converted = tokio::task::spawn_blocking(move || {
            // The conversion continues after the caller has disconnected, so it holds the permit itself.
            let _permit = permit;
            to_json(&descriptors, kind, message, style)
        });
        converted.await.map_err(Error::internal)?
    }

    /// Returns the method with this name (`package.Service/Method`).
    ///
    /// # Panics
    /// If there is no such method. A test checks every route.
    pub(super) fn method(&self, name: &str) -> MethodDescriptor {
        let (service, method) = name.split_once('/').expect("a route names service and method");
        let service = self.descriptors.pool.get_service_by_name(service);
        let service = service.expect("routes name services of the descriptors");
        let found = service.methods().find(|known| known.name() == method);
        found.expect("routes name methods of the descriptors")
    }

    /// Calls a service and converts its response in the given style.
    pub(super) async fn call(
        &self,
        method: &MethodDescriptor,
        message: &DynamicMessage,
        height: Option<&HeaderValue>,
        style: Style,
    ) -> Result<Response, Error> {
        let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
        let result = self.services.call(&path, &message.encode_to_vec(), height).await;
        let response =
            result.map_err(|status| Error::of_service(status.code(), status.message()))?;
        let json = self.convert(method.output(), response.message, style).await?;
        let mut converted = ([(header::CONTENT_TYPE, "application/json")], json).into_response();
        if let Some(height) = response.height {
            converted.headers_mut().insert(GATEWAY_HEIGHT_HEADER, height.clone());
            converted.headers_mut().insert(HEIGHT_HEADER, height);
        }
        Ok(converted)
    }
}

fn to_json(
    descriptors: &Descriptors,
    kind: MessageDescriptor,
    message: Bytes,
    style: Style,
) -> Result<Vec<u8>, Error> {
    let message = DynamicMessage::decode(kind, message).map_err(Error::internal)?;
    serde_json::to_vec(&descriptors.json(&message, style)).map_err(Error::internal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::route::ROUTES;

    #[test]
    fn every_route_names_an_existing_method_and_its_fields() {
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
