//! The options of a trace: the tracer, its settings, and what the struct logger records.

use alloy_rpc_types_trace::geth::{
    GethDebugBuiltInTracerType, GethDebugTracerType, GethDebugTracingOptions,
};
use chain::ChainSpec;
use rpc_types::{
    fields::{self, name_of},
    params::Param,
};
use serde_json::{Map, Value};

/// The options of a trace. Fields with a wrong type and unknown tracers are errors.
#[derive(Default)]
pub(super) struct Options(pub(super) GethDebugTracingOptions);

impl Param for Options {
    fn read(json: &str, _: &ChainSpec) -> Result<Self, String> {
        tracing_options(json).map(Self)
    }
}

/// Tracers that have settings.
const CONFIGURED: [&str; 3] = ["callTracer", "prestateTracer", "flatCallTracer"];

/// Names of the options. They are compared without regard to case, like all field names.
const OPTION_NAMES: [&str; 11] = [
    "enableMemory",
    "disableMemory",
    "disableStack",
    "disableStorage",
    "enableReturnData",
    "disableReturnData",
    "debug",
    "limit",
    "tracer",
    "tracerConfig",
    "timeout",
];

/// Names of the settings of all tracers.
const SETTING_NAMES: [&str; 10] = [
    "onlyTopCall",
    "withLog",
    "diffMode",
    "disableCode",
    "disableStorage",
    "includeEmpty",
    "convertParityErrors",
    "includePrecompiles",
    "stackTopItemsSize",
    "ignoredOpcodes",
];

/// Converts the names of a tracer's settings to those that the tracers read.
fn name_settings(config: &mut Value) {
    let Value::Object(given) = config else { return };
    for (name, value) in std::mem::take(given) {
        let name = name_of(&SETTING_NAMES, &name).map_or(name, str::to_owned);
        given.insert(name, value);
    }
}

/// Parses the options as geth does. geth's `muxTracer` accepts missing settings, and settings for tracers that have
/// none. The muxTracer of this node requires settings for the tracers in [`CONFIGURED`] and refuses them for the
/// others, so they are added or removed here.
pub(super) fn tracing_options(json: &str) -> Result<GethDebugTracingOptions, String> {
    let mut options: GethDebugTracingOptions = fields::read_named(json, &OPTION_NAMES)?;
    let mux = GethDebugTracerType::from(GethDebugBuiltInTracerType::MuxTracer);
    let is_mux = options.tracer.as_ref() == Some(&mux);
    if !is_mux {
        name_settings(&mut options.tracer_config.0);
    }
    let tracers = options.tracer_config.0.as_object_mut().filter(|_| is_mux);
    for (name, config) in tracers.into_iter().flatten() {
        name_settings(config);
        if !CONFIGURED.contains(&name.as_str()) {
            *config = Value::Null;
        } else if config.is_null() {
            *config = Value::Object(Map::new());
        }
    }
    Ok(options)
}
