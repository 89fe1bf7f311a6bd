//! Captures what libbpf prints, which includes the verifier's log.

use hotcc_abi::pins;
use hotcc_host::error::{Result, Tried};
use hotcc_host::root_dir::{PUBLIC, RootDir};
use libbpf_rs::libbpf_sys as bpf;
use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const BEGIN: &str = "-- BEGIN PROG LOAD LOG --";

thread_local! {
    /// The text that libbpf printed in this thread; other threads use libbpf at the same time.
    static TEXT: RefCell<String> = const { RefCell::new(String::new()) };
}
/// Serialises captures: libbpf has one print hook per process.
static TURN: Mutex<()> = Mutex::new(());

type Hook = unsafe extern "C" fn(bpf::libbpf_print_level, *const c_char, *mut c_void) -> c_int;

/// The print hook. libbpf-rs's own hook accepts only valid UTF-8, but a message may quote any bytes of an object.
unsafe extern "C" fn collect(level: bpf::libbpf_print_level, format: *const c_char, arguments: *mut c_void) -> c_int {
    if level == bpf::LIBBPF_WARN {
        // SAFETY: libbpf passes a format and the arguments for it.
        let bytes = unsafe { vsprintf::vsprintf_raw(format, arguments) }.unwrap_or_default();
        let _ = TEXT.try_with(|text| text.borrow_mut().push_str(&String::from_utf8_lossy(&bytes)));
    }
    0
}

/// Runs `work`, and returns its result and the warnings that libbpf printed meanwhile.
pub fn capture<T>(work: impl FnOnce() -> T) -> (T, String) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    TEXT.take();
    // SAFETY: both types are functions with the same arguments. They differ only in the last one: `bindgen` uses the
    // platform's name for `va_list`, which all supported platforms pass as a pointer.
    let before = unsafe { bpf::libbpf_set_print(std::mem::transmute::<Hook, bpf::libbpf_print_fn_t>(collect)) };
    let result = work();
    // SAFETY: this restores the previous hook.
    unsafe { bpf::libbpf_set_print(before) };
    (result, TEXT.take())
}

/// Runs `work` while no other thread captures libbpf's output.
pub(super) fn alone<T>(work: impl FnOnce() -> T) -> T {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    work()
}

/// Returns the line that names what failed and the errno. The lines after it only say that the whole object failed.
#[must_use]
pub fn cause(text: &str) -> &str {
    let before_log = text.split(BEGIN).next().unwrap_or(text);
    let says_nothing = |line: &str| {
        line.ends_with("':") || line.contains(": failed to load: ") || line.contains("failed to load object")
    };
    before_log.lines().map(str::trim).rfind(|line| !says_nothing(line)).unwrap_or_default()
}

/// Returns the verifier's log in libbpf's output.
#[must_use]
pub fn verifier_log(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once(BEGIN)?;
    Some(rest.split("-- END PROG LOAD LOG --").next().unwrap_or(rest).trim_matches('\n'))
}

/// Writes a verifier log to a file, and returns its path.
pub fn keep(cc_name: &str, log: &str) -> Result<PathBuf> {
    let run = Path::new(pins::RUN);
    let path = run.join(format!("verifier-{cc_name}.log"));
    RootDir::open_or_new(run, PUBLIC)?;
    std::fs::write(&path, log).tried(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}
