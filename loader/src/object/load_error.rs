//! Errors for objects that the kernel does not load: shortens and explains the messages of libbpf and the verifier.

use super::libbpf_log;
use hotcc_host::error::{Kind, Result, Tried};

/// Returns the result of loading an object; adds an explanation from libbpf's log to an error.
pub(crate) fn explained<T>(loaded: impl Tried<T>, cc_name: &str, origin: &str, log: &str) -> Result<T> {
    const SHOWN_LINES: usize = 20;
    /// With these errors the verifier did not reject the program, even if there is a log.
    const NO_VERDICTS: [&str; 5] = [": -EMFILE", ": -ENFILE", ": -ENOMEM", ": -EPERM", ": -EINTR"];
    let cannot = format!("cannot load {cc_name} ({origin})");
    let reason = libbpf_log::cause(log);
    let verdict = libbpf_log::verifier_log(log).filter(|_| !NO_VERDICTS.iter().any(|errno| reason.ends_with(errno)));
    let Some(verifier) = verdict else {
        let hint = kfunc_hint(log).unwrap_or_default();
        return loaded.tried(|| cannot).map_err(|error| {
            let error = error.and(&format!("{reason}{hint}"));
            let kernel_lacks = log.contains("-ENOTSUP") || log.contains("not supported");
            if kernel_lacks { error.as_kind(Kind::KernelLacks) } else { error }
        });
    };
    if let Some(helper) = missing_helper(verifier) {
        return loaded.tried(|| cannot).map_err(|error| error.and(&helper).as_kind(Kind::KernelLacks));
    }
    let complaint = complaint(verifier).map_or_else(String::new, |line| format!(": {line}"));
    loaded.tried(|| format!("{cannot}: the kernel's verifier rejects it{complaint}")).map_err(|error| {
        let lines: Vec<&str> = verifier.lines().collect();
        let tail = lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n  ");
        let whole = match libbpf_log::keep(cc_name, verifier) {
            Ok(path) => format!("full log ({} lines): {}", lines.len(), path.display()),
            Err(why) => format!("{why:#}"),
        };
        error.and(&format!("{reason}\nthe verifier's last lines:\n  {tail}\n{whole}"))
    })
}

/// Returns the line in which the verifier states what is wrong: the last one before its statistics.
fn complaint(verifier: &str) -> Option<&str> {
    const STATISTICS: [&str; 3] = ["processed ", "verification time ", "stack depth "];
    let is_statistics = |line: &str| STATISTICS.iter().any(|begin| line.starts_with(begin));
    verifier.lines().map(str::trim).rfind(|line| !line.is_empty() && !is_statistics(line))
}

/// Names the helper function that the program calls and this kernel does not have.
fn missing_helper(verifier: &str) -> Option<String> {
    const BPF_LOOP: &str = "181";
    let (_, number) = verifier.split_once("invalid func unknown#")?;
    let number: String = number.chars().take_while(char::is_ascii_digit).collect();
    let name = if number == BPF_LOOP { " (bpf_loop, since Linux 5.17)" } else { "" };
    Some(format!("this kernel has no BPF helper function {number}{name}; see: hotcc doctor"))
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error;

    #[test]
    fn a_failure_keeps_libbpfs_error_as_its_cause() {
        let failed = |log| {
            let libbpfs = std::io::Error::from_raw_os_error(nix::libc::EINVAL).into();
            explained(Err::<(), libbpf_rs::Error>(libbpfs), "x", "x.bpf.o", log).unwrap_err()
        };
        let error = failed("libbpf: no such thing\n");
        assert!(error.source().is_some_and(|cause| cause.is::<libbpf_rs::Error>()));
        let text = "cannot load x (x.bpf.o): Invalid argument (os error 22); libbpf: no such thing";
        assert_eq!((format!("{error:#}").as_str(), error.kind()), (text, Kind::Failed));
        assert_eq!(failed("libbpf: map type is not supported").kind(), Kind::KernelLacks);
    }

    #[test]
    fn the_first_line_states_what_the_verifier_rejects() {
        let invalid = std::io::Error::from_raw_os_error(nix::libc::EACCES);
        let log = "libbpf: prog 'x_init': BPF program load failed: Permission denied\n\
                   libbpf: prog 'x_init': -- BEGIN PROG LOAD LOG --\n0: (61) r1 = *(u32 *)(r0 +0)\nR0 !read_ok\n\
                   verification time 9 usec\nstack depth 0\nprocessed 1 insns\n-- END PROG LOAD LOG --\n";
        let error = format!("{:#}", explained(Err::<(), _>(invalid), "x", "x.bpf.o", log).unwrap_err());
        let text =
            "cannot load x (x.bpf.o): the kernel's verifier rejects it: R0 !read_ok: Permission denied (os error 13); ";
        assert!(error.lines().next().is_some_and(|line| line.starts_with(text)), "{error}");
        assert!(error.lines().any(|line| line == "  R0 !read_ok"), "{error}");
    }

    #[test]
    fn a_helper_that_the_kernel_does_not_have_is_named() {
        let invalid = std::io::Error::from_raw_os_error(nix::libc::EINVAL);
        let log = "libbpf: prog 'choose': BPF program load failed: Invalid argument\n\
                   libbpf: prog 'choose': -- BEGIN PROG LOAD LOG --\n57: (85) call unknown#181\ninvalid func unknown#181\n\
                   processed 58 insns\n-- END PROG LOAD LOG --\nlibbpf: failed to load object 'policy'\n";
        let error = explained(Err::<(), _>(invalid), "policy", "builtin", log).unwrap_err();
        let text = "cannot load policy (builtin): Invalid argument (os error 22); \
                    this kernel has no BPF helper function 181 (bpf_loop, since Linux 5.17); see: hotcc doctor";
        assert_eq!((format!("{error:#}").as_str(), error.kind()), (text, Kind::KernelLacks));
    }

    #[test]
    fn the_line_that_names_the_cause_is_shown() {
        let emfile = std::io::Error::from_raw_os_error(nix::libc::EMFILE);
        let log = "libbpf: prog 'x_init': BPF program load failed: -EMFILE\nlibbpf: prog 'x_init': -- BEGIN PROG LOAD LOG --\n\
                   processed 107 insns\n-- END PROG LOAD LOG --\nlibbpf: prog 'x_init': failed to load: -EMFILE\n\
                   libbpf: failed to load object 'x.bpf.o'\n";
        let error = explained(Err::<(), _>(emfile), "x", "x.bpf.o", log).unwrap_err();
        let text = "cannot load x (x.bpf.o): Too many open files (os error 24); libbpf: prog 'x_init': BPF program load failed: -EMFILE";
        assert_eq!(format!("{error:#}"), text);
    }
}
