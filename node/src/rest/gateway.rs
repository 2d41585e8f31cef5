//! Calls the gRPC services without a socket: a request message in, JSON out.

use super::{error::Error, json::Definitions};
use crate::grpc::{Direct, HEIGHT_HEADER};
use axum::{
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use prost::Message;
use prost_reflect::{DynamicMessage, MethodDescriptor};
use tonic::service::Routes;

/// The services and the definitions of what they take and give.
#[derive(Debug)]
pub(super) struct Gateway {
    services: Direct,
    pub(super) definitions: Definitions,
}

impl Gateway {
    pub(super) fn new(routes: Routes) -> Self {
        Self { services: Direct::new(routes), definitions: Definitions::read() }
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
        let answer = self.services.call(&path, &message.encode_to_vec(), height).await;
        let told = answer.map_err(|status| Error::of_service(status.code(), status.message()))?;
        let message =
            DynamicMessage::decode(method.output(), told.message).map_err(Error::internal)?;
        let json = serde_json::to_vec(&self.definitions.json(&message)).map_err(Error::internal)?;
        let mut response = ([(header::CONTENT_TYPE, "application/json")], json).into_response();
        if let Some(height) = told.height {
            response.headers_mut().insert(HEIGHT_HEADER, height);
        }
        Ok(response)
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
