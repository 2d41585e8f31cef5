//! Calls the gRPC services without a socket: a request message in, JSON out.

use super::{
    GATEWAY_HEIGHT_HEADER,
    error::Error,
    json::{Definitions, Style},
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

/// The services and the definitions of what they take and give.
#[derive(Debug)]
pub(super) struct Gateway {
    services: Direct,
    pub(super) definitions: Definitions,
    /// Permits of conversions of large answers.
    conversions: Arc<Semaphore>,
}

/// Bytes of an answer that is converted to JSON where the socket is served: a fraction of a millisecond.
const MAX_CONVERTED_AT_ONCE_BYTES: usize = 64 * 1024;

impl Gateway {
    pub(super) fn new(routes: Routes) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let conversions = Arc::new(Semaphore::new(cores.div_ceil(2)));
        Self { services: Direct::new(routes), definitions: Definitions::read(), conversions }
    }

    /// Writes an encoded message as JSON. A block of thousands of transactions takes a core for tenths of a second,
    /// in which the thread would serve no other socket.
    async fn convert(
        &self,
        kind: MessageDescriptor,
        message: Bytes,
        style: Style,
    ) -> Result<Vec<u8>, Error> {
        if message.len() <= MAX_CONVERTED_AT_ONCE_BYTES {
            return to_json(&self.definitions, kind, message, style);
        }
        let permit =
            Arc::clone(&self.conversions).acquire_owned().await.map_err(Error::internal)?;
        let definitions = self.definitions.clone();
        let converted = tokio::task::spawn_blocking(move || {
            // The conversion goes on when its caller has gone.
            let _permit = permit;
            to_json(&definitions, kind, message, style)
        });
        converted.await.map_err(Error::internal)?
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

    /// Asks a service and writes its answer in the given style.
    pub(super) async fn call(
        &self,
        method: &MethodDescriptor,
        message: &DynamicMessage,
        height: Option<&HeaderValue>,
        style: Style,
    ) -> Result<Response, Error> {
        let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
        let answer = self.services.call(&path, &message.encode_to_vec(), height).await;
        let told = answer.map_err(|status| Error::of_service(status.code(), status.message()))?;
        let json = self.convert(method.output(), told.message, style).await?;
        let mut response = ([(header::CONTENT_TYPE, "application/json")], json).into_response();
        if let Some(height) = told.height {
            response.headers_mut().insert(GATEWAY_HEIGHT_HEADER, height.clone());
            response.headers_mut().insert(HEIGHT_HEADER, height);
        }
        Ok(response)
    }
}

fn to_json(
    definitions: &Definitions,
    kind: MessageDescriptor,
    message: Bytes,
    style: Style,
) -> Result<Vec<u8>, Error> {
    let message = DynamicMessage::decode(kind, message).map_err(Error::internal)?;
    serde_json::to_vec(&definitions.json(&message, style)).map_err(Error::internal)
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
