//! What libbpf prints, kept instead of shown: the verifier's log is in there.

use hotcc_abi::pins;
use libbpf_rs::{PrintLevel, set_print};
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

static TEXT: Mutex<String> = Mutex::new(String::new());
/// libbpf's print hook is one for the process, so captures take turns.
static TURN: Mutex<()> = Mutex::new(());

fn collect(_level: PrintLevel, text: String) {
    TEXT.lock().unwrap_or_else(PoisonError::into_inner).push_str(&text);
}

/// Runs `work`; returns its result and what libbpf warned of meanwhile.
pub fn capture<T>(work: impl FnOnce() -> T) -> (T, String) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    TEXT.lock().unwrap_or_else(PoisonError::into_inner).clear();
    let before = set_print(Some((PrintLevel::Warn, collect)));
    let result = work();
    set_print(before);
    (result, std::mem::take(&mut *TEXT.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// The verifier's part of libbpf's output.
#[must_use]
pub fn verifier_log(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("-- BEGIN PROG LOAD LOG --")?;
    Some(rest.split("-- END PROG LOAD LOG --").next().unwrap_or(rest).trim_matches('\n'))
}

/// Writes a verifier log where it can be read later.
pub fn keep(cc_name: &str, log: &str) -> io::Result<PathBuf> {
    let path = PathBuf::from(pins::RUN).join(format!("verifier-{cc_name}.log"));
    std::fs::create_dir_all(pins::RUN)?;
    std::fs::write(&path, log)?;
    Ok(path)
}
