//! How what `hotcc rx` found is printed.

use super::print::{print_json, row, table};
use hotcc::rx::{Receiver, Status};
use hotcc_host::error::Result;

fn place(receiver: &Receiver) -> String {
    receiver.cgroup.as_ref().map_or_else(|| "a cgroup that is gone".to_owned(), |path| path.display().to_string())
}

/// After a load or an unload.
pub fn changed(done: &str, receiver: &Receiver, json: bool) -> Result<()> {
    if json {
        return print_json(receiver);
    }
    println!("{done} {} for the sockets in {}", receiver.method.name(), place(receiver));
    Ok(())
}

pub fn status(status: &Status, json: bool) -> Result<()> {
    if json {
        return print_json(status);
    }
    if status.receivers.is_empty() {
        println!("no receiver is loaded; see: hotcc rx load --help");
    }
    for receiver in &status.receivers {
        println!("{} for the sockets in {}", receiver.method.name(), place(receiver));
        let rows: Vec<_> = receiver.tunables.iter().map(|t| row(["   ", &t.name, &t.value, &t.unit])).collect();
        table(&rows);
    }
    let Some(counters) = status.counters.map(|counters| counters.0) else { return Ok(()) };
    println!("since this machine has hotcc rx, over all loads and sockets:");
    table(&[
        row(["   connections whose ends both know hints", &counters.flows_agreed.to_string()]),
        row(["   hints made of estimates", &counters.hints_made.to_string()]),
        row(["   ACKs that carried one", &counters.hints_sent.to_string()]),
        row(["   ACKs without room for one", &counters.hints_without_room.to_string()]),
        row(["   hints taken from ACKs", &counters.hints_received.to_string()]),
        row(["   ACKs whose hint was refused", &counters.hints_refused.to_string()]),
        row(["   hints acted on", &counters.hints_applied.to_string()]),
        row(["   connections whose window DRWA grants", &counters.flows_clamped.to_string()]),
        row(["   window clamps set", &counters.clamps_set.to_string()]),
        row(["   window clamps that the kernel refused", &counters.clamps_refused.to_string()]),
    ]);
    Ok(())
}
