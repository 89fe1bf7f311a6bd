//! Prints the results of `hotcc rx`.

use super::print::{print_json, row, say, table};
use hotcc::rx::{Receiver, Status};
use hotcc_host::error::Result;

fn cgroup_path(receiver: &Receiver) -> String {
    receiver.cgroup.as_ref().map_or_else(|| "a removed cgroup".to_owned(), |path| path.display().to_string())
}

/// Prints the result of a load or an unload.
pub fn changed(done: &str, receiver: &Receiver, json: bool) -> Result<()> {
    if json {
        return print_json(receiver);
    }
    say!("{done} {} for the sockets in {}", receiver.method.name(), cgroup_path(receiver));
    Ok(())
}

/// Prints the loaded receivers with their tunables, and the counters of all.
pub fn status(status: &Status, json: bool) -> Result<()> {
    if json {
        return print_json(status);
    }
    if status.receivers.is_empty() {
        say!("no receiver is loaded; to load one, see: hotcc rx load --help");
    }
    for receiver in &status.receivers {
        say!("{} for the sockets in {}", receiver.method.name(), cgroup_path(receiver));
        let rows: Vec<_> = receiver.tunables.iter().map(|t| row(["   ", &t.name, &t.value, &t.unit])).collect();
        table(&rows);
    }
    let Some(counters) = status.counters.map(|counters| counters.0) else { return Ok(()) };
    say!("since the first load on this machine, over all loads and sockets:");
    table(&[
        row(["   connections whose ends both support hints", &counters.flows_agreed.to_string()]),
        row(["   hints made from estimates", &counters.hints_made.to_string()]),
        row(["   ACKs sent with a hint", &counters.hints_sent.to_string()]),
        row(["   ACKs without room for a hint", &counters.hints_without_room.to_string()]),
        row(["   hints received in ACKs", &counters.hints_received.to_string()]),
        row(["   ACKs with a refused hint", &counters.hints_refused.to_string()]),
        row(["   hints applied by senders", &counters.hints_applied.to_string()]),
        row(["   connections whose receive window drwa controls", &counters.flows_clamped.to_string()]),
        row(["   window clamps set", &counters.clamps_set.to_string()]),
        row(["   window clamps refused by the kernel", &counters.clamps_refused.to_string()]),
    ]);
    Ok(())
}
