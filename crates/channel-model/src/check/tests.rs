use crate::spec::RadioSpec;

/// Returns the error of a description, which is the TOML of its table.
fn error(text: &str) -> String {
    let spec: RadioSpec = toml::from_str(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    spec.check().expect_err(text).to_string()
}

const UMI: &str = r#"model = "umi"
carrier_ghz = 28
tx_power_dbm = 30
tx_gain_dbi = 0
rx_gain_dbi = 0
noise_figure_db = 9
interference_dbm = -90
sinr_offset_db = 0
line_of_sight = "obstacles"
station = { at = [0, 0], height_m = 10 }
ue = { path = [{ at = [50, -10], wait_s = 1 }, { at = [50, 10] }], speed_mps = 1.5, height_m = 1.5 }
obstacles = [{ shape = "rectangle", from = [20, -2], to = [25, 2], extra_loss_db = 10 }]
shadowing = { los_sigma_db = 4, nlos_sigma_db = 8, los_correlation_m = 10, nlos_correlation_m = 13 }
fading = { rician_k_db = 9, least_doppler_hz = 1, branches = 4 }
rate = { table = "cqi-nr-256qam", bandwidth_mhz = 400, overhead = 0.2 }
"#;

#[test]
fn every_impossible_value_of_a_user_is_named() {
    let good: RadioSpec = toml::from_str(UMI).unwrap();
    good.check().unwrap();
    for (from, to, expected) in [
        ("carrier_ghz = 28", "carrier_ghz = 0", "carrier_ghz = 0: must be from 0.5 to 100"),
        ("carrier_ghz = 28", "carrier_ghz = nan", "carrier_ghz = NaN: must be from 0.5 to 100"),
        ("tx_power_dbm = 30", "tx_power_dbm = inf", "tx_power_dbm = inf: must be from -200 to 100"),
        ("tx_gain_dbi = 0", "tx_gain_dbi = 61", "tx_gain_dbi = 61: must be from -50 to 60"),
        ("rx_gain_dbi = 0", "rx_gain_dbi = -51", "rx_gain_dbi = -51: must be from -50 to 60"),
        ("noise_figure_db = 9", "noise_figure_db = -1", "noise_figure_db = -1: must be from 0 to 40"),
        ("interference_dbm = -90", "interference_dbm = 101", "interference_dbm = 101: must be from -200 to 100"),
        ("sinr_offset_db = 0", "sinr_offset_db = 200", "sinr_offset_db = 200: must be from -100 to 100"),
        ("height_m = 10", "height_m = 1", "station.height_m = 1: must be from 2 to 100"),
        ("station = { at = [0, 0]", "station = { at = [0, nan]", "station.at = [0.0, NaN]: must be two numbers"),
        ("height_m = 1.5", "height_m = 30", "ue.height_m = 30: must be from 1.5 to 22.5"),
        ("speed_mps = 1.5", "speed_mps = 0", "ue.speed_mps = 0: must be from 0.01 to 150"),
        ("{ at = [50, 10] }", "{ at = [50, inf] }", "ue.path[1].at = [50.0, inf]: must be two numbers"),
        ("{ at = [50, 10] }", "{ at = [5001, 0] }", "ue.path[1].at = [5001.0, 0.0]: must be at most 5000 m from the"),
        ("wait_s = 1 }", "wait_s = -1 }", "ue.path[0].wait_s = -1: must be from 0 to 86400"),
        ("to = [25, 2]", "to = [20, 2]", "obstacles[0].to = [20.0, 2.0]: must differ from `from` in x and y"),
        ("from = [20, -2]", "from = [1e9, -2]", "obstacles[0].from = [1000000000.0, -2.0]: must be two numbers"),
        ("extra_loss_db = 10", "extra_loss_db = -1", "obstacles[0].extra_loss_db = -1: must be from 0 to 200"),
        ("\"obstacles\"", "\"always\"", "obstacles = [1 obstacles]: need line_of_sight = \"obstacles\""),
        ("los_sigma_db = 4", "los_sigma_db = 31", "shadowing.los_sigma_db = 31: must be from 0 to 30"),
        ("nlos_sigma_db = 8", "nlos_sigma_db = -1", "shadowing.nlos_sigma_db = -1: must be from 0 to 30"),
        ("los_correlation_m = 10", "los_correlation_m = 0", "shadowing.los_correlation_m = 0: must be from 0.1"),
        ("nlos_correlation_m = 13", "nlos_correlation_m = 0", "shadowing.nlos_correlation_m = 0: must be from 0.1"),
        ("rician_k_db = 9", "rician_k_db = 41", "fading.rician_k_db = 41: must be from -40 to 40"),
        ("least_doppler_hz = 1", "least_doppler_hz = -1", "fading.least_doppler_hz = -1: must be from 0 to 50000"),
        ("branches = 4", "branches = 0", "fading.branches = 0: must be from 1 to 64"),
        ("bandwidth_mhz = 400", "bandwidth_mhz = 0", "rate.bandwidth_mhz = 0: must be from 0.1 to 10000"),
        ("overhead = 0.2", "overhead = 1", "rate.overhead = 1: must be from 0 to 0.99"),
        ("overhead = 0.2", "scale_to_bps = 0", "rate.scale_to_bps = 0: must be from 1 to 1000000000000000"),
        (
            "overhead = 0.2",
            "overhead = 0.2, scale_to_bps = 1e9",
            "rate.overhead = 0.2: has no effect with scale_to_bps",
        ),
    ] {
        let text = UMI.replacen(from, to, 1);
        assert_ne!(text, UMI, "{from}");
        let error = error(&text);
        assert!(error.starts_with(expected), "{error}\n{expected}");
    }
    let nowhere = UMI.replace("[{ at = [50, -10], wait_s = 1 }, { at = [50, 10] }]", "[]");
    assert_eq!(error(&nowhere), "ue.path = [0 points]: must have 1 to 1000 points");
    let wall = UMI.replace("\"rectangle\"", "\"wall\"").replace("to = [25, 2]", "to = [20, -2]");
    assert_eq!(error(&wall), "obstacles[0].to = [20.0, -2.0]: must differ from `from`");
}

#[test]
fn every_impossible_value_of_given_series_is_named() {
    for (text, expected) in [
        ("model = 'constant'", "capacity_bps is missing: give it, or both sinr_db and `rate`, which computes capacity"),
        ("model = 'constant'\nsinr_db = 1", "capacity_bps is missing: give it, or both sinr_db and `rate`"),
        (
            "model = 'constant'\nrate = { table = 'shannon', bandwidth_mhz = 1 }",
            "sinr_db is missing: `rate` computes capacity from it",
        ),
        (
            "model = 'constant'\nsinr_db = 1\ncapacity_bps = 5\nrate = { table = 'shannon', bandwidth_mhz = 1 }",
            "capacity_bps = 5: `rate` already computes capacity from sinr_db; remove one of them",
        ),
        ("model = 'constant'\ncapacity_bps = -1", "capacity_bps = -1: must be from 0 to 1000000000000000"),
        ("model = 'constant'\ncapacity_bps = 1\nsinr_db = 61", "sinr_db = 61: must be from -40 to 60"),
        ("model = 'constant'\ncapacity_bps = 1\nname = ''", "name = \"\": must not be empty"),
        ("model = 'steps'", "capacity_bps is missing"),
        ("model = 'steps'\ncapacity_bps = []", "capacity_bps = []: must have at least one pair, at 0 s"),
        ("model = 'steps'\ncapacity_bps = [[1, 5]]", "capacity_bps[0][0] = 1: the first time must be 0"),
        ("model = 'steps'\ncapacity_bps = [[0, 5], [0, 6]]", "capacity_bps[1][0] = 0: must be later than the previous"),
        ("model = 'steps'\ncapacity_bps = [[0, 5], [1, -6]]", "capacity_bps[1][1] = -6: must be from 0 to"),
        ("model = 'steps'\ncapacity_bps = [[0, 5], [nan, 6]]", "capacity_bps[1][0] = NaN: must be from 0 to 86400"),
        (
            "model = 'steps'\ncapacity_bps = [[0, 5], [3, 6]]\nrepeat_s = 3",
            "capacity_bps[1][0] = 3: must be earlier than repeat_s",
        ),
        ("model = 'steps'\ncapacity_bps = [[0, 5]]\nrepeat_s = 0", "repeat_s = 0: must be from 0.01 to 86400"),
        ("model = 'trace'\nfile = ''", "file = \"\": must name a trace"),
        ("model = 'trace'\nfile = 'a'\nscale_to_bps = 0", "scale_to_bps = 0: must be from 1 to"),
        (
            "model = 'trace'\nfile = 'a'\nscale_to_bps = 5\nrate = { table = 'cqi-lte', bandwidth_mhz = 20 }",
            "scale_to_bps = 5: cannot be used with `rate`, which replaces the trace's capacity",
        ),
    ] {
        let error = error(text);
        assert!(error.starts_with(expected), "{error}\n{expected}");
    }
}

#[test]
fn unknown_keys_are_refused() {
    for (from, to) in [
        ("carrier_ghz = 28", "carrier_ghz = 28\ncarrier_mhz = 1"),
        ("branches = 4", "branchs = 4"),
        ("speed_mps = 1.5", "speed_mps = 1.5, speed = 2"),
        ("extra_loss_db = 10", "loss_db = 10"),
        ("bandwidth_mhz = 400", "bandwidth_mhz = 400, band = 1"),
        ("model = \"umi\"", "model = \"uma\""),
        ("cqi-nr-256qam", "cqi-nr-1024qam"),
    ] {
        assert!(toml::from_str::<RadioSpec>(&UMI.replacen(from, to, 1)).is_err(), "{to}");
    }
}
