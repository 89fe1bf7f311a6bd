//! Tests that the exporter shows what the open flows of an algorithm believe.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;
#[path = "common/exported.rs"]
mod exported;
#[path = "common/fed.rs"]
mod fed;
use common::*;
use exported::{exporter, scrape, value};
use fed::Fed;
use std::net::SocketAddr;

const CC: &str = "crest_belief";
const MIB: usize = 1 << 20;

/// Returns a field of the state, summed over the open connections.
fn summed(field: &str) -> f64 {
    let flows = json(&["flows", "--cc", CC, "--json"]);
    let states = flows.as_array().unwrap().iter().flat_map(|flow| flow["state"].as_array().unwrap());
    states.filter(|one| one["name"] == field).map(|one| one["value"].as_f64().unwrap()).sum()
}

/// Checks the sums against the connections' own states, and the counts against their number. The connections are idle.
#[track_caller]
fn agrees(page: &str) {
    for (field, one) in [("signal.weight", 256.0), ("signal.error_with", 8192.0), ("signal.error_without", 8192.0)] {
        let series = format!(r#"hotcc_state_sum_ratio{{cc="{CC}",field="{field}"}}"#);
        assert_eq!(value(page, &series), Some(summed(field) / one), "{field}");
    }
    let forecast = value(page, &format!(r#"hotcc_forecast_sum_bytes_per_second{{cc="{CC}"}}"#)).unwrap();
    let of_flows = summed("forecast") / 8.0;
    assert!((forecast - of_flows).abs() <= 0.02 * of_flows, "{forecast}, {of_flows}: logarithms have an error of 1 %");
    let sockets = value(page, &format!(r#"hotcc_sockets{{cc="{CC}",version="current"}}"#)).unwrap();
    for field in ["phase", "signal.radio.kind"] {
        let series = format!(r#"hotcc_open_sockets_by_state{{cc="{CC}",field="{field}","#);
        let lines = page.lines().filter(|line| line.starts_with(&series));
        let total: f64 = lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum();
        assert_eq!(total, sockets, "{field}");
    }
}

#[test]
fn what_crest_believes_is_exported() {
    let Some(_test) = kernel_test("what_crest_believes_is_exported", &[CC]) else { return };
    let ns = NetNs::new("hotcc-test-belief");
    // without a bottleneck, the flow would see no queue, and would not learn
    ns.sh("tc qdisc add dev lo root tbf rate 500mbit burst 256kb latency 20ms");
    ns.enter(|| {
        ok(&["load", "crest", "--as", CC]);
        let (_exporter, address) = exporter(&[]);
        let mut connection = Connection::new(CC);
        without_and_with_readings(address, &mut connection);
    });
}

fn without_and_with_readings(address: SocketAddr, connection: &mut Connection) {
    let of_kind = |page: &str, kind: &str| {
        value(page, &format!(r#"hotcc_open_sockets_by_state{{cc="{CC}",field="signal.radio.kind",value="{kind}"}}"#))
    };
    connection.send(4 * MIB);
    let page = scrape(address);
    agrees(&page);
    assert_eq!((of_kind(&page, "sinr"), of_kind(&page, "capacity")), (Some(0.0), Some(0.0)));
    assert_eq!((summed("signal.error_with"), summed("forecast")), (0.0, 0.0));
    let fed = Fed::new("127.0.0.1/32", 5000);
    let has_learned = (0..10).any(|_| {
        // on a busy machine, the flow may see no queue for a while
        for _ in 0..20 {
            fed.publish(25.0, 20.0, 0);
            connection.send(4 * MIB);
        }
        summed("signal.error_with") > 0.0 && summed("signal.weight") > 0.0
    });
    assert!(has_learned, "it has learned nothing");
    let page = scrape(address);
    agrees(&page);
    assert_eq!(of_kind(&page, "sinr"), Some(1.0));
    let forecast_mbps = summed("forecast") / 1e6;
    assert!((100.0..2500.0).contains(&forecast_mbps), "a link of 500 Mbit/s: {forecast_mbps}");
    // the previous version's connections still count after a swap
    ok(&["swap", CC, "crest"]);
    assert_eq!(of_kind(&scrape(address), "sinr"), Some(1.0));
}
