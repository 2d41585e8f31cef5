//! Scenario `fees`: `eth_feeHistory` in several shapes.

use crate::{
    options::{Common, Node},
    report::Report,
    rng::Rng,
    rounds::{self, Calls, Part},
    rpc::hex,
};
use anyhow::{Context, bail};
use serde_json::json;
use std::str::FromStr;

/// Number of requests of a shape with random old ranges.
const OLD_RANGES: u64 = 1024;

#[derive(Debug, clap::Args)]
pub(crate) struct FeesArgs {
    #[command(flatten)]
    common: Common,
    /// COUNT:PERCENTILES, as in 1024:10,25,50,75,90; the suffix @old requests random old ranges
    /// instead of the newest blocks
    #[arg(long = "shape", value_name = "SHAPE", default_values = [
        "1024:10,25,50,75,90", "20:10,50,90", "5:50", "20:", "1:", "100:10,50,90@old",
    ])]
    shapes: Vec<Shape>,
}

/// Parameters of an `eth_feeHistory` call.
#[derive(Clone, Debug, PartialEq)]
struct Shape {
    count: u64,
    percentiles: Vec<f64>,
    old: bool,
}

impl FromStr for Shape {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (rest, old) = match text.strip_suffix("@old") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let (count, list) = rest.split_once(':').context("expected COUNT:PERCENTILES")?;
        let count: u64 = count.parse().context("COUNT must be a number")?;
        if count == 0 {
            bail!("COUNT must be at least 1, got 0");
        }
        let percentiles = list.split(',').filter(|percentile| !percentile.is_empty());
        let percentiles = percentiles
            .map(|percentile| {
                percentile.trim().parse().context("PERCENTILES must be numbers separated by commas")
            })
            .collect::<anyhow::Result<_>>()?;
        Ok(Self { count, percentiles, old })
    }
}

impl Shape {
    fn name(&self) -> String {
        let suffix = if self.old { ", old" } else { "" };
        format!("({}, {}p{suffix})", self.count, self.percentiles.len())
    }

    fn bodies(&self, head: u64, seed: u64) -> anyhow::Result<Vec<Vec<u8>>> {
        let body = |newest: String| {
            let params = json!([hex(self.count), newest, self.percentiles]);
            super::reads::body("eth_feeHistory", &params)
        };
        if !self.old {
            return Ok(vec![body("latest".to_owned())]);
        }
        let Some(range) = head.checked_sub(self.count).filter(|range| *range > 0) else {
            bail!("{}: the chain has {head} blocks, too few for old ranges", self.name());
        };
        let mut rng = Rng::new(seed);
        Ok((0..OLD_RANGES).map(|_| body(hex(self.count + rng.below(range)))).collect())
    }
}

pub(crate) fn run(args: &FeesArgs) -> anyhow::Result<(Report, &Common)> {
    rounds::run_on_each_node("fees", &args.common, |node| parts(args, node))
}

fn parts(args: &FeesArgs, node: &Node) -> anyhow::Result<Vec<Box<dyn Part>>> {
    let head = node.rpc.block_number()?;
    let part = |shape: &Shape| {
        let bodies = shape.bodies(head, args.common.seed)?;
        let name = shape.name();
        Ok(Box::new(Calls::new(&name, &args.common, node, bodies)) as Box<dyn Part>)
    };
    args.shapes.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_parsed_and_their_requests_depend_only_on_the_seed() {
        let shape: Shape = "20:10,50.5@old".parse().unwrap();
        assert_eq!(shape, Shape { count: 20, percentiles: vec![10.0, 50.5], old: true });
        assert!("1:".parse::<Shape>().unwrap().percentiles.is_empty());
        for invalid in ["", "x:1", "1", "0:1", "1:a"] {
            assert!(invalid.parse::<Shape>().is_err(), "{invalid}");
        }
        assert!(shape.bodies(20, 1).is_err(), "too few blocks for old ranges");
        assert_eq!(shape.bodies(1000, 1).unwrap(), shape.bodies(1000, 1).unwrap());
    }
}
