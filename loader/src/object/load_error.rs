//! Why the kernel did not take an object: libbpf's and the verifier's words, shortened and explained.

use super::libbpf_log;
use hotcc_host::error::Error;

pub(crate) fn load_error(cc_name: &str, origin: &str, error: &libbpf_rs::Error, log: &str) -> Error {
    const SHOWN_LINES: usize = 20;
    let Some(verifier) = libbpf_log::verifier_log(log) else {
        let reason = log.lines().last().unwrap_or_default().trim();
        let hint = kfunc_hint(log).unwrap_or_default();
        let kind = Error::failed(format!("cannot load {cc_name} ({origin}): {error}; {reason}{hint}"));
        return if log.contains("-ENOTSUP") || log.contains("not supported") {
            Error::kernel_lacks(kind.to_string())
        } else {
            kind
        };
    };
    let lines: Vec<&str> = verifier.lines().collect();
    let tail = lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n  ");
    let whole = match libbpf_log::keep(cc_name, verifier) {
        Ok(path) => format!("full log ({} lines): {}", lines.len(), path.display()),
        Err(why) => format!("cannot write the full log: {why}"),
    };
    Error::failed(format!(
        "cannot load {cc_name} ({origin}): the kernel's verifier rejects it ({error}).\n  {tail}\n{whole}"
    ))
}

/// Explains libbpf's complaint about a kernel function that the object declares.
fn kfunc_hint(log: &str) -> Option<String> {
    let (name, complaint) = log.split_once("extern (func ksym) '")?.1.split_once("': ")?;
    let hint = if complaint.starts_with("func_proto ") {
        format!(
            "the object declares the kernel function {name} with arguments or a result that differ from this kernel's BTF; \
                 correct its `extern ... {name}(...) __ksym` and compile again"
        )
    } else if complaint.starts_with("not found") {
        format!(
            "this kernel has no function {name} that BPF may call; declare it `__weak` and handle its absence, or boot a \
                 kernel that has it"
        )
    } else {
        return None;
    };
    Some(format!("\n  {hint}"))
}
