//! `sinr-feeder`'s `wifi` source on a stock kernel of the lab: two simulated radios (mac80211_hwsim) meet in an ad hoc
//! network; the feeder must publish what `iw` reports about them.

use crate::common::machine::{Processor, stock_kernel};
use hotcc_lab::guest;
use hotcc_lab::image::Image;
use hotcc_lab::vm::{self, Clock, Machine};
use hotcc_lab_proto::job::{self, Job, Message};
use hotcc_testbed::command::build;
use hotcc_testbed::kernel::skipped;
use hotcc_testbed::programs::{companion_binary, system_program};
use serde_json::Value;
use std::fs::File;
use std::time::Duration;

/// Returns the word after `label`, as a number.
fn figure(text: &str, label: &str) -> f64 {
    let rest = text.split_once(label).unwrap_or_else(|| panic!("no `{label}` in {text}")).1;
    rest.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn wifi_readings_match_the_kernels_station_statistics() {
    const NAME: &str = "wifi_readings_match_the_kernels_station_statistics";
    let Ok(iw) = system_program("iw") else {
        skipped(NAME, "iw is not installed (./setup.sh installs it)");
        return;
    };
    let Some(kernel) = stock_kernel(NAME, "6.12-generic") else { return };
    build(&["sinr-feeder"]);

    let run = |line: &str| job::Command { words: line.split(' ').map(str::to_owned).collect(), ..Default::default() };
    let until = |line: &str, output: &str| job::Command { until: Some(output.to_owned()), ..run(line) };
    let mut commands: Vec<job::Command> = ["wlan0", "wlan1"]
        .iter()
        .flat_map(|interface| {
            [
                run(&format!("/bin/iw dev {interface} set type ibss")),
                run(&format!("/bin/ip link set {interface} up")),
                run(&format!("/bin/iw dev {interface} scan freq 2412")), // the scan fills the survey
                run(&format!("/bin/iw dev {interface} ibss join lab 2412 fixed-freq 02:00:00:00:00:99")),
            ]
        })
        .collect();
    let feeder = "/bin/sinr-feeder run --quiet --source wifi:wlan0 --link 192.0.2.7";
    commands.push(job::Command { stays: true, ..run(feeder) });
    let setup = commands.len() - 1;
    commands.extend([
        until("/bin/sinr-feeder show --json", "\"state\": \"fresh\""),
        // the other radio sends with 1 mW instead of 100 mW
        run("/bin/iw dev wlan1 set txpower fixed 0"),
        until("/bin/iw dev wlan0 station dump", "signal:  \t-50 dBm"),
        run("/bin/iw dev wlan0 survey dump"),
        until("/bin/sinr-feeder show --json", "\"rsrp_dbm\": -50.0"),
        run("/bin/sinr-feeder record --link 192.0.2.7 --seconds 2 --out /tmp/wifi.csv"),
        run("/bin/cat /tmp/wifi.csv"),
    ]);

    let scratch = tempfile::tempdir().unwrap();
    let mut image = Image::default();
    image.program("/bin/sinr-feeder", &companion_binary("sinr-feeder").unwrap()).unwrap();
    image.program("/bin/iw", &iw).unwrap();
    image.program("/bin/cat", &system_program("cat").unwrap()).unwrap();
    guest::build_initramfs(&mut image, &kernel, &["mac80211_hwsim"], &Job::Commands(commands)).unwrap();
    let initramfs = scratch.path().join("initramfs.cpio");
    image.write(&mut File::create(&initramfs).unwrap()).unwrap();
    let machine = Machine {
        kernel: kernel.clone(),
        memory_mib: 1024,
        clock: Clock::Virtual,
        results: None,
        cpu: None,
        patience: Duration::from_secs(300),
    };
    let _processor = Processor::take();
    let mut outputs = Vec::new();
    let done = vm::run(&machine, &initramfs, scratch.path(), |message| {
        if let Message::Output(text) = message {
            outputs.push(text.clone());
        }
        Ok(())
    });
    println!("{}", outputs.join("\n"));
    done.unwrap();
    let [first, _, station, survey, second, _, recorded] = &outputs[setup..] else { panic!("{outputs:?}") };
    let (signal_dbm, noise_dbm) = (figure(station, "signal:"), figure(survey, "noise:"));
    let sinr_db = signal_dbm - noise_dbm;
    let link = |shown: &str| serde_json::from_str::<Value>(shown).unwrap()["links"][0].clone();
    let (first, second) = (link(first), link(second));
    assert_eq!((&first["source"], &first["link"]), (&"wifi".into(), &"192.0.2.7/32".into()));
    // 20 dB more power gives 20 dB more signal; the map limits the SINR to 50 dB.
    assert_eq!((&first["sinr_db"], &first["rsrp_dbm"]), (&50.0.into(), &(signal_dbm + 20.0).into()), "{survey}");
    assert_eq!((&second["sinr_db"], &second["rsrp_dbm"]), (&sinr_db.into(), &signal_dbm.into()), "{survey}");
    let rows: Vec<&str> = recorded.lines().filter(|row| row.starts_with(|c: char| c.is_ascii_digit())).collect();
    assert!(rows.len() >= 10, "a reading every 100 ms for 2 s: {recorded}");
    assert!(rows.iter().all(|row| row.split(',').nth(1).unwrap().parse::<f64>().unwrap() == sinr_db), "{recorded}");
}
