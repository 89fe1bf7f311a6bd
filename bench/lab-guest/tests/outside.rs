//! `hotcc-guest` outside a guest: it must not change the machine on which it is started.

use hotcc_testbed::command::failed;
use std::process::Command;

#[test]
fn outside_of_a_guest_it_refuses_to_run() {
    let output = Command::new(env!("CARGO_BIN_EXE_hotcc-guest")).output().unwrap();
    let said = failed(2, &output);
    assert_eq!(said, "hotcc-guest is the init process of the lab's virtual machine; use `hotcc-bench lab` instead\n");
    assert!(output.stdout.is_empty());
}
