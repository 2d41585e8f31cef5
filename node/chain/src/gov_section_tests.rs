//! Tests which sets of governance parameters are accepted in a genesis.

use super::*;
use crate::Genesis;
use serde_json::{Value, json};

/// Reads the development genesis with these governance parameters, under this rules version.
fn read(params: &Value, version: u32) -> Result<GovParams, String> {
    let mut file: Value = serde_json::from_str(&Genesis::native_dev(0).to_json()).unwrap();
    let section = &mut file["config"]["evmd"];
    section["rules"] = json!([{ "version": version, "height": 0 }]);
    for (name, value) in params.as_object().unwrap() {
        section["gov"]["params"][name] = value.clone();
    }
    let genesis = Genesis::from_json(&file.to_string()).map_err(|error| error.to_string())?;
    Ok(genesis.spec.native().unwrap().gov.clone())
}

fn atest(amount: &str) -> Value {
    json!([{ "denom": "atest", "amount": amount }])
}

#[test]
fn parameters_are_compared_with_each_other_from_version_1_on() {
    let rows = [
        (json!({ "min_deposit": atest("50000000") }), "expedited_min_deposit: must be above"),
        (
            json!({ "expedited_min_deposit": atest("10000000") }),
            "expedited_min_deposit: must be above",
        ),
        (json!({ "min_deposit": atest("0") }), "min_deposit: must be above 0"),
        (json!({ "min_deposit": atest("0x10") }), "min_deposit: \"0x10\" must be a number"),
        (json!({ "expedited_min_deposit": atest("0x3000000") }), "must be a number"),
        (json!({ "voting_period": "15s" }), "expedited_voting_period: must be below voting_period"),
        (json!({ "threshold": "0.667" }), "expedited_threshold: must be above threshold"),
        (json!({ "threshold": "0" }), "threshold: must be above 0"),
        (json!({ "expedited_threshold": "0" }), "expedited_threshold: must be above 0"),
        (json!({ "veto_threshold": "0" }), "veto_threshold: must be above 0"),
    ];
    for (params, reason) in rows {
        let error = read(&params, 1).unwrap_err();
        assert!(error.contains(reason), "{params}: {error}");
        // An existing chain of version 0 may have such parameters.
        read(&params, 0).unwrap();
    }
    for (params, reason) in [
        (json!({ "min_deposit_ratio": "1.1" }), "params.min_deposit_ratio: 1.1 is not 0 to 1"),
        (json!({ "min_initial_deposit_ratio": "-0.1" }), "is not 0 to 1"),
        (json!({ "proposal_cancel_ratio": "x" }), "params.proposal_cancel_ratio: "),
        (json!({ "proposal_cancel_dest": "x" }), "params.proposal_cancel_dest: x: "),
        (json!({ "min_deposit_rate": "1" }), "unknown field"),
    ] {
        let error = read(&params, 0).unwrap_err();
        assert!(error.contains(reason), "{params}: {error}");
    }
}

#[test]
fn boundary_values_are_accepted() {
    for params in [
        json!({ "min_deposit": atest("49999999") }),
        json!({ "min_deposit": atest("1"), "expedited_min_deposit": atest("2") }),
        json!({ "voting_period": "16s" }),
        json!({ "threshold": "0.666999999999999999" }),
        json!({ "quorum": "0" }),
        json!({ "threshold": "0.000000000000000001", "expedited_threshold": "1" }),
        json!({ "min_initial_deposit_ratio": "1", "min_deposit_ratio": "0" }),
        json!({ "proposal_cancel_dest": "" }),
    ] {
        read(&params, 1).unwrap_or_else(|error| panic!("{params}: {error}"));
    }
}

/// The parameters are in the form in which `simd init` writes them and this node's query returns them.
#[test]
fn parameters_in_the_form_of_the_sdk_are_accepted() {
    let sdk = json!({
        "min_deposit": atest("10000000"),
        "max_deposit_period": "172800s",
        "voting_period": "172800s",
        "quorum": "0.334000000000000000",
        "threshold": "0.500000000000000000",
        "veto_threshold": "0.334000000000000000",
        "min_initial_deposit_ratio": "0.250000000000000000",
        "proposal_cancel_ratio": "0.500000000000000000",
        "proposal_cancel_dest": "",
        "expedited_voting_period": "86400s",
        "expedited_threshold": "0.667000000000000000",
        "expedited_min_deposit": atest("50000000"),
        "burn_vote_quorum": false,
        "burn_proposal_deposit_prevote": false,
        "burn_vote_veto": true,
        "min_deposit_ratio": "0.010000000000000000",
    });
    let params = read(&sdk, 1).unwrap();
    let shown = params.to_proto("atest");
    assert_eq!(shown.min_initial_deposit_ratio, "0.250000000000000000");
    assert_eq!(shown.min_deposit_ratio, "0.010000000000000000");
    assert_eq!(shown.proposal_cancel_ratio, "0.500000000000000000");
    assert_eq!(params.min_initial_deposit(false), U256::from(2_500_000));
    assert_eq!(params.min_single_deposit(true), U256::from(500_000));
}

#[test]
fn shares_are_rounded_as_the_sdk_rounds_them() {
    let params = |amount: &str, ratio: &str| {
        let deposits = json!({
            "min_deposit": atest(amount),
            "expedited_min_deposit": atest("100"),
            "min_initial_deposit_ratio": ratio,
            "min_deposit_ratio": ratio,
        });
        let params = read(&deposits, 1).unwrap();
        [params.min_initial_deposit(false), params.min_single_deposit(false)]
            .map(|share| share.to::<u64>())
    };
    // The first share is rounded to the nearest integer, half to even, and the second is rounded down.
    assert_eq!(params("5", "0.5"), [2, 2]);
    assert_eq!(params("7", "0.5"), [4, 3]);
    assert_eq!(params("5", "0.51"), [3, 2]);
    assert_eq!(params("5", "0.49"), [2, 2]);
    assert_eq!(params("5", "1"), [5, 5]);
    assert_eq!(params("5", "0"), [0, 0]);
}
