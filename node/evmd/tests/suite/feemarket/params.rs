//! Tests valid and invalid parameters in all encodings.

use super::dec;
use alloy_primitives::hex;
use feemarket::{
    Genesis, LegacyDec, Market, Params, Scaled, TokenDecimals,
    query::{BaseFeeResponse, BlockGasResponse, ParamsResponse},
};
use proptest::prelude::*;
use serde_json::{Value, json};

const DEFAULT_PROTO: [u8; 57] = hex!(
    "10081802321c313030303030303030303030303030303030303030303030303030303a013042"
    "12353030303030303030303030303030303030"
);

fn default_json() -> Value {
    serde_json::to_value(Params::default()).unwrap()
}

fn with(field: &str, value: Value) -> Value {
    let mut json = default_json();
    json[field] = value;
    json
}

#[test]
fn defaults_have_the_encodings_of_the_reference() {
    let params = Params::default();
    assert_eq!(params.to_proto(), DEFAULT_PROTO);
    assert_eq!(Params::from_proto(&DEFAULT_PROTO), Ok(params.clone()));
    let response = ParamsResponse { params: params.clone() };
    assert_eq!(response.to_proto(), [&hex!("0a39")[..], &DEFAULT_PROTO].concat());
    let json = r#"{"no_base_fee":false,"base_fee_change_denominator":8,"elasticity_multiplier":2,"enable_height":"0","base_fee":"1000000000.000000000000000000","min_gas_price":"0.000000000000000000","min_gas_multiplier":"0.500000000000000000"}"#;
    assert_eq!(serde_json::to_string(&params).unwrap(), json);
    assert_eq!(
        serde_json::to_string(&response).unwrap(),
        format!("{{\"params\":{json}}}"),
        "one line, with the fields in the order of the protobuf message"
    );
    let genesis = format!("{{\"params\":{json},\"block_gas\":\"0\"}}");
    assert_eq!(serde_json::to_string(&Genesis::default()).unwrap(), genesis);
    assert_eq!(serde_json::from_str::<Genesis>(&genesis).unwrap(), Genesis::default());
    let scaled = json!({
        "no_base_fee": false, "base_fee_change_denominator": 8, "elasticity_multiplier": 2,
        "enable_height": 0, "base_fee": "1000000000000000000000000000", "min_gas_price": "0",
        "min_gas_multiplier": "500000000000000000",
    });
    assert_eq!(serde_json::to_value(Scaled(&params)).unwrap(), scaled);
}

