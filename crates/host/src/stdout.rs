//! Programs whose standard output cannot be written, for example because it is a file on a full disk.

use std::any::Any;
use std::panic;
use std::process::ExitCode;

/// How `println!` begins its panic's message.
const CANNOT_PRINT: &str = "failed printing to stdout: ";

/// Runs a program. If it cannot print, it is unwound, a line on stderr says why, and the exit code is 1: neither a
/// panic's report nor its exit code.
pub fn run(program: &'static str, main: impl FnOnce() -> ExitCode) -> ExitCode {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| match cannot_print(info.payload()) {
        Some(why) => eprintln!("{program}: cannot write to standard output: {why}"),
        None => report(info),
    }));
    panic::catch_unwind(panic::AssertUnwindSafe(main)).unwrap_or_else(|payload| match cannot_print(&*payload) {
        Some(_) => ExitCode::FAILURE,
        None => panic::resume_unwind(payload),
    })
}

fn cannot_print(payload: &dyn Any) -> Option<&str> {
    payload.downcast_ref::<String>()?.strip_prefix(CANNOT_PRINT)
}
