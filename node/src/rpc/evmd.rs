//! `evmd_`: what no other node has.

use super::{
    eth::fee_quantiles,
    method::{Method, Run},
};

pub(super) const METHODS: &[Method] = &[Method {
    name: "evmd_feeQuantiles",
    parameters: &["from", "to", "bucketBlocks", "percentiles = []"],
    help: "The fee history of up to 100,000 blocks in up to 2,048 buckets: base fees, gas, and \
           quantiles of the tips over all gas of a bucket.",
    run: Run::Worker(fee_quantiles),
}];
