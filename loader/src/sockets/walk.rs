//! Walks over the open TCP sockets of a network namespace with a program in the kernel.

use hotcc_host::error::{Error, Result, Tried};
use hotcc_host::netns::NetNs;
use libbpf_rs::{Iter, Link, MapCore, Object, ObjectBuilder};
use std::io::Read;
use std::path::Path;

/// An iterator program over TCP sockets, which is loaded once and can be run several times.
#[derive(Debug)]
pub(crate) struct SocketWalk {
    object: Object,
    link: Link,
}

impl SocketWalk {
    pub(crate) fn load(name: &str, prepare: impl FnOnce(&mut libbpf_rs::OpenObject) -> Result<()>) -> Result<Self> {
        let embedded =
            hotcc_bpf::prog(name).ok_or_else(|| Error::failed(format!("the program {name} is not built in")))?;
        let tried = || format!("cannot load the socket iterator ({name}); it needs iter/tcp (kernel 5.9 or later)");
        let mut open = ObjectBuilder::default().open_memory(embedded.bytes).tried(tried)?;
        prepare(&mut open)?;
        let object = open.load().tried(tried)?;
        let program = object.progs_mut().find(|program| program.autoload());
        let link =
            program.ok_or_else(|| Error::failed(format!("the object {name} has no program")))?.attach().tried(tried)?;
        Ok(Self { object, link })
    }

    /// Walks the sockets of the calling thread's network namespace, which is `ns`.
    pub(crate) fn run(&self, ns: &NetNs) -> Result<()> {
        self.read(ns, &mut Vec::new())
    }

    /// Walks the sockets as [`run`](Self::run) does, and appends the program's output to `output`.
    pub(crate) fn read(&self, ns: &NetNs, output: &mut Vec<u8>) -> Result<()> {
        walk(&self.link, ns, output)
    }

    pub(crate) fn map(&self, suffix: &str) -> Result<libbpf_rs::Map<'_>> {
        let found = self.object.maps().find(|m| m.name().to_string_lossy().ends_with(suffix));
        found.ok_or_else(|| Error::failed(format!("the socket iterator has no map {suffix}")))
    }
}

/// Walks the sockets of the calling thread's network namespace, which is `ns`, and appends the program's output to
/// `output`.
pub(crate) fn walk(link: &Link, ns: &NetNs, output: &mut Vec<u8>) -> Result<()> {
    let tried = || format!("cannot walk the sockets of network namespace {}", ns.path.display());
    if !has_sockets() {
        return Ok(());
    }
    let mut iterator = Iter::new(link).tried(tried)?;
    let mut buffer = [0u8; 8192];
    loop {
        match iterator.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => output.extend_from_slice(&buffer[..length]),
            // the kernel interrupts long walks to let other tasks run
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(e).tried(tried),
        }
    }
}

/// Returns whether the calling thread's network namespace has any TCP socket. A walk visits the kernel's whole hash
/// table, which takes milliseconds even for an empty namespace; reading these counters takes microseconds.
fn has_sockets() -> bool {
    let in_use = |file: &str, protocol: &str| {
        let text = std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default();
        let line = text.lines().find_map(|l| l.strip_prefix(protocol)).map(str::to_owned);
        // assume sockets if the line is missing or the file cannot be read; without `sockstat6` there is no IPv6
        line.is_none_or(|l| !l.trim_start().starts_with("inuse 0"))
    };
    in_use("sockstat", "TCP:")
        || (Path::new("/proc/thread-self/net/sockstat6").exists() && in_use("sockstat6", "TCP6:"))
}