#[test]
fn parameters_are_formatted_for_the_command_line() {
    let params = Params { base_fee: dec("875000000"), ..Params::default() };
    let market = Market::new(Genesis { params, block_gas: 21_000 }, TokenDecimals::EVM).unwrap();
    let text = "params:
  base_fee: \"875000000.000000000000000000\"
  base_fee_change_denominator: 8
  elasticity_multiplier: 2
  enable_height: \"0\"
  min_gas_multiplier: \"0.500000000000000000\"
  min_gas_price: \"0.000000000000000000\"
  no_base_fee: false
";
    assert_eq!(ParamsResponse::of(&market).to_text(), text);
    let base_fee = BaseFeeResponse::of(&market);
    assert_eq!(base_fee.to_text(), "base_fee: \"875000000.000000000000000000\"\n");
    let json = r#"{"base_fee":"875000000.000000000000000000"}"#;
    assert_eq!(serde_json::to_string(&base_fee).unwrap(), json);
    let gas = BlockGasResponse::of(&market);
    assert_eq!(gas.to_text(), "gas: \"21000\"\n");
    assert_eq!(serde_json::to_string(&gas).unwrap(), r#"{"gas":"21000"}"#);
    assert_eq!(gas.to_proto(), hex!("0888a401"));
    let proto = [&hex!("0a1b")[..], b"875000000000000000000000000"].concat();
    assert_eq!(base_fee.to_proto(), proto);
}

#[test]
fn both_encodings_are_accepted_everywhere() {
    let expected = Params {
        enable_height: 7,
        min_gas_price: dec("0.000000000000000001"),
        ..Params::default()
    };
    for json in [
        r#"{"base_fee_change_denominator":8,"elasticity_multiplier":2,"enable_height":"7","base_fee":"1000000000","min_gas_price":"0.000000000000000001","min_gas_multiplier":"0.5"}"#,
        r#"{"base_fee_change_denominator":"8","elasticity_multiplier":"2","enable_height":7,"base_fee":"1000000000000000000000000000","min_gas_price":"1","min_gas_multiplier":"500000000000000000"}"#,
    ] {
        assert_eq!(serde_json::from_str::<Params>(json).unwrap(), expected, "{json}");
    }
    // The fields have another order, one decimal has a point, and one field is unknown.
    let proto = [&hex!("3201313a0130420330")[..], b".5", &hex!("18021008fa06020102")].concat();
    let params = Params::from_proto(&proto).unwrap();
    assert_eq!(params.min_gas_multiplier, dec("0.5"));
    assert_eq!(params.base_fee, dec("0.000000000000000001"));
}

#[test]
fn errors_are_reported_in_the_order_of_the_reference() {
    let rows = [
        (with("base_fee_change_denominator", json!(0)), "base fee change denominator cannot be 0"),
        (with("elasticity_multiplier", json!(0)), "elasticity multiplier cannot be zero: 0"),
        (with("enable_height", json!(-1)), "enable height cannot be negative: -1"),
        (with("enable_height", json!("-5")), "enable height cannot be negative: -5"),
        (
            with("base_fee", json!("-1")),
            "initial base fee cannot be negative: -1.000000000000000000",
        ),
        (with("base_fee", Value::Null), "invalid parameter: nil"),
        (with("min_gas_price", Value::Null), "invalid parameter: nil"),
        (with("min_gas_multiplier", Value::Null), "invalid parameter: nil"),
        (with("min_gas_price", json!("-0.5")), "value cannot be negative: -0.500000000000000000"),
        (
            with("min_gas_multiplier", json!("-0.1")),
            "value cannot be negative: -0.100000000000000000",
        ),
        (
            with("min_gas_multiplier", json!("1.000000000000000001")),
            "value cannot be greater than 1: 1.000000000000000001",
        ),
        (with("base_fee_change_denominator", json!(4_294_967_296_u64)), "not an integer in range"),
        (with("elasticity_multiplier", json!(1.5)), "not an integer in range"),
        (with("base_fee", json!("1e9")), "base_fee: `1e9` is not a decimal number"),
        (with("base_fee", json!(7)), "invalid type"),
        (with("no_base_fee", json!("false")), "invalid type"),
        (with("base_fees", json!("1")), "unknown field"),
    ];
    for (json, reason) in rows {
        let error = serde_json::from_value::<Params>(json.clone()).unwrap_err().to_string();
        assert!(error.contains(reason), "{json}: {error}");
    }
    // If several fields are invalid, the error names the first one in the reference's order.
    let mut all = with("base_fee_change_denominator", json!(0));
    for (field, value, reason) in [
        ("base_fee_change_denominator", json!(8), "denominator"),
        ("base_fee", json!("1.0"), "initial base fee"),
        ("enable_height", json!("0"), "enable height"),
        ("elasticity_multiplier", json!(2), "elasticity"),
        ("min_gas_multiplier", json!("0.5"), "value cannot be greater than 1"),
        ("min_gas_price", json!("0.0"), "value cannot be negative: -3"),
    ] {
        for (name, invalid) in [
            ("base_fee", "-1.0"),
            ("enable_height", "-1"),
            ("elasticity_multiplier", "0"),
            ("min_gas_multiplier", "2.0"),
            ("min_gas_price", "-3.0"),
        ] {
            if all[name] == default_json()[name] && reason == "denominator" {
                all[name] = json!(invalid);
            }
        }
        let error = serde_json::from_value::<Params>(all.clone()).unwrap_err().to_string();
        assert!(error.contains(reason), "{all}: {error}");
        all[field] = value;
    }
    assert!(serde_json::from_value::<Params>(all).is_ok());
}

#[test]
fn prices_that_do_not_fit_into_a_header_are_rejected() {
    let max = dec("18446744073709551615");
    for (field, reason) in [("base_fee", "base_fee"), ("min_gas_price", "min_gas_price")] {
        let params: Params =
            serde_json::from_value(with(field, json!("18446744073709551615.1"))).unwrap();
        let market = Market::new(Genesis { params, block_gas: 0 }, TokenDecimals::EVM);
        let error = market.unwrap_err().to_string();
        assert!(error.starts_with(reason) && error.contains("header"), "{error}");
    }
    let params = Params { base_fee: max, ..Params::default() };
    assert!(Market::new(Genesis { params, block_gas: 0 }, TokenDecimals::EVM).is_ok());
    // With six decimals, the same number of tokens is 10^12 times as many wei.
    let six = TokenDecimals::new(6).unwrap();
    let params = Params { base_fee: max, ..Params::default() };
    assert!(Market::new(Genesis { params, block_gas: 0 }, six).is_err());
}

prop_compose! {
    /// Any parameters, valid or invalid.
    pub(crate) fn any_params()(
        no_base_fee: bool,
        base_fee_change_denominator in prop_oneof![0..4_u32, any::<u32>()],
        elasticity_multiplier in prop_oneof![0..4_u32, any::<u32>()],
        enable_height in prop_oneof![-1..10_i64, any::<i64>()],
        prices in any::<(i128, i128)>(),
        small in any::<bool>(),
        multiplier in prop_oneof![-1..=1_000_000_000_000_000_001_i128, any::<i128>()],
    ) -> Params {
        let raw = |value: i128| {
            LegacyDec::from_raw(alloy_primitives::aliases::I512::try_from(value).unwrap()).unwrap()
        };
        let price = |value: i128| raw(if small { (value >> 64).abs() } else { value });
        Params {
            no_base_fee,
            base_fee_change_denominator,
            elasticity_multiplier,
            enable_height,
            base_fee: price(prices.0),
            min_gas_price: price(prices.1),
            min_gas_multiplier: raw(multiplier),
        }
    }
}

proptest! {
    #[test]
    fn valid_parameters_survive_every_encoding(params in any_params()) {
        if params.validate().is_err() {
            prop_assert!(Params::from_proto(&params.to_proto()).is_err());
            return Ok(());
        }
        prop_assert_eq!(&Params::from_proto(&params.to_proto()).unwrap(), &params);
        let json = serde_json::to_string(&params).unwrap();
        prop_assert_eq!(serde_json::from_str::<Params>(&json).unwrap(), params);
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        drop(Params::from_proto(&bytes));
        drop(serde_json::from_slice::<Genesis>(&bytes));
    }

    #[test]
    fn mutated_bytes_do_not_panic(at in 0..57_usize, byte: u8, cut in 0..=57_usize) {
        let mut proto = DEFAULT_PROTO;
        proto[at] = byte;
        drop(Params::from_proto(&proto));
        drop(Params::from_proto(&proto[..cut]));
        let mut json = serde_json::to_vec(&Params::default()).unwrap();
        let at = at * json.len() / 57;
        json[at] = byte;
        drop(serde_json::from_slice::<Params>(&json));
    }
}
